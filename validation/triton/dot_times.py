"""Compare predicted times of products of matrices in Triton with published ones on an A100."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from validation.common import records
from validation.triton.fitting import time_if_it_fits
from validation.triton.folder import FOLDER

PUBLISHED, PREDICTED = FOLDER / "dot_published.csv", FOLDER / "dot_predicted.csv"

GPU, ARCHITECTURE, PEAK = "a100-40g", "sm_80", 312.0
"""The GPU, its architecture, and its peak in half precision in TFLOPS (NVIDIA, A100 whitepaper)."""

GROUP = 8

CONFIGURATIONS = (
    *((128, 256, depth, 8, 3) for depth in (32, 64)),
    *((256, 128, depth, 8, 3) for depth in (32, 64)),
    *((rows, columns, depth, 4, 4) for rows, columns, depth in product((64, 128), (64, 128), (32, 64))),
)
"""Rows, columns and depth of a tile, warps and stages."""


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed of a product, as a share of the peak."""

    rows: int
    columns: int
    extent: int
    share: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted speed of a configuration for a published row, by number; `bound` is the term that binds it."""

    row: int
    configuration: str
    share: float
    bound: str


def published() -> list[Published]:
    """Return the published rows."""
    return records.from_csv(Published, PUBLISHED.read_text())


def tasks() -> list[tuple[int, tuple[int, int, int, int, int]]]:
    """Return all rows with all configurations whose tiles fit."""
    return [
        (number, each)
        for (number, row), each in product(enumerate(published()), CONFIGURATIONS)
        if each[0] <= row.rows and each[1] <= row.columns
    ]


def predict(task: tuple[int, tuple[int, int, int, int, int]]) -> Predicted | None:
    """Return the speed of a configuration for a row; None if its tiles are too large for an SM."""
    from rdmodel.integrations.triton import trace
    from validation.triton.dot import dot

    number, (rows, columns, depth, warps, stages) = task
    row = published()[number]
    a, b = np.zeros((row.rows, row.extent), np.float16), np.zeros((row.extent, row.columns), np.float16)
    made = trace(
        dot,
        row.rows // rows * (row.columns // columns),
        *(a, b, np.zeros((row.rows, row.columns), np.float16), row.rows, row.columns, row.extent),
        architecture=ARCHITECTURE,
        tile_rows=rows,
        tile_columns=columns,
        tile_extent=depth,
        group=GROUP,
        num_warps=warps,
        num_stages=stages,
    )
    found = time_if_it_fits(made, GPU)
    if found is None:
        return None
    share = 2 * row.rows * row.columns * row.extent / found.milliseconds / 1e9 / PEAK
    return Predicted(number, f"{rows}x{columns}x{depth} {warps} warps {stages} stages", round(share, 3), found.bound)


def table() -> str:
    """Return the best configurations beside the measured speeds."""
    rows = records.from_csv(Predicted, PREDICTED.read_text())
    lines = ["| product | measured | predicted | ratio | configuration | bound by |", "|---|---:|---:|---:|---|---|"]
    for number, row in enumerate(published()):
        best = max((each for each in rows if each.row == number), key=lambda each: each.share)
        lines.append(
            f"| {row.rows} x {row.columns} x {row.extent} | {row.share:.2f} | {best.share:.2f} "
            f"| {best.share / row.share:.2f} | {best.configuration} | {best.bound} |"
        )
    return "\n".join(lines) + "\n"
