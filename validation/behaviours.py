"""``python -m validation.behaviours``: look for the behaviours that the papers describe in the simulator's counters."""

from __future__ import annotations

import argparse
import sys

from validation.record import positive, run_all
from validation.simulator.behaviours import RESULTS, results
from validation.simulator.measure import MEASURED, from_csv, measure, runs, to_csv


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.behaviours", description=__doc__)
    parser.add_argument("--jobs", type=positive, default=2, help="processes (default 2)")
    parser.add_argument("--recorded", action="store_true", help="take the committed counters instead of running")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument(
        "--check", action="store_true", help="compare with the committed counters; fail where they moved"
    )
    options = parser.parse_args()
    recorded = from_csv(MEASURED.read_text()) if options.recorded or options.check else []
    measured = recorded if options.recorded else list(run_all(measure, runs(), options.jobs))
    if options.record:
        MEASURED.write_text(to_csv(measured))
        RESULTS.write_text(results(measured))
    elif options.check:
        moved = [f"{one.kernel} on {one.machine}" for one in measured if one not in recorded]
        print("\n".join(moved) or f"{len(measured)} runs are as recorded")
        sys.exit(1 if moved else 0)
    else:
        print(results(measured), end="")


if __name__ == "__main__":
    main()
