"""``python -m validation.microbenchmarks``: recover machines from timings, and compare with their configurations."""

from __future__ import annotations

import argparse
import sys

from validation.microbenchmarks.machines import machines
from validation.microbenchmarks.report import RESULTS, Finding, find, report


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.microbenchmarks", description=__doc__)
    parser.add_argument("--record", action="store_true", help="renew the committed record instead of printing")
    options = parser.parse_args()
    findings: list[Finding] = []
    for name in machines():
        if sys.stderr.isatty():
            print(name, file=sys.stderr, flush=True)
        findings.append(find(name))
    if options.record:
        RESULTS.write_text(report(findings))
    else:
        print(report(findings), end="")


if __name__ == "__main__":
    main()
