"""``python -m validation.counters --sources DIR``: predict counters of public benchmarks from their own sources."""

from __future__ import annotations

import argparse
from pathlib import Path

from validation.common import records
from validation.counters import report
from validation.counters.cases import CASES
from validation.counters.study import Row, study_case


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.counters", description=__doc__)
    parser.add_argument(
        "--sources", type=Path, required=True, metavar="DIR", help="folder with rodinia, parboil and cuda-samples"
    )
    parser.add_argument("--cases", nargs="+", metavar="CASE", choices=[*CASES], help="only these kernels")
    parser.add_argument("--simulate", action="store_true", help="simulate the kernels as well (minutes)")
    parser.add_argument("--jobs", type=records.positive, default=1, metavar="N", help="processes (default: 1)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV")
    output.add_argument("--record", action="store_true", help="renew the committed record of these kernels")
    options = parser.parse_args()
    if not options.sources.is_dir():
        parser.error(f"{options.sources}: must be an existing folder")
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    names = options.cases or [*CASES]
    tasks = [(name, options.sources, options.simulate) for name in names]
    rows = [row for found in records.run_all(study_case, tasks, options.jobs) for row in found]
    if options.record:
        kept = [row for row in report.read_rows() if row.case not in names]
        report.write(sorted([*kept, *rows], key=lambda row: [*CASES].index(row.case)))
    else:
        print(records.to_csv(Row, rows) if options.csv else report.pages(rows), end="")


if __name__ == "__main__":
    main()
