"""``python -m validation.hardware``: predict the measured rows and print the errors of the model."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import get_args

from validation.common.records import positive
from validation.hardware import simulated
from validation.hardware.report import heading, to_csv, to_json, to_markdown, write_record
from validation.hardware.rows import Row, read_rows
from validation.hardware.study import DEFINITIONS, Score, Settings, Source, score


def passes(text: str) -> int | None:
    """Parse a number of passes; "all" is None. A type of argparse."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 'all' or a number of at least 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.hardware", description=__doc__)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", help="only the rows of these kernels")
    parser.add_argument(
        "--source",
        choices=get_args(Source),
        default="python",
        help="trace the kernels in Python (default) or the compiled CUDA sources (needs NVRTC)",
    )
    parser.add_argument("--sms", choices=("1", "all"), default="1", help="SM 0 (default), or all 15 (2 minutes)")
    parser.add_argument("--seeds", type=positive, default=3, help="number of seeds of 'hardware' (default: 3)")
    parser.add_argument(
        "--pad",
        type=int,
        choices=(0, 1),
        default=1,
        help="borders of arrays in corr, covar and fdtd2d (default: 1, as measured)",
    )
    parser.add_argument(
        "--passes",
        type=passes,
        default=8,
        help="passes that represent corr.corr and covar.covar (default: 8), or 'all'",
    )
    parser.add_argument(
        "--simulator",
        action="store_true",
        help="simulate the rows on several machines (half an hour); takes --kernels, --jobs, --csv and --record",
    )
    parser.add_argument("--jobs", type=positive, default=1, help="with --simulator: processes (default: 1)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print CSV")
    output.add_argument("--json", action="store_true", help="print JSON")
    output.add_argument("--record", action="store_true", help="renew the committed record, with --sms 1 and --sms all")
    options = parser.parse_args()
    if options.record and options.kernels:
        parser.error("--record takes all rows; leave out --kernels")
    return options


def choose(kernels: Sequence[str] | None) -> list[Row]:
    """Return the rows of some kernels (None: all); exit with a message if a kernel was not measured."""
    rows = read_rows()
    known = {row.kernel for row in rows}
    for kernel in kernels or ():
        if kernel not in known:
            sys.exit(f"{kernel}: not measured; known are {', '.join(sorted(known))}")
    return [row for row in rows if kernels is None or row.kernel in kernels]


def run(rows: Sequence[Row], settings: Settings) -> list[Score]:
    """Return the scores of all rows and definitions; name each row on stderr if that is a terminal."""
    scores = []
    for row in rows:
        if sys.stderr.isatty():
            print(row.kernel, file=sys.stderr, flush=True)
        scores += [score(row, definition, settings) for definition in DEFINITIONS]
    return scores


def main() -> None:
    """Run the command."""
    options = parse()
    if options.simulator:
        if options.json:
            sys.exit("--simulator prints Markdown or, with --csv, CSV; leave out --json")
        simulated.compare(choose(options.kernels), options.jobs, record=options.record, as_csv=options.csv)
        return
    settings = Settings(
        source=options.source,
        sms=1 if options.sms == "1" else "all",
        seeds=options.seeds,
        pad=options.pad,
        passes=options.passes,
    )
    rows = choose(options.kernels)
    if options.record:
        both = [dataclasses.replace(settings, sms=sms) for sms in (1, "all")]
        write_record(settings.source, rows, [(each, run(rows, each)) for each in both])
        return
    scores = run(rows, settings)
    if options.csv or options.json:
        print(to_json(scores) if options.json else to_csv(scores), end="" if options.csv else "\n")
    else:
        print(f"{heading(settings)}\n\n{to_markdown(rows, scores)}", end="")


if __name__ == "__main__":
    main()
