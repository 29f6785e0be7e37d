"""``python -m validation.tiling``: simulate and rank the tiles of tiled kernels, and record or check the results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation.common.records import positive, run_all
from validation.tiling.measure import BY_NAME, GPUS, Row, Task, measure, tasks
from validation.tiling.predict import Case, Exact, cases, exact_again, rank
from validation.tiling.predict import Quick as QuickRow
from validation.tiling.quality import Quality, tables
from validation.tiling.report import QUICK_TASKS, differences, ranked_already, read, store, table, write, write_page


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.tiling", description=__doc__)
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=GPUS, default=list(GPUS), help="only these GPUs")
    parser.add_argument(
        "--kernels", nargs="+", metavar="KERNEL", choices=[*BY_NAME], default=[*BY_NAME], help="only these kernels"
    )
    parser.add_argument("--quick", action="store_true", help="only the tiles that the tests simulate again")
    parser.add_argument(
        "--only", choices=("simulated", "predicted"), help="run only the simulator, or only the rankings"
    )
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the rows of the committed record")
    output.add_argument("--resume", action="store_true", help="add the rows that are missing in the committed record")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    output.add_argument("--recorded", action="store_true", help="write the page again from the committed record")
    return parser.parse_args()


def record(wanted: Sequence[Task], jobs: int) -> None:
    """Simulate, and write the record after every row, so that ``--resume`` can continue an interrupted run."""
    rows = {row.key: row for row in read(Row)}
    for row in run_all(measure, wanted, jobs):
        rows[row.key] = row
        write(Row, rows.values())
    write_page()


def record_rankings(wanted: Sequence[Case], jobs: int) -> None:
    """Rank, and write the record after every case."""
    for ranked in run_all(rank, wanted, jobs):
        store(ranked)
    write_page()


def check(wanted: Sequence[Task], ranked: Sequence[Case], options: argparse.Namespace) -> list[str]:
    """Return a line for each row that differs from the recorded one; ``--quick`` leaves quick rankings out."""
    lines = []
    if options.only != "predicted":
        lines += differences(list(run_all(measure, wanted, options.jobs)), read(Row))
    if options.only != "simulated" and options.quick:
        lines += differences(list(run_all(exact_again, wanted, options.jobs)), read(Exact))
    elif options.only != "simulated":
        for exact, quick, _ in run_all(rank, ranked, options.jobs):
            lines += differences(exact, read(Exact)) + differences(quick, read(QuickRow))
    return lines


def main() -> None:
    """Run the command."""
    options = parse()
    wanted = [task for task in tasks(options.gpus, options.kernels) if not options.quick or task in QUICK_TASKS]
    ranked = [] if options.quick and not options.check else cases(options.gpus, options.kernels)
    if options.recorded:
        write_page()
    elif options.record or options.resume:
        if options.resume:
            simulated, done = {row.key for row in read(Row)}, ranked_already()
            wanted = [task for task in wanted if task not in simulated]
            ranked = [case for case in ranked if case not in done]
        if options.only != "predicted":
            record(wanted, options.jobs)
        if options.only != "simulated":
            record_rankings(ranked, options.jobs)
    elif options.check:
        lines = check(wanted, ranked, options)
        print("\n".join(lines) or "all rows are as recorded")
        sys.exit(1 if lines else 0)
    else:
        show(wanted, ranked, options)


def show(wanted: Sequence[Task], ranked: Sequence[Case], options: argparse.Namespace) -> None:
    """Print the tables of new runs, with rankings beside the recorded rows of the simulator."""
    if options.only != "predicted":
        print(table(list(run_all(measure, wanted, options.jobs))), end="")
    if options.only != "simulated" and ranked:
        exact, quick, seconds = (
            [row for one in rows for row in one] for rows in zip(*run_all(rank, ranked, options.jobs), strict=True)
        )
        print(tables(Quality(read(Row), exact, quick), {row.key: row.seconds for row in seconds}), end="")


if __name__ == "__main__":
    main()
