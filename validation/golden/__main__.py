"""``python -m validation.golden``: compare the results of both engines with recorded ones, bit for bit."""

from __future__ import annotations

import argparse
import sys

from validation.common.records import from_csv, positive, run_all, to_csv
from validation.golden.results import ENGINES, RECORD, Digest, differences, kernels, run


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m validation.golden", description=__doc__)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", choices=[*kernels()], help="only these kernels")
    parser.add_argument("--engines", nargs="+", metavar="ENGINE", choices=ENGINES, help="only these engines")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    parser.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    if options.record and (options.kernels or options.engines):
        parser.error("--record takes all kernels and engines; leave out --kernels and --engines")
    return options


def main() -> None:
    """Run the command."""
    options = parse()
    tasks = [(kernel, engine) for kernel in options.kernels or kernels() for engine in options.engines or ENGINES]
    results = list(run_all(run, tasks, options.jobs))
    if options.record:
        RECORD.write_text(to_csv(Digest, results))
        return
    lines = differences(results, from_csv(Digest, RECORD.read_text()))
    print("\n".join(lines) or f"{len(results)} results are bit-identical to the recorded ones")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
