"""``python -m validation.tuning``: rank the points of measured tuning spaces, and write the page of results."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tracegen.ptx.registers.ptxas import CHOSEN_VARIABLE
from validation.common.records import positive, run_all
from validation.tuning.predict import Task, predict, read_config
from validation.tuning.records import (
    PAGE,
    PREDICTED,
    PREDICTED_ASSEMBLY,
    PREDICTED_OLDER,
    measured,
    read,
    write,
)
from validation.tuning.report import page, write_page
from validation.tuning.spaces import IN_CUDA, SPACES, calls_ldg


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.tuning", description=__doc__)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, with the hub's folder 'kernels'")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=list(SPACES), help="only these spaces")
    parser.add_argument("--points", type=positive, help="only so many points of each space (default: all)")
    other = parser.add_mutually_exclusive_group()  # each has a record of its own
    other.add_argument("--assembly", action="store_true", help="predict points that call __ldg, with assembly for it")
    other.add_argument(
        "--ptxas", type=Path, metavar="FILE", help="predict points in CUDA, with an assembler of CUDA 12"
    )
    parser.add_argument("--resume", action="store_true", help="predict only points that are not recorded yet")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    return parser.parse_args()


def record(options: argparse.Namespace) -> Path:
    """Return the file of the predictions that are asked for."""
    return PREDICTED_ASSEMBLY if options.assembly else PREDICTED_OLDER if options.ptxas else PREDICTED


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return the points to predict, in an order that spreads over each space."""
    known = {row.key for row in read(record(options))} if options.resume else set()
    found = []
    spaces = ["convolution"] if options.assembly else IN_CUDA if options.ptxas else options.spaces
    for space in spaces:
        configs = sorted(measured()[space])
        if options.assembly:
            configs = [config for config in configs if calls_ldg(read_config(config))]
        step = next(step for step in (167, 173, 179) if len(configs) % step)
        spread = [configs[at * step % len(configs)] for at in range(len(configs))]
        found += [
            Task(space, config, str(options.sources), assembly=options.assembly) for config in spread[: options.points]
        ]
    return [task for task in found if task.key not in known]


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    options = parse()
    if options.ptxas is not None:
        os.environ[CHOSEN_VARIABLE] = str(options.ptxas.resolve())
    if options.sources is not None:
        path = record(options)
        rows = {row.key: row for row in read(path)}
        for row in run_all(predict, tasks(options), options.jobs):
            rows[row.key] = row
            write(rows.values(), path)
    if options.check:
        return int(page() != PAGE.read_text())
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
