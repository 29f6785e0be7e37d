"""Multiply a sparse matrix (CSR, float32) by a vector, with a thread or a warp per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP
from tracegen.kernel_library.data import Input
from tracegen.kernel_library.inputs import SEED, Sparse, band_matrix, need_of_matrix, read_matrix
from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.simt.kernel_trace import Array, Block


def vector(length: int) -> NDArray[np.float32]:
    """Return the vector x of a product: numbers of -1 to 1 that depend only on `length`."""
    return np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)


def product(matrix: Sparse) -> Mapping[str, NDArray[Any]]:
    """Return y = A x."""
    terms = matrix.values.astype(np.float64) * vector(matrix.width)[matrix.columns]
    return {"y": np.bincount(matrix.sources, weights=terms, minlength=matrix.height).astype(np.float32)}


spmv = Benchmark(
    "spmv",
    {"N": 16384, "DEGREE": 16, "BAND": Position(0, below="N"), "SEED": SEED},
    lambda matrix: {
        "rows": matrix.rows,
        "columns": matrix.columns,
        "values": matrix.values,
        "x": vector(matrix.width),
        "y": matrix.height,
    },
    inputs={"matrix": Input(band_matrix, read_matrix, need_of_matrix)},
)


@spmv.kernel(threads=lambda matrix: (matrix.height,), block=(256,), result=product)
def spmv_thread(k: Block, rows: Array, columns: Array, values: Array, x: Array, y: Array) -> None:
    """Sparse product A x, a thread per row: rows[i], rows[i+1]; per entry e: columns[e], x[.], values[e]; -> y[i]."""
    row = k.x
    with k.where(row < y.elements):
        first, last = k.load(rows, row), k.load(rows, row + 1)
        for e in k.range(first, last):
            multiply_entry(k, columns, values, x, e)
        k.store(y, row)


@spmv.kernel("warp", threads=lambda matrix: (WARP * matrix.height,), block=(256,), result=product)
def spmv_warp(k: Block, rows: Array, columns: Array, values: Array, x: Array, y: Array) -> None:
    """Sparse product A x, a warp per row: rows[i], rows[i+1]; per 32nd: columns[e], x[.], values[e]; -> y[i]."""
    row, lane = k.x // WARP, k.x % WARP
    with k.where(row < y.elements):
        first, last = k.load(rows, row), k.load(rows, row + 1)
        for e in k.range(first + lane, last, WARP):
            multiply_entry(k, columns, values, x, e)
        with k.where(lane == 0):
            k.store(y, row)


def multiply_entry(k: Block, columns: Array, values: Array, x: Array, e: Any) -> None:
    """Load the factors of one entry of the matrix."""
    column = k.load(columns, e)
    k.load(x, column)
    k.load(values, e)
