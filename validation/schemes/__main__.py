"""``python -m validation.schemes``: compare all schemes of cache management on SMs of three generations."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from rdmodel.answers.store import Answers
from rdmodel.cli.progress_line import bar_progress
from validation.common import records
from validation.schemes import machines, report


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.schemes", description=__doc__)
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=machines.SLICES, help="only these presets")
    parser.add_argument("--jobs", type=records.positive, default=2, help="number of processes (default: 2)")
    parser.add_argument("--cache", metavar="FILE", help="answers file that keeps finished runs")
    parser.add_argument("--recorded", action="store_true", help="take the committed runs instead of new ones")
    parser.add_argument("--record", action="store_true", help="renew the committed record, its tables and the figure")
    return parser.parse_args()


def main() -> None:
    """Run the command."""
    options = parse()
    gpus = options.gpus or list(machines.SLICES)
    if options.recorded:
        runs = machines.recorded(gpus)
    else:
        runs = []
        for gpu in gpus:
            kept = nullcontext() if options.cache is None else Answers(options.cache)
            with kept as answers, bar_progress("runs") as bar:
                result = machines.run_contest(gpu, options.jobs, answers, bar)
                greedy = machines.run_greedy(gpu, options.jobs, answers)
            if options.record:
                machines.write(gpu, result, greedy)
            runs += machines.all_runs(gpu, result, greedy)
    if options.record:
        known = machines.recorded()
        report.RESULTS.write_text(report.page(known))
        report.draw(known)
    else:
        sys.stdout.write(report.page(runs))


if __name__ == "__main__":
    main()
