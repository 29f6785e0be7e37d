"""Write the table of errors, and the errors to expect of new kernels, as a file of the package."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from rdmodel.results.expected_error import FILE, ExpectedError
from validation.accuracy.rows import L1_MISS_RATE, Row

RESULTS = Path(__file__).parent / "RESULTS.md"
EXPECTED = FILE

ALL_MISS = 99.995
"""Predicted miss rate in percent from which a kernel counts as one without reuse: it is 100.00 % where printed."""

Key = TypeVar("Key", bound=Hashable)

_HEAD = """\
# All GPUs

Written by `python -m validation.accuracy --record` from the other records; it predicts nothing. Errors of rates are in
percentage points, those of counters in percent of the measured number, without counters that were measured as 0. A
kernel has several rows if it ran with several sizes, as for the points of a curve. Each kernel counts once in a mean,
by the mean of its rows; the largest error is that of a row. *Fitted* names the parameter of the preset that was chosen
on the rows of a line. All predictions are by the definition `hardware`.

"""

_EXPECTED_HEAD = """\
# Mean absolute errors of predicted L1 miss rates against counters, in percentage points: see `ExpectedError`.
# Written by `python -m validation.accuracy --record` from the records in validation/hardware, validation/modern and
# validation/counters, which name the sources of all counters.
"""


def _by(rows: Sequence[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def kernel_errors(rows: Sequence[Row]) -> list[float]:
    """Return the mean absolute error of each kernel of each GPU, in the order of the rows, where there is one."""
    kernels = _by([row for row in rows if row.error is not None], lambda row: (row.device, row.kernel))
    return [fmean(row.error or 0.0 for row in group) for group in kernels.values()]


def table(rows: Sequence[Row]) -> str:
    """Return the errors of the definition `hardware` by GPU, suite and metric."""
    lines = [
        "| GPU | suite | metric | kernels | rows | mean error | largest | fitted |",
        "|---|---|---|---:|---:|---:|---|---|",
    ]
    known = [row for row in rows if row.definition == "hardware" and row.error is not None]
    for (device, suite, metric, fitted), group in _by(known, lambda r: (r.device, r.suite, r.metric, r.fitted)).items():
        errors, unit = kernel_errors(group), " points" if group[0].is_rate else " %"
        worst = max(group, key=lambda row: row.error or 0.0)
        lines.append(
            f"| {device} | {suite} | {metric} | {len(errors)} | {len(group)} | {fmean(errors):.1f}{unit} "
            f"| {_worst(worst, unit)} | {f'`{fitted}`' if fitted else ''} |"
        )
    return "\n".join(lines) + "\n"


def _worst(row: Row, unit: str) -> str:
    text = f"{row.error:.1f}{unit}"
    return text if text.startswith("0.0") else f"{text} {row.kernel}"


def expected_errors(rows: Sequence[Row]) -> list[ExpectedError]:
    """Return the errors to expect, by architecture, definition and kind of kernel.

    Rows on which a parameter was chosen say little about other kernels. They are left out, unless an architecture has
    no others.
    """
    groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    known = [row for row in rows if row.metric == L1_MISS_RATE]
    for kernel in _by(known, lambda row: (row.device, row.definition, row.kernel)).values():
        # A kernel is one without reuse if it is predicted to hit in none of its rows.
        kind = "stream" if all(row.predicted >= ALL_MISS for row in kernel) else "reuse"
        groups[kernel[0].architecture, kernel[0].definition, kind] += kernel
    return [_expected_error(*key, [row for row in group if not row.fitted] or group) for key, group in groups.items()]


def _expected_error(architecture: str, definition: str, kind: str, rows: Sequence[Row]) -> ExpectedError:
    errors = kernel_errors(rows)
    return ExpectedError(
        architecture=architecture,
        definition=definition,
        kind=kind,
        points=round(fmean(errors), 2),
        largest=round(max(errors), 2),
        kernels=len(errors),
        gpus=tuple(sorted({row.gpu for row in rows})),
        fitted=" and ".join(sorted({row.fitted for row in rows} - {""})),
    )


def expected_text(rows: Sequence[Row]) -> str:
    """Return the data file of the package."""
    tables = [
        "\n[[error]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in error.to_dict().items())
        for error in expected_errors(rows)
    ]
    return _EXPECTED_HEAD + "".join(tables)


def page(rows: Sequence[Row]) -> str:
    """Return the page with the table."""
    return _HEAD + table(rows)


def write(rows: Sequence[Row]) -> None:
    """Renew the table and the data file."""
    RESULTS.write_text(page(rows))
    EXPECTED.write_text(expected_text(rows))
