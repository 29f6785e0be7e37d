"""``python -m validation.breadth DIR...``: compile the CUDA files of folders, and count the kernels that are usable."""

from __future__ import annotations

import argparse
from pathlib import Path

from validation.breadth import report
from validation.breadth.study import Outcome, find_tasks, merge, study_file
from validation.common import records


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.breadth", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="DIR", help="a folder of CUDA files: a suite, or NAME=DIR")
    parser.add_argument("--jobs", type=records.positive, default=1, metavar="N", help="processes (default: 1)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print the outcome of each kernel as CSV")
    output.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    options.suites = {}
    for text in options.folders:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        if not path.is_dir():
            parser.error(f"{text}: must be an existing folder, or NAME=DIR with one")
        options.suites[name if equals else path.resolve().name] = path
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    tasks = [task for name, folder in options.suites.items() for task in find_tasks(name, folder)]
    results = records.run_all(study_file, tasks, options.jobs)
    outcomes: list[Outcome] = merge(outcome for found in results for outcome in found)
    if options.record:
        report.write(outcomes)
    elif options.csv:
        print(records.to_csv(Outcome, outcomes), end="")
    else:
        print(report.pages(outcomes), end="")


if __name__ == "__main__":
    main()
