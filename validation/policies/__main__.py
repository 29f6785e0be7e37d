"""``python -m validation.policies``: hold what papers say of cache-management policies against the simulator."""

from __future__ import annotations

import argparse
import sys

from validation.policies.measure import MEASURED, cases, from_csv, measure_all, to_csv
from validation.policies.report import RESULTS, claims, moved, results, to_markdown


def positive(text: str) -> int:
    """Return a number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of at least 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.policies", description=__doc__)
    parser.add_argument("--jobs", type=positive, default=2, help="processes (default 2)")
    parser.add_argument("--recorded", action="store_true", help="print the table of the record, without any run")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail where it moved")
    options = parser.parse_args()
    if options.recorded and (options.record or options.check):
        parser.error("--recorded makes no runs; leave out --record and --check")
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    if options.recorded:
        print(to_markdown(claims(from_csv(MEASURED.read_text()))), end="")
        return
    measurements = list(measure_all(cases(), options.jobs))
    if options.record:
        MEASURED.write_text(to_csv(measurements))
        RESULTS.write_text(results(measurements))
    elif options.check:
        lines = moved(measurements, from_csv(MEASURED.read_text()))
        print("\n".join(lines) or f"{len(measurements)} runs are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(to_markdown(claims(measurements)), end="")


if __name__ == "__main__":
    main()
