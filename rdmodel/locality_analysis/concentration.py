"""Measure how an index function spreads accesses over the sets, by two formulas of Wang et al., DATE 2015."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel.errors import TraceError
from rdmodel.policies import IndexFunction
from rdmodel.trace import FIRST_NON_L1_SPACE, Columns, Op, Trace
from rdmodel.trace.coalescing import StoreRule, coalesce
from rdmodel.trace.splitting import split_block


def intra_warp_concentration(
    loads: NDArray[np.int64] | Sequence[ArrayLike], index: IndexFunction, sets: int, line: int = 128
) -> float:
    """Return the transactions of a load divided by the sets that they touch, averaged over the loads (equation 1).

    Takes time O(n log n) for n transactions.

    Parameters
    ----------
    loads : array_like
        Line numbers (byte address // `line`) of each warp's load after coalescing: an array of shape (loads,
        transactions), or a sequence of 1-D arrays if their lengths differ. Loads without transactions do not count.
    index : IndexFunction
        The index function of the cache.
    sets, line : int
        Number of sets of the cache, and bytes of a line.

    Returns
    -------
    float
        The mean concentration. 1 is ideal; a load of k transactions has k if all of them fall in one set.

    Raises
    ------
    TraceError
        If a load is not 1-D, or if there is no transaction.
    ConfigError
        If `index` is not defined for `sets` sets of `line` bytes.
    """
    rows = [np.asarray(load, dtype=np.int64) for load in loads]
    if any(row.ndim != 1 for row in rows):
        raise TraceError("loads: must hold one row of line numbers for each load")
    lengths = np.array([len(row) for row in rows if len(row)], dtype=np.int64)
    if not len(lengths):
        raise TraceError("loads: must hold at least one transaction")
    return float(np.mean(_concentrations(np.concatenate(rows), lengths, index, sets, line)))


def concentration_by_load(trace: Trace, index: IndexFunction, sets: int, line: int = 128) -> dict[int, float]:
    """Return the mean intra-warp concentration of every load of a trace, by its pc, ascending.

    Reads all blocks that the trace holds, in pieces and so in bounded memory.

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    index : IndexFunction
        The index function of the cache.
    sets, line : int
        Number of sets of the cache, and bytes of a line.

    Returns
    -------
    dict of int to float
        Mean concentration (`intra_warp_concentration`) by program counter.

    Raises
    ------
    ConfigError
        If `index` is not defined for `sets` sets of `line` bytes.
    """
    assert trace.blocks is not None
    totals: dict[int, float] = {}
    counts: dict[int, int] = {}
    for block in trace.blocks:
        for _, columns in split_block(trace, int(block)):
            for pc, value in zip(*_load_concentrations(columns, index, sets, line), strict=True):
                totals[pc] = totals.get(pc, 0.0) + value
                counts[pc] = counts.get(pc, 0) + 1
    return {pc: totals[pc] / counts[pc] for pc in sorted(totals)}


def _load_concentrations(columns: Columns, index: IndexFunction, sets: int, line: int) -> tuple[list[int], list[float]]:
    """Return the pc and the concentration of every load instruction."""
    values: list[float] = []
    for chunk in coalesce(columns, line, StoreRule.DROP):
        lengths = chunk.count[: chunk.n].astype(np.int64)
        values += _concentrations(chunk.lines[: chunk.used], lengths, index, sets, line).tolist()
    return columns.pc[(columns.op == int(Op.LOAD)) & (columns.space < FIRST_NON_L1_SPACE)].tolist(), values


def _concentrations(
    lines: NDArray[np.int64], lengths: NDArray[np.int64], index: IndexFunction, sets: int, line: int
) -> NDArray[np.float64]:
    """Return transactions divided by sets touched, for consecutive loads of `lengths` transactions, none of them 0."""
    load = np.repeat(np.arange(len(lengths)), lengths)
    touched = np.unique(load * sets + index.set_of(lines, sets, line))
    return lengths / np.bincount(touched // sets, minlength=len(lengths))


def balance(set_counts: ArrayLike) -> float:
    """Return how evenly accesses fall on the sets over a whole run (equation 2, after Kharbutli et al.).

    `set_counts` is a 1-D array with the number of accesses of every set, untouched sets included. 1 is the mean of a
    random distribution, more is worse, and an even distribution has slightly less than 1. Raises `TraceError` for
    negative counts, or if there is no access.
    """
    counts = np.asarray(set_counts, dtype=np.float64)
    if counts.ndim != 1 or not np.all(counts >= 0):
        raise TraceError("set_counts: must be one number of at least 0 for each set")
    accesses, sets = float(counts.sum()), len(counts)
    if not accesses:
        raise TraceError("set_counts: must hold at least one access")
    weight = float((counts * (counts + 1) / 2).sum())
    return weight / (accesses / (2 * sets) * (accesses + 2 * sets - 1))
