"""``python -m validation.h100``: predict the counters that were measured on an H100, and write the page of results.

On the machine with the GPU, ``launcher.py`` runs the plan that ``python -m validation.h100.plan FOLDER`` writes:
``ncu --csv --page raw --metrics NAMES --log-file report.csv python launcher.py FOLDER/kernels.json --once``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from validation.common import records
from validation.common.pages import tables_of
from validation.h100.cases import all_cases
from validation.h100.report import RESULTS, page, write_page, write_predicted
from validation.h100.study import MEASURED, Measured, Predicted, predict, read_measured, read_predicted, read_profile


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100", description=__doc__)
    parser.add_argument("--profile", type=Path, nargs=2, metavar=("REPORT", "PLAN"), help="renew the measured metrics")
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="only these launches")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="public benchmarks (as for validation.counters)")
    parser.add_argument("--jobs", type=records.positive, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    return parser.parse_args()


def predict_again(options: argparse.Namespace) -> None:
    """Predict the chosen launches, and record each as soon as it is predicted."""
    measured = read_measured()
    known = [case for case in all_cases(options.sources) if case.name in measured]
    wanted = [case for case in known if options.cases is None or case.name in options.cases]
    rows: dict[tuple[str, str], Predicted] = {(row.case, row.counter): row for row in read_predicted()}
    order = [*measured]
    for found in records.run_all(predict, wanted, options.jobs):
        rows |= {(row.case, row.counter): row for row in found}
        write_predicted(sorted(rows.values(), key=lambda row: order.index(row.case)))


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    options = parse()
    if options.profile is not None:
        report, plan = options.profile
        cases = [launch["case"] for launch in json.loads(plan.read_text())["launches"]]
        MEASURED.write_text(records.to_csv(Measured, read_profile(report, cases)))
    if options.record:
        predict_again(options)
    if options.check:
        return int(tables_of(RESULTS) != page())
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
