"""``python -m validation.accuracy``: summarise the records of all comparisons with counters; runs no prediction."""

from __future__ import annotations

import argparse

from validation.accuracy import report
from validation.accuracy.rows import read_rows


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.accuracy", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="renew the table and the expected errors, a file of the package"
    )
    options = parser.parse_args()
    rows = read_rows()
    if options.record:
        report.write(rows)
    else:
        print(report.table(rows), end="")


if __name__ == "__main__":
    main()
