"""``python -m validation.l2``: compare the model's L2 with the simulator's, and with hit rates of a GPU."""

from __future__ import annotations

import argparse
import sys

from validation.common import records
from validation.common.records import positive, run_all
from validation.l2.measure import (
    GPUS,
    QUICK,
    SUITE,
    Row,
    compare_few_sms,
    compare_l2s,
    compare_one_set,
    hit_rates,
    predict_measured,
)
from validation.l2.report import SIMULATED, against_simulator, differences, summary, worst_rows, write


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.l2", description=__doc__)
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=GPUS, default=list(GPUS), help="only these GPUs")
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=[*SUITE], help="only these kernels")
    parser.add_argument("--quick", action="store_true", help="only the kernels that the tests run again")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    output.add_argument("--record", action="store_true", help="renew the committed record, including the measured rows")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    options = parser.parse_args()
    if options.record and (options.kernels or options.quick or options.gpus != list(GPUS)):
        parser.error("--record takes everything; leave out --gpus, --kernels and --quick")
    return options


def tasks(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the selected (GPU, kernel) pairs in the order of the record."""
    kernels = options.kernels or (QUICK if options.quick else SUITE)
    return [(gpu, kernel) for gpu in GPUS if gpu in options.gpus for kernel in SUITE if kernel in kernels]


def main() -> None:
    """Run the command."""
    options = parse()
    rows = list(run_all(compare_l2s, tasks(options), options.jobs))
    if options.record:
        fewer = [row for some in run_all(compare_few_sms, [*SUITE], options.jobs) for row in some]
        alone = list(run_all(compare_one_set, [(row.gpu, row.kernel) for row in worst_rows(rows)], options.jobs))
        write(rows, alone, fewer, list(run_all(predict_measured, [*hit_rates()], options.jobs)))
    elif options.check:
        lines = differences(rows, records.from_csv(Row, SIMULATED.read_text()))
        print("\n".join(lines) or f"{len(rows)} rows are as recorded")
        sys.exit(1 if lines else 0)
    elif options.csv:
        print(records.to_csv(Row, rows), end="")
    else:
        print(f"{summary(rows)}\n{against_simulator(rows)}", end="")


if __name__ == "__main__":
    main()
