"""``python -m validation.policies``: hold what papers say of cache-management policies against the simulator."""

from __future__ import annotations

import argparse
import sys

from validation.policies import measure, patterns
from validation.policies.report import RESULTS, changed, claims, moved, results, to_markdown
from validation.record import positive


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
        print(to_markdown(claims(*recorded())), end="")
        return
    counted, seen = measure.measure_all(options.jobs), patterns.look_at_all(options.jobs)
    if options.record:
        measure.MEASURED.write_text(measure.to_csv(counted))
        patterns.PATTERNS.write_text(patterns.to_csv(seen))
        RESULTS.write_text(results(counted, seen))
    elif options.check:
        runs, lines_used = recorded()
        lines = moved(counted, runs) + changed(seen, lines_used)
        print("\n".join(lines) or f"{len(counted)} runs and {len(seen)} patterns are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(to_markdown(claims(counted, seen)), end="")


def recorded() -> tuple[list[measure.Measurement], list[patterns.Pattern]]:
    """Return the committed record."""
    return measure.from_csv(measure.MEASURED.read_text()), patterns.from_csv(patterns.PATTERNS.read_text())


if __name__ == "__main__":
    main()
