"""``python -m validation.estimation``: compare quick estimates with exact runs."""

from __future__ import annotations

import argparse
import sys

from validation.common import records
from validation.common.records import positive, run_all
from validation.estimation.kernels import CASES
from validation.estimation.measure import GPUS, MEASURED, QUICK, Row, differences, measure_kernel
from validation.estimation.report import RESULTS, results, summary, write


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.estimation", description=__doc__)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=CASES, help="only these kernels")
    parser.add_argument("--quick", action="store_true", help="only the kernels that the tests run again")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    output.add_argument("--recorded", action="store_true", help="write the page again from the committed record")
    options = parser.parse_args()
    if options.recorded:
        RESULTS.write_text(results(records.from_csv(Row, MEASURED.read_text())))
        return
    if options.record and (options.kernels or options.quick):
        parser.error("--record takes everything; leave out --kernels and --quick")
    kernels = options.kernels or (QUICK if options.quick else CASES)
    tasks = [(gpu, kernel) for gpu in GPUS for kernel in kernels]
    rows = [row for some in run_all(measure_kernel, tasks, options.jobs) for row in some]
    if options.record:
        write(rows)
    elif options.check:
        lines = differences(rows, records.from_csv(Row, MEASURED.read_text()))
        print("\n".join(lines) or f"{len(rows)} rows are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(summary(rows), end="")


if __name__ == "__main__":
    main()
