"""``python -m validation.tiles``: simulate the tiles of tiled kernels, and keep or check the record of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation.record import positive, run_all
from validation.tiles.measure import BY_NAME, GPUS, Row, Task, measure, tasks
from validation.tiles.report import QUICK, moved, read, table, write, write_page


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.tiles", description=__doc__)
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=GPUS, default=list(GPUS), help="only these")
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=[*BY_NAME], default=[*BY_NAME])
    parser.add_argument("--quick", action="store_true", help="only the few tiles that the tests simulate again")
    parser.add_argument("--jobs", type=positive, default=2, help="processes (default 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the rows of the committed record")
    output.add_argument("--resume", action="store_true", help="add the rows that the committed record has not got")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail where it moved")
    output.add_argument("--recorded", action="store_true", help="write the page of the record again, without any run")
    return parser.parse_args()


def record(wanted: Sequence[Task], jobs: int) -> None:
    """Simulate, and write the record after every row: a run that is broken off is gone on with by ``--resume``."""
    rows = {row.key: row for row in read()}
    for row in run_all(measure, wanted, jobs):
        rows[row.key] = row
        write(rows.values())
    write_page()


def main() -> None:
    """Run the command."""
    options = parse()
    wanted = [task for task in tasks(options.gpus, options.kernels) if not options.quick or task in QUICK]
    if options.recorded:
        write_page()
    elif options.record:
        record(wanted, options.jobs)
    elif options.resume:
        held = {row.key for row in read()}
        record([task for task in wanted if task not in held], options.jobs)
    else:
        rows: list[Row] = list(run_all(measure, wanted, options.jobs))
        if not options.check:
            print(table(rows), end="")
            return
        lines = moved(rows, read())
        print("\n".join(lines) or f"{len(rows)} rows are as recorded")
        sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
