"""``python -m validation.accelsim``: compare the simulator with recorded or new counts of Accel-Sim (minutes)."""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path

from validation.accelsim.accel_sim import AccelSim
from validation.accelsim.study import CACHES, COUNTED, KERNELS, RUNS, SCHEDULERS, Counts, page, read, simulate, write
from validation.common import records


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.accelsim", description=__doc__)
    parser.add_argument("--jobs", type=records.positive, default=1, help="processes (default: 1)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record of the simulator")
    output.add_argument("--count", type=Path, metavar="PROGRAM", help="count with this accel-sim.out, and print CSV")
    parser.add_argument("--machine", type=Path, metavar="DIR", help="with --count: GPGPU-Sim's folder SM2_GTX480")
    options = parser.parse_args()
    if (options.count is None) != (options.machine is None):
        parser.error("--count and --machine go together")
    return options


def _count(program: AccelSim, run: tuple[str, int, str]) -> Counts:
    return program.count(*run)


def main() -> None:
    """Run the command."""
    options = parse()
    if options.count:
        program = AccelSim(options.count, options.machine)
        runs = list(product(KERNELS, CACHES, SCHEDULERS))
        print(records.to_csv(Counts, records.run_all(partial(_count, program), runs, options.jobs)), end="")
        return
    simulated = list(records.run_all(simulate, RUNS, options.jobs))
    if options.record:
        write(simulated)
    else:
        print(page(read(COUNTED), simulated), end="")


if __name__ == "__main__":
    main()
