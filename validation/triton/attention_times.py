"""Compare predicted times of attention in Triton with published ones on an H100."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from validation.common import records
from validation.triton.fitting import time_if_it_fits
from validation.triton.folder import FOLDER

PUBLISHED, PREDICTED = FOLDER / "attention_published.csv", FOLDER / "attention_predicted.csv"

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


def tasks() -> list[tuple[int, tuple[int, int, int, int]]]:
    """Return all numbers of tokens with all configurations."""
    sizes = [row.tokens for row in records.from_csv(Published, PUBLISHED.read_text())]
    return list(product(sizes, CONFIGURATIONS))


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
    found = time_if_it_fits(made, GPU)
    if found is None:
        return None
    tflops = 4 * tokens**2 * WIDTH * BATCH * HEADS / found.milliseconds / 1e9
    return Predicted(tokens, f"{rows}x{columns} {warps} warps {stages} stages", round(tflops, 1), found.bound)


def table() -> str:
    """Return the best configurations beside the measured speeds."""
    rows = records.from_csv(Predicted, PREDICTED.read_text())
    lines = ["| tokens | measured | predicted | ratio | configuration | bound by |", "|---:|---:|---:|---:|---|---|"]
    for row in records.from_csv(Published, PUBLISHED.read_text()):
        best = max((each for each in rows if each.tokens == row.tokens), key=lambda each: each.tflops)
        lines.append(
            f"| {row.tokens} | {row.tflops:.0f} | {best.tflops:.0f} | {best.tflops / row.tflops:.2f} "
            f"| {best.configuration} | {best.bound} |"
        )
    return "\n".join(lines) + "\n"
