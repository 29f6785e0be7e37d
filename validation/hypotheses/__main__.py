"""``python -m validation.hypotheses``: try hypotheses about the open errors on the GTX 570 (minutes)."""

from __future__ import annotations

import argparse

from validation.common import records
from validation.hypotheses.study import HYPOTHESES, Rate, page, run, write


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.hypotheses", description=__doc__)
    parser.add_argument("--jobs", type=records.positive, default=1, help="processes (default: 1)")
    parser.add_argument("--subjects", nargs="+", choices=list(dict.fromkeys(h.subject for h in HYPOTHESES)))
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV")
    output.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    if options.record and options.subjects:
        parser.error("--record takes all subjects; leave out --subjects")
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    chosen = [each for each in HYPOTHESES if options.subjects is None or each.subject in options.subjects]
    rates = list(records.run_all(run, chosen, options.jobs))
    if options.record:
        write(rates)
    else:
        print(records.to_csv(Rate, rates) if options.csv else page(rates), end="")


if __name__ == "__main__":
    main()
