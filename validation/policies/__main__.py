"""``python -m validation.policies``: check the papers' claims about cache-management policies in the simulator."""

from __future__ import annotations

import argparse
import sys

from validation.common.records import positive
from validation.policies import measure, patterns
from validation.policies.report import differences, judged, pages, pattern_differences, to_markdown


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.policies", description=__doc__)
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    parser.add_argument(
        "--jitter",
        type=positive,
        default=measure.VARIANTS,
        metavar="N",
        help=f"variants of every run, with other latencies and addresses (default: {measure.VARIANTS})",
    )
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="take the committed runs instead of new ones; with --record, renew pages",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record and its pages")
    output.add_argument("--check", action="store_true", help="compare with the committed record; fail if it differs")
    options = parser.parse_args()
    if options.recorded and options.check:
        parser.error("--recorded makes no runs to compare; leave out --check")
    if options.jitter > measure.VARIANTS or (options.record and options.jitter != measure.VARIANTS):
        parser.error(
            f"--jitter {options.jitter}: the record has {measure.VARIANTS} variants; must be at most that many"
        )
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    if options.recorded:
        counted, seen = recorded()
    else:
        counted = measure.measure_all(options.jobs, options.jitter)
        seen = patterns.classify_all(options.jobs)
    if options.record:
        measure.MEASURED.write_text(measure.to_csv(one for one in counted if not one.variant))
        measure.VARIED.write_text(measure.to_csv(one for one in counted if one.variant))
        patterns.PATTERNS.write_text(patterns.to_csv(seen))
        for path, text in pages(counted, seen).items():
            path.write_text(text)
    elif options.check:
        runs, lines_used = recorded()
        lines = differences(counted, runs) + pattern_differences(seen, lines_used)
        print("\n".join(lines) or f"{len(counted)} runs and {len(seen)} patterns are as recorded")
        sys.exit(1 if lines else 0)
    else:
        print(to_markdown(judged(counted, seen)), end="")


def recorded() -> tuple[list[measure.Measurement], list[patterns.Pattern]]:
    """Return the committed record: all variants of the runs, and the patterns."""
    runs = [one for file in (measure.MEASURED, measure.VARIED) for one in measure.from_csv(file.read_text())]
    return runs, patterns.from_csv(patterns.PATTERNS.read_text())


if __name__ == "__main__":
    main()
