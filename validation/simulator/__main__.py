"""``python -m validation.simulator``: compare the model, and the behaviours in papers, with the simulator.

Without ``--behaviours``, run the model and the simulator on the scenarios of ``scenarios.toml`` and compare their miss
rates. With it, look for the behaviours that papers describe in the counters of the simulator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation.common.records import positive, run_all
from validation.simulator import behaviours, causes, measure
from validation.simulator.report import REFERENCE, RESULTS, differences, from_csv, results, to_csv
from validation.simulator.scenarios import run, scenarios, suite


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.simulator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--behaviours", action="store_true", help="check the behaviours that papers describe")
    parser.add_argument("--gpus", nargs="+", metavar="GPU", choices=[*scenarios()], help="only these scenarios")
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=[*suite()], help="only these kernels")
    parser.add_argument("--quick", action="store_true", help="only the kernels that the tests run again")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="take the committed results instead of new runs",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    options = parser.parse_args()
    some = options.gpus or options.kernels or options.quick
    if options.record and some:
        parser.error("--record takes all scenarios; leave out --gpus, --kernels and --quick")
    if options.recorded and (some or options.check):
        parser.error("--recorded takes all committed results; leave out --gpus, --kernels, --quick and --check")
    if options.behaviours and (some or options.csv):
        parser.error("--behaviours takes all its runs; leave out --gpus, --kernels, --quick and --csv")
    return options


def tasks(gpus: Sequence[str] | None, names: Sequence[str] | None, quick: bool) -> list[tuple[str, str]]:
    """Return the selected (scenario, kernel) pairs in the order of the record; None selects all."""
    return [
        (gpu, kernel)
        for gpu, scenario in scenarios().items()
        if gpus is None or gpu in gpus
        for kernel in suite()
        if (names is None or kernel in names) and (not quick or kernel in scenario.quick)
    ]


def compare_model(options: argparse.Namespace) -> None:
    """Compare the model with the simulator; print, record or check the rates."""
    if options.recorded:
        rows = from_csv(REFERENCE.read_text())
    else:
        rows = list(run_all(run, tasks(options.gpus, options.kernels, options.quick), options.jobs))
    if options.record:
        if not options.recorded:
            causes.CAUSES.write_text(causes.to_csv(run_all(causes.run, causes.experiments(), options.jobs)))
        REFERENCE.write_text(to_csv(rows))
        RESULTS.write_text(results(rows))
    elif options.check:
        finish_check(differences(rows, from_csv(REFERENCE.read_text())), f"{len(rows)} rows are as recorded")
    else:
        print(to_csv(rows) if options.csv else results(rows), end="")


def check_behaviours(options: argparse.Namespace) -> None:
    """Check the claims of papers against the simulator's counters; print, record or check the counters."""
    recorded = measure.from_csv(measure.MEASURED.read_text()) if options.recorded or options.check else []
    measured = recorded if options.recorded else list(run_all(measure.measure, measure.runs(), options.jobs))
    if options.record:
        measure.MEASURED.write_text(measure.to_csv(measured))
        behaviours.RESULTS.write_text(behaviours.results(measured))
    elif options.check:
        lines = [f"{row.kernel} on {row.machine}" for row in measured if row not in recorded]
        finish_check(lines, f"{len(measured)} runs are as recorded")
    else:
        print(behaviours.results(measured), end="")


def finish_check(differences: Sequence[str], agreement: str) -> None:
    """Print the differences from the record, or that there are none; exit with status 1 or 0."""
    print("\n".join(differences) or agreement)
    sys.exit(1 if differences else 0)


def main() -> None:
    """Run the command."""
    options = parse()
    if options.behaviours:
        check_behaviours(options)
    else:
        compare_model(options)


if __name__ == "__main__":
    main()
