"""Cut an excerpt out of a trace: some blocks, each with a share of its iterations (docs/sampling.md).

All warps of a block keep the same iterations: consecutive ones of each loop or, where a block is written out without
loops, consecutive segments. A loop that walks through a sector in several iterations keeps a multiple of these:
otherwise it might find no new sector, or one too many for its share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.estimation.cuts import Cut, Early, Kept, SegmentShape, plan_cut
from rdmodel.estimation.parts import PartDivider, divide_columns, divide_segments, find_beginning
from rdmodel.model.late_counts import EARLY
from rdmodel.trace import Columns, Program, Trace
from rdmodel.trace.coalescing import SECTOR
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.moved import MovedProgram, SharedProgram, segments_of

MIN_ROWS = 2
"""Minimum number of instructions of a warp in a cut block without loops."""

MAX_MEASURED_PROGRAMS = 16
"""Programs whose segment shapes are cached; blocks that differ in their addresses only share an entry."""

Key = tuple[int, ...]
"""Identity of a program while it is held: programs that only move have the same key."""


@dataclass(frozen=True, slots=True)
class EarlyPart:
    """The early part of an excerpt: `share` of all iterations of each block or, with `blocks`, so many whole blocks."""

    share: float
    blocks: int | None = None

    def of(self, block: int) -> float:
        """Return the share of its iterations that a block of the excerpt has in the early part."""
        return self.share if self.blocks is None else float(block < self.blocks)


class BlockExcerpt(NamedTuple):
    """A cut block, and the `share` of its iterations that it keeps.

    `accesses` is the number of its warp instructions that access memory, `instructions` that of all its warp
    instructions, gaps included. `early_share` and `early_instructions` are those of its early part alone.
    """

    content: Columns | Program
    share: float
    accesses: float
    instructions: float
    early_share: float
    early_instructions: float


class _Beginning(NamedTuple):
    """The program of the early part of a block whose outer loops are shortened, and its share of all iterations."""

    program: Program
    share: float


class _SharedCut(NamedTuple):
    """A cut of a program that blocks share: the program that the cut blocks share, and their iterations of it.

    It has the `instructions` of the original in this order, moved by `moves` bytes.
    """

    program: SharedProgram
    trips: NDArray[np.int64]
    instructions: NDArray[np.int64] | slice
    moves: NDArray[np.int64]

    def of(self, block: MovedProgram) -> MovedProgram:
        """Return the program of a cut block."""
        return MovedProgram(self.program, block.moves[self.instructions] + self.moves, self.trips)


class _FoundCut(NamedTuple):
    """A cut, and what it makes of a program that blocks `shared`; `held` are the programs that it is for."""

    cut: Cut
    shared: _SharedCut | None
    held: tuple[object, ...]


class Excerpt(DerivedTrace):
    """The blocks `ids` of a trace, numbered from 0, each with about `share` of its iterations.

    ``starts[i]`` is the share of its iterations that block i skips before those that it keeps (None: 0 for all).
    Loops that advance by less than `advance` bytes in an iteration keep as many iterations as advance by a multiple.
    `shares` is the sum of the kept shares of all blocks that were read, `instructions` that of their warp
    instructions, gaps included. Cutting a block takes as long as making it, unless `Trace.shortened` returns functions
    that make a block with fewer iterations of its outer loops.

    With an `early` part, blocks are divided (`rdmodel.estimation.parts`). `early_shares` and `early_instructions` are
    those of the early part.
    """

    def __init__(
        self,
        trace: Trace,
        ids: Sequence[int],
        share: float = 1.0,
        starts: Sequence[float] | None = None,
        advance: int = SECTOR,
        early: EarlyPart | None = None,
    ) -> None:
        self.launch = replace(trace.launch, grid=(len(ids), 1, 1))
        self.blocks: Sequence[int] = range(len(ids))
        self.shares, self.instructions, self.early_shares, self.early_instructions = 0.0, 0.0, 0.0, 0.0
        self.original, self._ids, self._share, self._starts = trace, ids, share, starts
        self._advance, self._early, self._divider = advance, early, PartDivider()
        self._shapes: dict[Key, tuple[Program, list[SegmentShape]]] = {}
        self._cuts: dict[tuple[Key, Key, float, float, float | None], _FoundCut] = {}
        self._shorter = trace.shortened(share) if share < 1 else None
        self._beginnings = None
        if self._shorter is not None and early is not None:
            self._beginnings = trace.shortened(early.share)

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks, ascending, will be read next."""
        self.original.announce([self._ids[block] for block in blocks])

    def cut(self, block: int) -> BlockExcerpt:
        """Return an excerpt of a block; raise `TraceError` if the trace does not hold the block."""
        number, start = self._ids[block], 0.0 if self._starts is None else self._starts[block]
        early = None if self._early is None else self._early.of(block)
        if self._shorter is None:
            content, made = self.original.block(number), 1.0
        else:
            content, made = self._shorter[0](number, start), self._shorter[1](number)
        if isinstance(content, Columns):
            return _cut_columns(content, self._share, start, early)
        if isinstance(content, MovedProgram) and not content.is_whole:
            content = list(content)
        beginning: _Beginning | None = None
        if self._beginnings is not None:
            begun = self._beginnings[0](number, start)
            assert not isinstance(begun, Columns)
            beginning = _Beginning(begun, self._beginnings[1](number))
        cut, shared, _ = self._cut_of(content, Kept(self._share, made), start, early, beginning)
        if shared is not None:
            assert isinstance(content, MovedProgram)
            program: Program = shared.of(content)
        else:
            program = _cut_segments(content, cut, divide=early is not None)
        return BlockExcerpt(program, cut.share, cut.accesses, cut.instructions, cut.early_share, cut.early_instructions)

    def block(self, block: int) -> Columns | Program:
        """Return the instructions that a block keeps, and count them."""
        excerpt = self.cut(block)
        self.shares += excerpt.share
        self.instructions += excerpt.instructions
        self.early_shares += excerpt.early_share
        self.early_instructions += excerpt.early_instructions
        return excerpt.content

    def _cut_of(
        self,
        program: Program,
        whole: Kept,
        start: float,
        early: float | None,
        beginning: _Beginning | None,
    ) -> _FoundCut:
        question = _key_of(program), () if beginning is None else _key_of(beginning.program), whole.made, start, early
        found = self._cuts.get(question)
        if found is None:
            begun: float | Early | None = early
            if early is not None and beginning is not None:
                begun = self._begin(program, beginning, early)
            cut = plan_cut(self._measure(program), whole, start, begun)
            shared = self._cut_shared(program.shared, cut, early) if isinstance(program, MovedProgram) else None
            # The entry holds the programs, so that no others can get the ids of its keys.
            found = self._cuts[question] = _FoundCut(cut, shared, (program, beginning))
        return found

    def _cut_shared(self, program: SharedProgram, cut: Cut, early: float | None) -> _SharedCut:
        """Return a cut of a program that blocks share, which is divided if it has an early part."""
        moves = program.moves_to(cut.firsts)
        if early is None:
            return _SharedCut(program, cut.trips, slice(None), moves)
        divided, instructions, further = self._divider.divide_shared(program, cut.trips, cut.early)
        return _SharedCut(divided, divided.trips, instructions, moves[instructions] + further)

    def _begin(self, program: Program, beginning: _Beginning, share: float) -> float | Early:
        """Return the early iterations of a program whose early part is the program `beginning`, or else their share."""
        found = find_beginning(program, beginning.program)
        if found is None:
            return share
        cut = plan_cut(self._measure(beginning.program), Kept(share, beginning.share), 0.0)
        trips = [
            part.trips if part.segment is None else min(part.trips, cut.trips.item(part.segment)) for part in found
        ]
        return Early(trips, cut.share)

    def _measure(self, program: Program) -> list[SegmentShape]:
        """Return the shapes of the segments of a program."""
        key = _key_of(program)
        if key not in self._shapes:
            if len(self._shapes) >= MAX_MEASURED_PROGRAMS:
                self._shapes.clear()
                self._cuts.clear()
            shapes = [SegmentShape.of(segment, self._advance) for segment in segments_of(program)]
            self._shapes[key] = program, shapes
        return self._shapes[key][1]


