"""Parts of a trace, as traces of their own: some blocks, each with a share of its iterations (docs/sampling.md).

All warps of a block keep the same iterations: a few in a row of each loop, or of what is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Program, Segment, Trace

FEWEST = 2
"""Iterations that are left of a loop: what its first one does, the others may not do."""

LONG = 8
"""Iterations that must be left of a loop in a cut loop for it to be cut as well."""

MOST_KEPT = 16
"""Kinds of blocks whose weights are remembered."""

Left = Callable[[int], float]
"""The share of its iterations that is left of a block."""

Weights = list[tuple[int, int]]
"""Of each segment of a program: warp instructions of memory in an iteration, and those with gaps."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is left of a block, and the `share` of its iterations that this is.

    `accesses` are its warp instructions of memory, `instructions` all of them, gaps included.
    """

    content: Columns | Program
    share: float
    accesses: float
    instructions: float


class Excerpt(Trace):
    """The blocks `ids` of a trace, numbered from 0, each with about `share` of its iterations.

    ``starts[i]`` is the share of its iterations that block i leaves out before them (None: 0 for all). `shares` is the
    sum of what was left of the blocks that were asked for, `instructions` of their warp instructions, gaps included.
    To cut a block takes as long as to make it, unless `Trace.shortened` makes blocks with fewer iterations.
    """

    def __init__(
        self, trace: Trace, ids: Sequence[int], share: float = 1.0, starts: Sequence[float] | None = None
    ) -> None:
        self.launch = replace(trace.launch, grid=(len(ids), 1, 1))
        self.blocks = range(len(ids))
        self.shares, self.instructions = 0.0, 0.0
        self._trace, self._ids, self._share, self._starts = trace, ids, share, starts
        self._weights: dict[tuple[int, ...], tuple[Program, Weights]] = {}
        self._make: Callable[[int, float], Columns | Program] = lambda block, _: trace.block(block)
        self._left: Left | None = None
        if share < 1 and (shorter := trace.shortened(share)) is not None:
            self._make, self._left = shorter

    @property
    def any_order(self) -> bool:
        """Whether a block is the same whichever blocks were asked for before it."""
        return self._trace.any_order

    def part(self, block: int) -> Part:
        """Return what is left of a block; raises `TraceError` if the trace does not hold it."""
        at, start = self._ids[block], 0.0 if self._starts is None else self._starts[block]
        left = 1.0 if self._left is None else self._left(at)
        content = self._make(at, start)
        if isinstance(content, Columns):
            return _of_columns(content, self._share, start)
        weights, share = self._weigh(content), min(1.0, self._share / left)
        if left < 1:
            # Loops around others were cut: what is in them stays, unless it is a long loop.
            lengths = [w * segment.trips for (w, _), segment in zip(weights, content, strict=True)]
            long = sum(n for n, segment in zip(lengths, content, strict=True) if segment.trips * share >= LONG)
            share, start = share if 2 * long >= sum(lengths) else 1.0, 0.0
        part = _of_program(content, weights, share, start)
        return replace(part, share=part.share * left)

    def block(self, block: int) -> Columns | Program:
        """Return the instructions that are left of a block, and count them."""
        part = self.part(block)
        self.shares += part.share
        self.instructions += part.instructions
        return part.content

    def _weigh(self, program: Program) -> Weights:
        """Return the weights of the segments; blocks that were moved share all but their addresses."""
        key = tuple(id(segment.mask) for segment in program)
        if key not in self._weights:
            active = [np.count_nonzero(segment.mask, axis=0) for segment in program]
            weights = [(int(a.sum()), int(a.sum() + a @ s.gap)) for a, s in zip(active, program, strict=True)]
            if len(self._weights) >= MOST_KEPT:
                self._weights.clear()
            # The program is kept so that no other mask takes the place of its own.
            self._weights[key] = program, weights
        return self._weights[key][1]


def _of_program(program: Program, weights: Weights, share: float, start: float) -> Part:
    trips = [segment.trips for segment in program]
    firsts, kept = [0] * len(trips), list(trips)
    if share < 1:
        firsts, kept = _cut([w for w, _ in weights], trips, share, start)
    content = [_iterations(s, f, k) for s, f, k in zip(program, firsts, kept, strict=True) if k]
    accesses, instructions = (sum(w[i] * k for w, k in zip(weights, kept, strict=True)) for i in (0, 1))
    return Part(content, _share([w for w, _ in weights], trips, kept), accesses, instructions)


def _cut(weights: Sequence[int], trips: Sequence[int], share: float, start: float) -> tuple[list[int], list[int]]:
    """Return the first iteration of each segment to keep, and how many."""
    whole = sum(w * t for w, t in zip(weights, trips, strict=True))
    loops = sum(w * t for w, t in zip(weights, trips, strict=True) if t > FEWEST)
    if 2 * loops >= whole:
        kept = [t if t <= FEWEST else max(FEWEST, round(share * t)) for t in trips]
        return [min(int(start * t), t - k) for t, k in zip(trips, kept, strict=True)], kept
    # Written out: segments in a row.
    kept = []
    room, before = share * whole, min(start, 1 - share) * whole
    for w, t in zip(weights, trips, strict=True):
        skip = before >= w * t
        before -= w * t
        kept.append(0 if skip or room <= 0 else t)
        room -= w * kept[-1]
    return [0] * len(trips), kept


def _share(weights: Sequence[int], trips: Sequence[int], kept: Sequence[int]) -> float:
    """Return the share of the iterations: of the segments that were cut, or of all where some are left out."""
    out = 0 in kept
    some = [(w, t, k) for w, t, k in zip(weights, trips, kept, strict=True) if out or k < t]
    whole = sum(w * t for w, t, _ in some)
    return sum(w * k for w, _, k in some) / whole if whole else 1.0


def _iterations(segment: Segment, first: int, trips: int) -> Segment:
    if trips == segment.trips:
        return segment
    base = segment.base + first * segment.step[:, None] if first else segment.base
    return replace(segment, trips=trips, base=base)


def _of_columns(columns: Columns, share: float, start: float) -> Part:
    """Return some instructions in a row of each warp of a block."""
    begins, lengths = columns.warp_start[:-1], np.diff(columns.warp_start)
    whole = int(lengths.sum())
    if share < 1:
        counts = np.maximum(np.minimum(lengths, FEWEST), np.ceil(share * lengths).astype(np.int64))
        columns = _rows(columns, begins + np.minimum((start * lengths).astype(np.int64), lengths - counts), counts)
    accesses = len(columns)
    gaps = int(columns.gap.sum(dtype=np.int64))
    return Part(columns, accesses / whole if whole else 1.0, accesses, accesses + gaps)


def _rows(columns: Columns, firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> Columns:
    """Return so many instructions of each warp, from one on."""
    rows = np.concatenate([np.arange(f, f + n) for f, n in zip(firsts, counts, strict=True)])
    lanes = columns.address_start
    pieces = [columns.addresses[lanes[f] : lanes[f + n]] for f, n in zip(firsts, counts, strict=True)]
    names = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
    return Columns(
        warp_start=np.concatenate([[0], np.cumsum(counts)]),
        address_start=np.concatenate([[0], np.cumsum(lanes[rows + 1] - lanes[rows])]),
        addresses=np.concatenate(pieces),
        **{name: getattr(columns, name)[rows] for name in names},
    )
