"""Write the comparison as tables, and renew the committed record."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from validation.common import records
from validation.estimation.measure import COUNTS, FOLDER, GPUS, MEASURED, WORKS, Row

RESULTS = FOLDER / "RESULTS.md"

LARGE_ERROR = 0.4
"""Estimates with a larger relative error are listed one by one."""

HEAD = """\
# Quick estimates

Written by `python -m validation.estimation --record`.

The page compares `rdmodel.estimate` with exact runs of all blocks on all SMs. The kernels are those of PolyBench/GPU at
the sizes of the suite, and products, transposes and stencils with several tiles and block shapes (`kernels.py`). Errors
are relative to the exact count, in percent, over the estimates that did not run everything. `held` is the share of
intervals that hold the exact count; `time` is the median processor time of an estimate in ms. Estimates without L2 are
marked "single". GPUs with sectors have one value of `work` only: their waves take more than these values.
"""

WORST_HEAD = """\
## Large errors

Estimates from 150,000 transactions with an error of more than 40 %, or with an interval that misses the exact count.
"""


def write(rows: Sequence[Row]) -> None:
    """Renew the committed record."""
    MEASURED.write_text(records.to_csv(Row, rows))
    RESULTS.write_text(results(rows))


def results(rows: Sequence[Row]) -> str:
    """Return the whole page in Markdown."""
    parts = [HEAD]
    for gpu in GPUS:
        parts += [f"## {gpu}\n", summary([row for row in rows if row.gpu == gpu])]
    return "\n".join([*parts, WORST_HEAD, large_error_table(rows)])


def summary(rows: Sequence[Row]) -> str:
    """Return errors and coverage by way, work and count."""
    lines = [
        "| SMs | work | count | kernels | median error | mean | largest | held | time |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for way, words in (("l2", "all, L2"), ("l1", "single")):
        for work in WORKS:
            for count in COUNTS:
                some = [row for row in rows if (row.way, row.work, row.count) == (way, work, count) and not row.whole]
                if some:
                    off = [100 * abs(row.error) for row in some]
                    held = fmean(row.holds for row in some)
                    lines.append(
                        f"| {words} | {work:,} | {count} | {len(some)} | {median(off):.1f} | {fmean(off):.1f} "
                        f"| {max(off):.0f} | {held:.2f} | {median(row.time for row in some):.0f} |"
                    )
    return "\n".join(lines) + "\n"


def large_error_table(rows: Sequence[Row]) -> str:
    """Return the rows with a large error, or with an exact count outside the interval."""
    lines = ["| GPU | kernel | SMs | count | exact | estimate | interval |", "|---|---|---|---|---:|---:|---:|"]
    lines += [
        f"| {row.gpu} | {row.kernel} | {'all, L2' if row.way == 'l2' else 'single'} | {row.count} "
        f"| {row.exact:.4g} | {row.value:.4g} | {row.low:.4g} to {row.high:.4g} |"
        for row in rows
        if row.work == WORKS[1] and (abs(row.error) > LARGE_ERROR or not row.holds)
    ]
    return "\n".join(lines) + "\n"
