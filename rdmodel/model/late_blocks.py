"""Cut the beginning or the end of blocks, for runs that begin in the middle of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Program, Segment, Trace
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.moved import MovedProgram

Share = float | NDArray[np.float64]
"""A share of the instructions of a block: one for all its warps, or one for each."""


class LateBlocks(DerivedTrace):
    """A trace whose blocks with an entry in `parts` have only that part, from a share of their instructions to another.

    Where a loop is cut, whole iterations are left out.
    """

    def __init__(self, trace: Trace, parts: Mapping[int, tuple[Share, float]]) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks
        self.original, self._parts = trace, parts

    def block(self, block: int) -> Columns | Program:
        """Return the instructions of a block that are left."""
        content = self.original.block(block)
        return cut_block(content, *self._parts[block]) if block in self._parts else content


def cut_block(content: Columns | Program, first: Share, last: float) -> Columns | Program:
    """Return the instructions of a block from one share of them to another, each 0 to 1."""
    if isinstance(content, Columns):
        return _cut_warps(content, first, last)
    if isinstance(content, MovedProgram) and np.ndim(first) == 0:
        return _cut_moved(content, float(first), last)
    weights = [segment.instructions for segment in content]
    total = sum(weights)
    at, kept = 0, []
    for segment, weight in zip(content, weights, strict=True):
        if weight:
            per_trip = weight / segment.trips
            begins = np.clip(np.round((np.asarray(first) * total - at) / per_trip), 0, segment.trips).astype(np.int64)
            end = min(segment.trips, max(0, round((last * total - at) / per_trip)))
            kept += _cut_trips(segment, begins, end)
        at += weight
    return kept


def _cut_moved(program: MovedProgram, first: float, last: float) -> MovedProgram:
    """Return what `cut_block` does for one `first`, without writing addresses out."""
    per_trip = program.shared.instructions
    weights = per_trip * program.trips
    total, before = weights.sum(), np.cumsum(weights) - weights
    begins, ends = (
        np.clip(np.round((share * total - before) / np.maximum(per_trip, 1)), 0, program.trips).astype(np.int64)
        for share in (first, last)
    )
    trips = np.where(per_trip > 0, np.maximum(ends - begins, 0), 0)
    return program.cut(trips, program.shared.moves_to(begins))


def _cut_trips(segment: Segment, begins: NDArray[np.int64], end: int) -> list[Segment]:
    """Return the iterations up to `end`, in pieces: in each one, those warps take part that have begun."""
    edges = [*sorted({*np.minimum(begins, end).ravel().tolist()}), end]
    pieces = []
    for first, last in pairwise(edges):
        if first < last:
            mask = segment.mask
            if begins.ndim:
                mask = np.where((begins <= first)[:, None], mask, 0).astype(np.uint32)
            base = segment.base + first * segment.step[:, None] if first else segment.base
            pieces.append(replace(segment, trips=last - first, base=base, mask=mask))
    return pieces


def _cut_warps(columns: Columns, first: Share, last: float) -> Columns:
    lengths = np.diff(columns.warp_start)
    skipped = np.round(first * lengths).astype(np.int64)
    begins = columns.warp_start[:-1] + skipped
    counts = np.maximum(0, np.round(last * lengths).astype(np.int64) - skipped)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(begins - starts[:-1], counts) + np.arange(starts[-1])
    lanes = columns.address_start[rows + 1] - columns.address_start[rows]
    lane_starts = np.concatenate([[0], np.cumsum(lanes)])
    taken = np.repeat(columns.address_start[rows] - lane_starts[:-1], lanes) + np.arange(lane_starts[-1])
    names = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
    return Columns(
        warp_start=starts,
        address_start=lane_starts,
        addresses=columns.addresses[taken],
        cache_op=None if columns.cache_op is None else columns.cache_op[rows],
        **{name: getattr(columns, name)[rows] for name in names},
    )
