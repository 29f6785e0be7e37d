"""Describe blocks that differ in their addresses only: one program, and the bytes by which each block moves it.

Streams read such a program in place (`rdmodel.trace.coalescing`), so that opening a block takes a few array operations,
however many instructions and lanes it has. For all others it is a sequence of segments, written out on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace._coalesce import SegmentBuffers
from rdmodel.trace.columns import Program, Segment


class SharedProgram:
    """A program that several blocks execute.

    `pc`, `step` and `number` are the columns of all instructions, one segment after the other: address in the program,
    bytes per iteration, and number of the segment. `trips` has the iterations of each segment, and `instructions` the
    warp instructions of one. `buffers` are the segments as streams read them, None until then.
    """

    __slots__ = ("buffers", "instructions", "number", "pc", "segments", "step", "trips")

    def __init__(self, segments: Program) -> None:
        self.segments = tuple(segments)
        self.buffers: list[SegmentBuffers | None] = [None] * len(self.segments)
        lengths = [len(segment.pc) for segment in self.segments]
        none = np.empty(0, np.int64)
        self.pc = np.concatenate([none, *(segment.pc for segment in self.segments)]).astype(np.int64)
        self.step = np.concatenate([none, *(segment.step for segment in self.segments)])
        self.number = np.repeat(np.arange(len(lengths)), lengths)
        self.trips = np.array([segment.trips for segment in self.segments], np.int64)
        self.instructions = np.array([np.count_nonzero(segment.mask) for segment in self.segments], np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the segments."""
        return sum(segment.nbytes for segment in self.segments)

    def moves_to(self, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes by which instructions move if segment s begins with iteration ``firsts[s]``."""
        moves: NDArray[np.int64] = firsts[self.number] * self.step
        return moves

    def __reduce__(self) -> tuple[type[SharedProgram], tuple[Program]]:
        """Pickle the segments alone."""
        return SharedProgram, (self.segments,)


class MovedProgram(Sequence[Segment]):
    """The program of one block: `shared`, of which instruction i accesses addresses ``moves[i]`` bytes further.

    Segment s has ``trips[s]`` iterations, by default those of the shared program; it is left out if it has none.
    `moves` and `trips` are int64.
    """

    __slots__ = ("moves", "shared", "trips")

    def __init__(self, shared: SharedProgram, moves: NDArray[np.int64], trips: NDArray[np.int64] | None = None) -> None:
        self.shared, self.moves = shared, moves
        self.trips = shared.trips if trips is None else trips

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._kept())

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        """Return a segment with its addresses written out, or a list of them."""
        if isinstance(index, slice):
            return [self._segment(number) for number in self._kept()[index]]
        return self._segment(self._kept()[index])

    def __iter__(self) -> Iterator[Segment]:
        """Yield the segments with their addresses written out."""
        return map(self._segment, self._kept())

    @property
    def nbytes(self) -> int:
        """Bytes of memory that blocks do not share."""
        return int(self.moves.nbytes + self.trips.nbytes)

    def moved(self, moves: NDArray[np.int64]) -> MovedProgram:
        """Return the program with instruction i, of all of the shared program, moved by another ``moves[i]`` bytes."""
        return MovedProgram(self.shared, self.moves + moves, self.trips)

    def cut(self, trips: NDArray[np.int64], moves: NDArray[np.int64]) -> MovedProgram:
        """Return the program with `trips` iterations of each segment, moved by another ``moves[i]`` bytes."""
        return MovedProgram(self.shared, self.moves + moves, trips)

    @property
    def is_whole(self) -> bool:
        """Whether all segments have the iterations of the shared program."""
        return self.trips is self.shared.trips

    def _kept(self) -> list[int]:
        return [int(number) for number in np.flatnonzero(self.trips)]

    def _segment(self, number: int) -> Segment:
        segment, rows = self.shared.segments[number], self.shared.number == number
        trips = int(self.trips[number])
        moved = segment.with_lanes(segment.base + self.moves[rows][:, None])
        return moved if trips == segment.trips else replace(moved, trips=trips)


def segments_of(program: Program) -> Program:
    """Return the segments of a program, without writing out those that blocks share: as they are for all of them."""
    return program.shared.segments if isinstance(program, MovedProgram) else program


def move_program(program: Program, offsets: NDArray[np.int64]) -> MovedProgram:
    """Return a program in which the addresses of instruction `pc` are moved by ``offsets[pc]`` bytes."""
    if not isinstance(program, MovedProgram):
        shared = SharedProgram(program)
        return MovedProgram(shared, offsets[shared.pc])
    return program.moved(offsets[program.shared.pc])
