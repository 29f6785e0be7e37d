"""``python -m validation.triton``: compare kernels of Triton and Gluon with published times.

``--record`` predicts again, and needs Triton. Of attention and of products in Triton, it predicts each configuration:
Triton measures its configurations and takes the fastest one; here it is the one that is predicted to be that.
"""

from __future__ import annotations

import argparse
import sys

from validation.common import records
from validation.common.pages import renew_or_check
from validation.triton import attention_times, dot_times, product_times
from validation.triton.folder import FOLDER

RESULTS = FOLDER / "RESULTS.md"


def page() -> str:
    """Return the tables of the page."""
    return (
        f"## Attention\n\n{attention_times.table()}\n## Products in Triton\n\n{dot_times.table()}\n"
        f"## Products of matrices\n\n{product_times.tables()}"
    )


def record(jobs: int) -> None:
    """Predict all rows again."""
    for study in (attention_times, dot_times, product_times):
        found = [row for row in records.run_all(study.predict, study.tasks(), jobs) if row is not None]
        study.PREDICTED.write_text(records.to_csv(study.Predicted, found))


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.triton", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the records")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.record:
        record(options.jobs)
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
