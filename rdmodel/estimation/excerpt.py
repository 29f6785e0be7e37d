"""Cut an excerpt out of a trace: some blocks, each with a share of its iterations (docs/sampling.md).

All warps of a block keep the same iterations: consecutive ones of each loop or, where a block is written out without
loops, consecutive segments. A loop that walks through a sector in several iterations keeps a multiple of these:
otherwise it might find no new sector, or one too many for its share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace import Columns, Program, Segment, Trace
from rdmodel.trace.coalescing import SECTOR
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.moved import MovedProgram

MIN_ITERATIONS = 3
"""Minimum number of iterations of a cut loop: its first iteration may differ from the others."""

MIN_ROWS = 2
"""Minimum number of instructions of a warp in a cut block without loops."""

MIN_INNER_ITERATIONS = 8
"""Iterations that an inner loop must keep to be cut as well, where its outer loops have been cut already."""

MAX_MEASURED_PROGRAMS = 16
"""Programs whose segment shapes are cached; blocks that differ in their addresses only share an entry."""

KeptShare = Callable[[int], float]
"""A function from a block to the share of its iterations that it keeps."""


@dataclass(frozen=True, slots=True)
class SegmentShape:
    """Properties that cuts of a segment need: warp instructions per iteration, with memory (`accesses`) and in all.

    `period` is the number of iterations in which its addresses advance by a given number of bytes, at most that of all
    iterations; 1 if one iteration advances further, or none does.
    """

    accesses: int
    instructions: int
    trips: int
    period: int

    @classmethod
    def of(cls, segment: Segment, advance: int) -> SegmentShape:
        """Return the shape of a segment, with the period in which it advances by `advance` bytes."""
        active = np.count_nonzero(segment.mask, axis=0)
        steps = np.abs(segment.step[(segment.step != 0) & (np.abs(segment.step) < advance)])
        period = -(-advance // int(steps.min())) if len(steps) else 1
        accesses = int(active.sum())
        return cls(accesses, accesses + int(active @ segment.gap), segment.trips, min(period, segment.trips))

    @property
    def least(self) -> int:
        """The fewest iterations that are kept."""
        return min(self.trips, max(MIN_ITERATIONS, self.period))

    def keep(self, share: float) -> int:
        """Return the number of iterations to keep for a share of them."""
        return min(self.trips, max(self.least, self.period * round(share * self.trips / self.period)))


@dataclass(frozen=True, slots=True)
class Cut:
    """The first iteration that a cut keeps of each segment, and the number that it keeps (`trips`), both int64.

    `moves` are the bytes by which instructions move with the first iterations, for blocks that share a program; None
    for others. `share`, `accesses` and `instructions` are those of a `BlockExcerpt`.
    """

    firsts: NDArray[np.int64]
    trips: NDArray[np.int64]
    moves: NDArray[np.int64] | None
    share: float
    accesses: float
    instructions: float


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


class Excerpt(DerivedTrace):
    """The blocks `ids` of a trace, numbered from 0, each with about `share` of its iterations.

    ``starts[i]`` is the share of its iterations that block i skips before those that it keeps (None: 0 for all).
    Loops that advance by less than `advance` bytes in an iteration keep as many iterations as advance by a multiple.
    `shares` is the sum of the kept shares of all blocks that were read, `instructions` that of their warp
    instructions, gaps included. Cutting a block takes as long as making it, unless `Trace.shortened` returns functions
    that make a block with fewer iterations of its outer loops.
    """

    def __init__(
        self,
        trace: Trace,
        ids: Sequence[int],
        share: float = 1.0,
        starts: Sequence[float] | None = None,
        advance: int = SECTOR,
    ) -> None:
        self.launch = replace(trace.launch, grid=(len(ids), 1, 1))
        self.blocks = range(len(ids))
        self.shares, self.instructions = 0.0, 0.0
        self.original, self._ids, self._share, self._starts = trace, ids, share, starts
        self._advance = advance
        self._shapes: dict[tuple[int, ...], tuple[Program, list[SegmentShape]]] = {}
        self._cuts: dict[tuple[tuple[int, ...], float, float], Cut] = {}
        self._make: Callable[[int, float], Columns | Program] = lambda block, _: trace.block(block)
        self._left: KeptShare | None = None
        if share < 1 and (shorter := trace.shortened(share)) is not None:
            self._make, self._left = shorter

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks, ascending, will be read next."""
        self.original.announce([self._ids[block] for block in blocks])

    def cut(self, block: int) -> BlockExcerpt:
        """Return an excerpt of a block; raise `TraceError` if the trace does not hold the block."""
        number, start = self._ids[block], 0.0 if self._starts is None else self._starts[block]
        kept = 1.0 if self._left is None else self._left(number)
        content = self._make(number, start)
        if isinstance(content, Columns):
            return _cut_columns(content, self._share, start)
        if isinstance(content, MovedProgram) and not content.is_whole:
            content = list(content)
        cut = self._cut_of(content, kept, start)
        return BlockExcerpt(_cut_program(content, cut), cut.share * kept, cut.accesses, cut.instructions)

    def block(self, block: int) -> Columns | Program:
        """Return the instructions that a block keeps, and count them."""
        excerpt = self.cut(block)
        self.shares += excerpt.share
        self.instructions += excerpt.instructions
        return excerpt.content

    def _cut_of(self, program: Program, kept: float, start: float) -> Cut:
        """Return the cut of a program that has `kept` of its iterations; programs that only move are cut alike."""
        shared = program.shared if isinstance(program, MovedProgram) else None
        key = (id(shared),) if shared is not None else tuple(id(segment.mask) for segment in program)
        cut = self._cuts.get((key, kept, start))
        if cut is None:
            segments = program if shared is None else shared.segments
            shapes = self._measure(key, program, segments)
            cut = _plan_cut(shapes, *self._choose_share(shapes, kept, start))
            if shared is not None:
                cut = replace(cut, moves=shared.moves_to(cut.firsts))
            self._cuts[key, kept, start] = cut
        return cut

    def _measure(self, key: tuple[int, ...], program: Program, segments: Program) -> list[SegmentShape]:
        """Return the shapes of the segments of a program."""
        if key not in self._shapes:
            if len(self._shapes) >= MAX_MEASURED_PROGRAMS:
                self._shapes.clear()
                self._cuts.clear()
            # The entry holds the program, so that nothing else can get the ids of the key.
            self._shapes[key] = program, [SegmentShape.of(segment, self._advance) for segment in segments]
        return self._shapes[key][1]

    def _choose_share(self, shapes: Sequence[SegmentShape], kept: float, start: float) -> tuple[float, float]:
        """Return the share of the iterations to keep of a program that has `kept` of them, and the share to skip."""
        share = min(1.0, self._share / kept)
        if kept >= 1:
            return share, start
        # Outer loops were cut already: inner loops stay whole, unless most of the work is in long ones.
        work = [shape.accesses * shape.trips for shape in shapes]
        long = sum(n for n, shape in zip(work, shapes, strict=True) if shape.trips * share >= MIN_INNER_ITERATIONS)
        return share if 2 * long >= sum(work) else 1.0, 0.0


