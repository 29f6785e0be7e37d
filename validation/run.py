"""``python -m validation.run``: compare the model with the simulator on the scenarios of ``scenarios.toml``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation.record import positive, run_all
from validation.simulator import causes
from validation.simulator.report import REFERENCE, RESULTS, from_csv, moved, results, to_csv
from validation.simulator.scenarios import run, scenarios, suite


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.run", description=__doc__)
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=[*scenarios()], help="only these")
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=[*suite()], help="only these")
    parser.add_argument("--quick", action="store_true", help="only the kernels that the tests run again")
    parser.add_argument("--jobs", type=positive, default=2, help="processes (default 2)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail where it moved")
    options = parser.parse_args()
    if options.record and (options.gpus or options.kernels or options.quick):
        parser.error("--record is of all scenarios; leave out --gpus, --kernels and --quick")
    return options


def tasks(gpus: Sequence[str] | None, names: Sequence[str] | None, quick: bool) -> list[tuple[str, str]]:
    """Return (scenario, kernel) of all that is to be run, in the order of the record."""
    return [
        (gpu, kernel)
        for gpu, scenario in scenarios().items()
        if gpus is None or gpu in gpus
        for kernel in suite()
        if (names is None or kernel in names) and (not quick or kernel in scenario.quick)
    ]


def main() -> None:
    """Run the command."""
    options = parse()
    rows = list(run_all(run, tasks(options.gpus, options.kernels, options.quick), options.jobs))
    if options.record:
        causes.CAUSES.write_text(causes.to_csv(run_all(causes.run, causes.experiments(), options.jobs)))
        REFERENCE.write_text(to_csv(rows))
        RESULTS.write_text(results(rows))
    elif options.check:
        lines = moved(rows, from_csv(REFERENCE.read_text()))
        print("\n".join(lines) or f"{len(rows)} rows are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(to_csv(rows) if options.csv else results(rows), end="")


if __name__ == "__main__":
    main()
