"""Cut an excerpt out of a trace: some blocks, each with a share of its iterations (docs/sampling.md).

All warps of a block keep the same iterations: consecutive ones of each loop or, where a block is written out without
loops, consecutive segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Program, Segment, Trace

MIN_ITERATIONS = 2
"""Minimum number of iterations of a cut loop: its first iteration may differ from the others."""

MIN_INNER_ITERATIONS = 8
"""Iterations that an inner loop must keep to be cut as well, where its outer loops have been cut already."""

MAX_WEIGHED_PROGRAMS = 16
"""Programs whose segment weights are cached; blocks that differ in their addresses only share an entry."""

KeptShare = Callable[[int], float]
"""A function from a block to the share of its iterations that it keeps."""

SegmentWeights = list[tuple[int, int]]
"""For each segment of a program, two counts of warp instructions per iteration: memory only, and with gaps."""


@dataclass(frozen=True, slots=True)
class BlockExcerpt:
    """A cut block, and the `share` of its iterations that it keeps.

    `accesses` is the number of its warp instructions that access memory, `instructions` that of all its warp
    instructions, gaps included.
    """

    content: Columns | Program
    share: float
    accesses: float
    instructions: float


class Excerpt(Trace):
    """The blocks `ids` of a trace, numbered from 0, each with about `share` of its iterations.

    ``starts[i]`` is the share of its iterations that block i skips before those that it keeps (None: 0 for all).
    `shares` is the sum of the kept shares of all blocks that were read, `instructions` that of their warp
    instructions, gaps included. Cutting a block takes as long as making it, unless `Trace.shortened` returns functions
    that make a block with fewer iterations of its outer loops.
    """

    def __init__(
        self, trace: Trace, ids: Sequence[int], share: float = 1.0, starts: Sequence[float] | None = None
    ) -> None:
        self.launch = replace(trace.launch, grid=(len(ids), 1, 1))
        self.blocks = range(len(ids))
        self.shares, self.instructions = 0.0, 0.0
        self._trace, self._ids, self._share, self._starts = trace, ids, share, starts
        self._weights: dict[tuple[int, ...], tuple[Program, SegmentWeights]] = {}
        self._make: Callable[[int, float], Columns | Program] = lambda block, _: trace.block(block)
        self._left: KeptShare | None = None
        if share < 1 and (shorter := trace.shortened(share)) is not None:
            self._make, self._left = shorter

    @property
    def any_order(self) -> bool:
        """Whether a block does not depend on the blocks that were read before it."""
        return self._trace.any_order

    @property
    def may_have_cache_ops(self) -> bool:
        """False if no instruction has a cache operator."""
        return self._trace.may_have_cache_ops

    def cut(self, block: int) -> BlockExcerpt:
        """Return an excerpt of a block; raise `TraceError` if the trace does not hold the block."""
        number, start = self._ids[block], 0.0 if self._starts is None else self._starts[block]
        kept = 1.0 if self._left is None else self._left(number)
        content = self._make(number, start)
        if isinstance(content, Columns):
            return _cut_columns(content, self._share, start)
        weights, share = self._weigh(content), min(1.0, self._share / kept)
        if kept < 1:
            # Outer loops were cut already: inner loops stay whole, unless most of the work is in long ones.
            lengths = [w * segment.trips for (w, _), segment in zip(weights, content, strict=True)]
            long = sum(
                n for n, segment in zip(lengths, content, strict=True) if segment.trips * share >= MIN_INNER_ITERATIONS
            )
            share, start = share if 2 * long >= sum(lengths) else 1.0, 0.0
        excerpt = _cut_program(content, weights, share, start)
        return replace(excerpt, share=excerpt.share * kept)

    def block(self, block: int) -> Columns | Program:
        """Return the instructions that a block keeps, and count them."""
        excerpt = self.cut(block)
        self.shares += excerpt.share
        self.instructions += excerpt.instructions
        return excerpt.content

    def _weigh(self, program: Program) -> SegmentWeights:
        """Return the weights of the segments; programs that differ in their addresses only have the same masks."""
        key = tuple(id(segment.mask) for segment in program)
        if key not in self._weights:
            active = [np.count_nonzero(segment.mask, axis=0) for segment in program]
            weights = [(int(a.sum()), int(a.sum() + a @ s.gap)) for a, s in zip(active, program, strict=True)]
            if len(self._weights) >= MAX_WEIGHED_PROGRAMS:
                self._weights.clear()
            # The entry holds the program, so that no other mask can get the same id.
            self._weights[key] = program, weights
        return self._weights[key][1]


def _cut_program(program: Program, weights: SegmentWeights, share: float, start: float) -> BlockExcerpt:
    trips = [segment.trips for segment in program]
    firsts, kept = [0] * len(trips), list(trips)
    if share < 1:
        firsts, kept = _choose_iterations([w for w, _ in weights], trips, share, start)
    content = [_cut_segment(s, f, k) for s, f, k in zip(program, firsts, kept, strict=True) if k]
    accesses, instructions = (sum(w[i] * k for w, k in zip(weights, kept, strict=True)) for i in (0, 1))
    return BlockExcerpt(content, _kept_share([w for w, _ in weights], trips, kept), accesses, instructions)


def _choose_iterations(
    weights: Sequence[int], trips: Sequence[int], share: float, start: float
) -> tuple[list[int], list[int]]:
    """Return for each segment the first iteration to keep, and the number of iterations to keep."""
    whole = sum(w * t for w, t in zip(weights, trips, strict=True))
    loops = sum(w * t for w, t in zip(weights, trips, strict=True) if t > MIN_ITERATIONS)
    if 2 * loops >= whole:
        kept = [t if t <= MIN_ITERATIONS else max(MIN_ITERATIONS, round(share * t)) for t in trips]
        return [min(int(start * t), t - k) for t, k in zip(trips, kept, strict=True)], kept
    # Most of the block is written out without loops: keep consecutive segments.
    kept = []
    room, before = share * whole, min(start, 1 - share) * whole
    for w, t in zip(weights, trips, strict=True):
        skip = before >= w * t
        before -= w * t
        kept.append(0 if skip or room <= 0 else t)
        room -= w * kept[-1]
    return [0] * len(trips), kept


def _kept_share(weights: Sequence[int], trips: Sequence[int], kept: Sequence[int]) -> float:
    """Return the share of iterations kept: of the cut segments, or of all segments where some are left out."""
    out = 0 in kept
    cut = [(w, t, k) for w, t, k in zip(weights, trips, kept, strict=True) if out or k < t]
    whole = sum(w * t for w, t, _ in cut)
    return sum(w * k for w, _, k in cut) / whole if whole else 1.0


def _cut_segment(segment: Segment, first: int, trips: int) -> Segment:
    if trips == segment.trips:
        return segment
    base = segment.base + first * segment.step[:, None] if first else segment.base
    return replace(segment, trips=trips, base=base)


def _cut_columns(columns: Columns, share: float, start: float) -> BlockExcerpt:
    """Cut a block in columns: keep consecutive instructions of each warp."""
    begins, lengths = columns.warp_start[:-1], np.diff(columns.warp_start)
    whole = int(lengths.sum())
    if share < 1:
        counts = np.maximum(np.minimum(lengths, MIN_ITERATIONS), np.ceil(share * lengths).astype(np.int64))
        firsts = begins + np.minimum((start * lengths).astype(np.int64), lengths - counts)
        columns = _select_rows(columns, firsts, counts)
    accesses = len(columns)
    gaps = int(columns.gap.sum(dtype=np.int64))
    return BlockExcerpt(columns, accesses / whole if whole else 1.0, accesses, accesses + gaps)


def _select_rows(columns: Columns, firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> Columns:
    """Return `counts` instructions of each warp, from row `firsts` on."""
    rows = np.concatenate([np.arange(f, f + n) for f, n in zip(firsts, counts, strict=True)])
    lanes = columns.address_start
    pieces = [columns.addresses[lanes[f] : lanes[f + n]] for f, n in zip(firsts, counts, strict=True)]
    names = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
    return Columns(
        warp_start=np.concatenate([[0], np.cumsum(counts)]),
        address_start=np.concatenate([[0], np.cumsum(lanes[rows + 1] - lanes[rows])]),
        addresses=np.concatenate(pieces),
        cache_op=None if columns.cache_op is None else columns.cache_op[rows],
        **{name: getattr(columns, name)[rows] for name in names},
    )
