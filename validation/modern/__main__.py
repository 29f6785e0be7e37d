"""``python -m validation.modern``: predict counters of GPUs from Pascal to Ampere, and print the errors."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from validation.common import records
from validation.modern import report, simulated
from validation.modern.cases import CASES, Counter, read_counters, read_points
from validation.modern.study import Score, score_case, score_point


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.modern", description=__doc__)
    parser.add_argument(
        "--kernels", nargs="+", metavar="KERNEL", choices=[*CASES], help="only these kernels, no curves"
    )
    parser.add_argument("--simulator", action="store_true", help="compare the model with the simulator (minutes)")
    parser.add_argument(
        "--gpus", nargs="+", metavar="GPU", choices=simulated.GPUS, help="with --simulator: only these presets"
    )
    parser.add_argument("--jobs", type=records.positive, default=2, help="with --simulator: processes (default: 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV")
    output.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    if options.record and (options.kernels or options.gpus):
        parser.error("--record takes all rows; leave out --kernels and --gpus")
    if options.gpus and not options.simulator:
        parser.error("--gpus selects presets of --simulator; add it")
    return options


def compare_simulator(options: argparse.Namespace) -> None:
    """Compare the model with the simulator; print or record the rows."""
    tasks = simulated.tasks(options.gpus or simulated.GPUS, simulated.KERNELS)
    rows = list(records.run_all(simulated.run, tasks, options.jobs))
    if options.record:
        simulated.write(rows)
    else:
        print(records.to_csv(simulated.Row, rows) if options.csv else simulated.page(rows), end="")


def score_kernels(names: Iterable[str]) -> list[Score]:
    """Return the scores of all counters of some kernels, in the order of the measured rows."""
    groups: dict[tuple[str, str], list[Counter]] = {}
    for counter in read_counters():
        if counter.case in names:
            groups.setdefault((counter.case, counter.gpu), []).append(counter)
    return [score for group in groups.values() for score in score_case(group)]


def main() -> None:
    """Run the command."""
    options = parse()
    if options.simulator:
        compare_simulator(options)
        return
    curves = [] if options.kernels else [score_point(point) for point in read_points()]
    counters = score_kernels(options.kernels or CASES)
    if options.record:
        report.write(curves, counters)
    elif options.csv:
        print(records.to_csv(Score, [*curves, *counters]), end="")
    elif options.kernels:
        print(report.counter_table(counters), end="")
    else:
        print(report.pages(curves, counters), end="")


if __name__ == "__main__":
    main()
