"""``python -m validation.triton``: compare the forward pass of attention in Triton with published times on an H100.

``--record`` predicts again, for each number of tokens and each configuration, and needs Triton. Triton measures its
configurations and takes the fastest one; here it is the one that is predicted to be that.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

import rdmodel as rd
from validation.common import records
from validation.common.pages import renew_tables, tables_of

FOLDER = Path(__file__).parent
PUBLISHED, PREDICTED, RESULTS = FOLDER / "published.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"

GPU, ARCHITECTURE = "h100-sxm", "sm_90a"
BATCH, HEADS, WIDTH = 4, 32, 128

CONFIGURATIONS = tuple(
    (rows, columns, warps, stages)
    for rows, columns, warps, stages in product((64, 128), (64, 128), (4, 8), (3, 4))
    if warps == 4 or rows * columns >= 128 * 128
)
"""Rows and columns of a tile, warps and stages; small tiles have few warps."""


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed for a number of tokens."""

    tokens: int
    tflops: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted speed of a configuration; `bound` is the term that binds it."""

    tokens: int
    configuration: str
    tflops: float
    bound: str


def predict(task: tuple[int, tuple[int, int, int, int]]) -> Predicted | None:
    """Return the speed of a configuration for a number of tokens; None if its tiles are too large for an SM."""
    from rdmodel.integrations.triton import trace
    from validation.triton.attention import attention

    tokens, (rows, columns, warps, stages) = task
    q, k, v, out = (np.zeros(BATCH * HEADS * tokens * WIDTH, np.float16) for _ in range(4))
    made = trace(
        attention,
        (tokens // rows, BATCH * HEADS),
        *(q, k, v, out, 0.1, tokens),
        architecture=ARCHITECTURE,
        width=WIDTH,
        tile_rows=rows,
        tile_columns=columns,
        num_warps=warps,
        num_stages=stages,
    )
    try:
        found = rd.time(made, GPU)
    except rd.LaunchError:
        return None
    tflops = 4 * tokens**2 * WIDTH * BATCH * HEADS / found.milliseconds / 1e9
    return Predicted(tokens, f"{rows}x{columns} {warps} warps {stages} stages", round(tflops, 1), found.bound)


def page() -> str:
    """Return the table of the page."""
    rows = records.from_csv(Predicted, PREDICTED.read_text())
    lines = ["| tokens | measured | predicted | ratio | configuration | bound by |", "|---:|---:|---:|---:|---|---|"]
    for row in records.from_csv(Published, PUBLISHED.read_text()):
        best = max((each for each in rows if each.tokens == row.tokens), key=lambda each: each.tflops)
        lines.append(
            f"| {row.tokens} | {row.tflops:.0f} | {best.tflops:.0f} | {best.tflops / row.tflops:.2f} "
            f"| {best.configuration} | {best.bound} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.triton", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.record:
        sizes = [row.tokens for row in records.from_csv(Published, PUBLISHED.read_text())]
        tasks = list(product(sizes, CONFIGURATIONS))
        found = [row for row in records.run_all(predict, tasks, options.jobs) if row is not None]
        PREDICTED.write_text(records.to_csv(Predicted, found))
    if options.check:
        return int(tables_of(RESULTS) != page())
    renew_tables(RESULTS, page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
