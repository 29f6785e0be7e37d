"""Trace kernels as a compiler would make them that loads a sum from memory again in each unrolled body."""

from __future__ import annotations

import tracegen
from rdmodel.trace import Trace
from tracegen import Array, Block
from validation.hardware.launches import plans, trace_pass
from validation.hardware.rows import Row


def reloading_launches(row: Row, terms: int) -> list[Trace]:
    """Return the launches of gemm, or of passes of corr.corr, with a load of the sum before each `terms` terms."""
    return [_gemm(row, terms)] if row.kernel == "gemm" else _passes(row, terms)


def _gemm(row: Row, terms: int) -> Trace:
    def gemm(k: Block, a: Array, b: Array, c: Array) -> None:
        i, j = k.y, k.x
        k.load(c, i, j)
        k.store(c, i, j)
        for first in k.range(0, row.sizes["NK"], terms):
            k.load(c, i, j)
            for n in range(terms):
                k.load(a, i, first + n)
                k.load(b, first + n, j)
                k.store(c, i, j)

    rows, columns, inner = (row.sizes[name] for name in ("NI", "NJ", "NK"))
    arrays = {"a": (rows, inner), "b": (inner, columns), "c": (rows, columns)}
    return tracegen.trace(gemm, arrays=arrays, grid=row.grid, block=row.block)


def _passes(row: Row, terms: int) -> list[Trace]:
    def correlate(k: Block, data: Array, symmat: Array, distance: int, pad: int) -> None:
        rows, columns = data.shape
        j1 = k.x + pad
        j2 = j1 + distance
        with k.where(j2 < columns):
            k.store(symmat, j1, j2)
            for first in k.range(pad, rows, terms):
                k.load(symmat, j1, j2)
                for n in range(terms):
                    k.load(data, first + n, j1)
                    k.load(data, first + n, j2)
                    k.store(symmat, j1, j2)
            k.store(symmat, j2, j1)

    return [trace_pass(plan, correlate) for plan in plans(row)]