def _key_of(program: Program) -> Key:
    if isinstance(program, MovedProgram):
        return (id(program.shared),)
    return tuple(id(segment.mask) for segment in program)


def _cut_segments(program: Program, cut: Cut, *, divide: bool) -> Program:
    """Return the iterations that a cut keeps of each segment, as both parts of them if they are divided."""
    trips = cut.trips.tolist()
    kept = [s.cut(f, k) for s, f, k in zip(program, cut.firsts.tolist(), trips, strict=True) if k]
    return divide_segments(kept, [e for e, k in zip(cut.early.tolist(), trips, strict=True) if k]) if divide else kept


def _cut_columns(columns: Columns, share: float, start: float, early: float | None) -> BlockExcerpt:
    """Cut a block in columns: keep consecutive instructions of each warp. With a share that is `early`, divide it."""
    begins, lengths = columns.warp_start[:-1], np.diff(columns.warp_start)
    whole = int(lengths.sum())
    if share < 1:
        counts = _rows_of_share(lengths, share)
        firsts = begins + np.minimum((start * lengths).astype(np.int64), lengths - counts)
        columns = _select_rows(columns, firsts, counts)
    accesses = begun = len(columns)
    gaps = early_gaps = int(columns.gap.sum(dtype=np.int64))
    if early is not None:
        columns = divide_columns(columns, np.minimum(np.diff(columns.warp_start), _rows_of_share(lengths, early)))
        begun = int(np.count_nonzero(columns.pc == EARLY))
        early_gaps = int(columns.gap[columns.pc == EARLY].sum(dtype=np.int64))
    kept, early_share = accesses / whole if whole else 1.0, begun / whole if whole else float(early != 0)
    return BlockExcerpt(columns, kept, accesses, accesses + gaps, early_share, begun + early_gaps)


def _rows_of_share(lengths: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Return the numbers of instructions that warps of these lengths keep."""
    if share <= 0:
        return np.zeros_like(lengths)
    kept: NDArray[np.int64] = np.maximum(np.minimum(lengths, MIN_ROWS), np.ceil(share * lengths).astype(np.int64))
    return kept


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
