"""``python -m validation.sampling``: compare the estimates of samples with exact runs, on the suite."""

from __future__ import annotations

import argparse
import sys

from tracegen.kernel_library.suites import POLYBENCH
from validation.common import records
from validation.common.records import positive
from validation.sampling import elsewhere, grid
from validation.sampling.measure import MEASURED, Row, differences, from_csv, measure, to_csv
from validation.sampling.reasons import NOTES
from validation.sampling.report import RESULTS, coverage_table, results


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.sampling", description=__doc__)
    parser.add_argument(
        "--kernels", nargs="+", choices=POLYBENCH, default=list(POLYBENCH), metavar="KERNEL", help="only these kernels"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record; needs all kernels")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    output.add_argument("--recorded", action="store_true", help="write the page again from the committed record")
    output.add_argument("--elsewhere", action="store_true", help="sample blocks of other kernels on other GPUs")
    parser.add_argument("--grid", action="store_true", help="sample whole grids with the L2 instead")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes with --grid (default: 2)")
    options = parser.parse_args()
    if options.grid:
        _compare_grids(options)
        return
    if options.record and options.kernels != list(POLYBENCH):
        parser.error("--record needs all kernels")
    if options.recorded:
        RESULTS.write_text(results(from_csv(MEASURED.read_text()), NOTES))
        return
    if options.elsewhere:
        print("\n".join(coverage_table(list(elsewhere.measure()))))
        return
    rows: list[Row] = []
    for kernel in options.kernels:
        print(kernel, file=sys.stderr, flush=True)
        rows += measure(kernel)
    if options.record:
        MEASURED.write_text(to_csv(rows))
        RESULTS.write_text(results(from_csv(to_csv(rows)), NOTES))
    elif options.check:
        lines = differences(rows, from_csv(MEASURED.read_text()))
        print("\n".join(lines) or f"{len(rows)} estimates are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print("\n".join(coverage_table(rows)))


def _compare_grids(options: argparse.Namespace) -> None:
    recorded = records.from_csv(grid.GridRow, grid.MEASURED.read_text()) if grid.MEASURED.exists() else []
    rows = recorded if options.recorded else list(grid.measure(options.jobs))
    if options.record or options.recorded:
        grid.write(rows)
    elif options.check:
        lines = grid.differences(rows, recorded)
        print("\n".join(lines) or f"{len(rows)} rows are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(grid.results(rows), end="")


if __name__ == "__main__":
    main()
