"""``python -m validation.liger``: compare operations of Liger-Kernel with the times that its authors published.

``--releases DIR`` predicts again: DIR has a folder for each release that `published.csv` names, as
``pip install --no-deps --target DIR/RELEASE liger-kernel==RELEASE`` makes it. It needs torch and Triton 3.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from validation.common import records
from validation.common.pages import renew_or_check
from validation.liger.rows import FOLDER, PREDICTED, Predicted, Published, predicted, published
from validation.tuning.measures import quality, quantile_cells

RESULTS = FOLDER / "RESULTS.md"

LONG = 50.0
"""Microseconds from which what lies between two events beside the kernels hardly counts."""


def record(releases: Path, only: Sequence[str]) -> None:
    """Predict the rows of some releases, or of all, with a process for each; keep what is finished."""
    rows = published()
    found = {row.key: row for row in (predicted() if PREDICTED.exists() else ())}
    for release in only or sorted({row.release for row in rows}):
        paths = [str(releases / release), str(FOLDER.parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        command = [sys.executable, "-m", "validation.liger.predict", release]
        ended = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True)
        found |= {row.key: row for row in records.from_csv(Predicted, ended.stdout)}
        PREDICTED.write_text(records.to_csv(Predicted, [found[row.key] for row in rows if row.key in found]))
        ended.check_returncode()


def page() -> str:
    """Return the tables of the page."""
    pairs = list(zip(published(), predicted(), strict=True))
    parts = [
        _summary(pairs, "GPU", lambda row: row.gpu),
        _summary([pair for pair in pairs if pair[0].microseconds >= LONG], "GPU", lambda row: row.gpu),
        _summary(pairs, "operation", lambda row: row.operation),
    ]
    head = "| GPU | operation | shape | type | measured us | predicted us | ratio | longer by us | bound by |"
    lines = [head, "|---|---|---|---|---:|---:|---:|---:|---|"]
    lines += [
        f"| {row.gpu} | {row.operation} | {row.shape} | {row.type} | {row.microseconds:,.1f} "
        f"| {found.microseconds:,.1f} | {found.microseconds / row.microseconds:.2f} "
        f"| {row.microseconds - found.microseconds:,.1f} | {found.bound} |"
        for row, found in pairs
    ]
    titles = ("## By GPU", f"## By GPU, {LONG:.0f} microseconds and more", "## By operation")
    tables = "\n\n".join(f"{title}\n\n{part}" for title, part in zip(titles, parts, strict=True))
    return f"{tables}\n\n## All\n\n" + "\n".join(lines) + "\n"


def _summary(pairs: list[tuple[Published, Predicted]], title: str, group: Callable[[Published], str]) -> str:
    """Return the quantiles of predicted / measured time by group, and the rank correlation."""
    lines = [f"| {title} | rows | tau | 10 % | 50 % | 90 % |", "|---|---:|---:|---:|---:|---:|"]
    for name in dict.fromkeys(group(row) for row, _ in pairs):
        own = [(row, found) for row, found in pairs if group(row) == name]
        measured, times = [row.microseconds for row, _ in own], [found.microseconds for _, found in own]
        ratios = [time / known for time, known in zip(times, measured, strict=True)]
        tau = f"{quality(times, measured).tau:.2f}" if len(own) > 1 else ""
        lines.append(f"| {name} | {len(own)} | {tau} | {quantile_cells(ratios)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.liger", description=__doc__)
    parser.add_argument("--releases", type=Path, metavar="DIR", help="predict again, with the releases in this folder")
    parser.add_argument("--only", nargs="+", default=[], metavar="RELEASE", help="predict only these releases again")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.releases:
        record(options.releases, options.only)
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