def _plan_cut(shapes: Sequence[SegmentShape], share: float, start: float) -> Cut:
    firsts, kept = [0] * len(shapes), [shape.trips for shape in shapes]
    if share < 1:
        firsts, kept = _choose_iterations(shapes, share, start)
    accesses = sum(shape.accesses * k for shape, k in zip(shapes, kept, strict=True))
    instructions = sum(shape.instructions * k for shape, k in zip(shapes, kept, strict=True))
    share = _kept_share(shapes, kept)
    return Cut(np.array(firsts, np.int64), np.array(kept, np.int64), None, share, accesses, instructions)


def _cut_program(program: Program, cut: Cut) -> Program:
    if isinstance(program, MovedProgram):
        assert cut.moves is not None
        return program.cut(cut.trips, cut.moves)
    firsts, trips = cut.firsts.tolist(), cut.trips.tolist()
    return [_cut_segment(s, f, k) for s, f, k in zip(program, firsts, trips, strict=True) if k]


def _choose_iterations(shapes: Sequence[SegmentShape], share: float, start: float) -> tuple[list[int], list[int]]:
    """Return for each segment the first iteration to keep, and the number of iterations to keep."""
    whole = sum(shape.accesses * shape.trips for shape in shapes)
    loops = sum(shape.accesses * shape.trips for shape in shapes if shape.trips > MIN_ITERATIONS)
    if 2 * loops >= whole:
        kept = [shape.keep(share) for shape in shapes]
        firsts = [min(int(start * shape.trips), shape.trips - k) for shape, k in zip(shapes, kept, strict=True)]
        return firsts, kept
    # Most of the block is written out without loops: keep consecutive segments.
    kept = []
    room, before = share * whole, min(start, 1 - share) * whole
    for shape in shapes:
        skip = before >= shape.accesses * shape.trips
        before -= shape.accesses * shape.trips
        kept.append(0 if skip or room <= 0 else shape.trips)
        room -= shape.accesses * kept[-1]
    return [0] * len(shapes), kept


def _kept_share(shapes: Sequence[SegmentShape], kept: Sequence[int]) -> float:
    """Return the share of iterations kept: of the cut segments, or of all segments where some are left out."""
    out = 0 in kept
    cut = [(shape, k) for shape, k in zip(shapes, kept, strict=True) if out or k < shape.trips]
    whole = sum(shape.accesses * shape.trips for shape, _ in cut)
    return sum(shape.accesses * k for shape, k in cut) / whole if whole else 1.0


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
        counts = np.maximum(np.minimum(lengths, MIN_ROWS), np.ceil(share * lengths).astype(np.int64))
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
