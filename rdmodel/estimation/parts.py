"""Divide the blocks of an excerpt into an early and a late part, whose transactions a run counts apart.

The pc of an instruction then tells its part. A loop that is divided becomes two segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.model.late_counts import EARLY, LATE
from rdmodel.trace import Columns, Program, Segment
from rdmodel.trace.moved import SharedProgram, segments_of

MAX_DIVIDED_PROGRAMS = 64
"""Divided programs that are kept for other blocks."""


class _Piece(NamedTuple):
    """The iterations of a segment that are in one part: `trips` of them, from iteration `first` on."""

    part: int
    first: int
    trips: int


class DividedProgram(NamedTuple):
    """A program in two parts, and the `instructions` of the original that it has, in order, moved by `moves` bytes."""

    program: SharedProgram
    instructions: NDArray[np.int64]
    moves: NDArray[np.int64]

    @classmethod
    def of(cls, program: SharedProgram, trips: NDArray[np.int64], early: NDArray[np.int64]) -> DividedProgram:
        """Return a program of which `trips` iterations of each segment are kept, the first `early` of them early."""
        segments, instructions, moves = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number, segment in enumerate(program.segments):
            rows = np.flatnonzero(program.number == number)
            for piece in _pieces(trips.item(number), early.item(number)):
                segments.append(_name_part(segment.cut(0, piece.trips), piece.part))
                instructions.append(rows)
                moves.append(piece.first * segment.step)
        return cls(SharedProgram(segments), np.concatenate(instructions), np.concatenate(moves))


class PartDivider:
    """Divides the programs that the blocks of one excerpt share, each once."""

    def __init__(self) -> None:
        # An entry holds its program, so that no other one can get the id in its key.
        self._programs: dict[tuple[int, bytes, bytes], tuple[SharedProgram, DividedProgram]] = {}

    def divide_shared(
        self, program: SharedProgram, trips: NDArray[np.int64], early: NDArray[np.int64]
    ) -> DividedProgram:
        """Return `trips` iterations of each segment; pcs are numbers of parts, and the first `early` ones are early."""
        key = id(program), trips.tobytes(), early.tobytes()
        found = self._programs.get(key)
        if found is None:
            if len(self._programs) >= MAX_DIVIDED_PROGRAMS:
                self._programs.clear()
            found = self._programs[key] = program, DividedProgram.of(program, trips, early)
        return found[1]


def divide_segments(program: Program, early: Sequence[int]) -> Program:
    """Return a block whose pcs are the numbers of its parts; ``early[i]`` iterations of segment i are early."""
    return [
        _name_part(segment.cut(piece.first, piece.trips), piece.part)
        for segment, first in zip(program, early, strict=True)
        for piece in _pieces(segment.trips, first)
    ]


def divide_columns(columns: Columns, early: NDArray[np.int64]) -> Columns:
    """Return a block whose pcs are the numbers of its parts; ``early[i]`` instructions of warp i are early."""
    counts = np.diff(columns.warp_start)
    places = np.arange(len(columns)) - np.repeat(columns.warp_start[:-1], counts)
    return replace(columns, pc=np.where(places < np.repeat(early, counts), EARLY, LATE).astype(np.int32))


class Beginning(NamedTuple):
    """The first iterations of a segment that are in a beginning of its program: `trips` of them.

    `segment` is the number of the segment of the beginning that has them, if only one has.
    """

    trips: int
    segment: int | None


def find_beginning(program: Program, beginning: Program) -> list[Beginning] | None:
    """Return what a beginning has of each segment of a program; it has fewer iterations of outer loops.

    Iterations correspond if they have the same instructions, and the earliest possible ones do. None: the beginning is
    not made of iterations of the program.
    """
    reader = _InstructionReader([(segment.pc.tolist(), segment.trips) for segment in segments_of(beginning)])
    found = [reader.take(segment.pc.tolist(), segment.trips) for segment in segments_of(program)]
    return found if reader.is_at_end else None


class _InstructionReader:
    """Reads the pcs of bodies, each of which is repeated so many times."""

    def __init__(self, bodies: list[tuple[list[int], int]]) -> None:
        self._bodies = [(body, trips) for body, trips in bodies if body and trips > 0]
        self._segment = self._trip = self._place = 0

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read."""
        return self._segment == len(self._bodies)

    def take(self, body: list[int], most: int) -> Beginning:
        """Read a body as often as it follows, at most so many times."""
        taken, segments = 0, set()
        while taken < most and not self.is_at_end and body:
            segment = self._segment
            same, trips = self._bodies[segment]
            if self._place == 0 and same == body:
                count = min(most - taken, trips - self._trip)
                self._move_to(segment, self._trip + count, 0)
                taken += count
                segments.add(segment)
            elif self._skip(body):
                taken += 1
                segments |= {segment, segment + 1}
            else:
                break
        return Beginning(taken, segments.pop() if len(segments) == 1 else None)

    def _skip(self, body: list[int]) -> bool:
        """Read a body once; return whether it follows."""
        before = self._segment, self._trip, self._place
        for pc in body:
            if self.is_at_end or self._bodies[self._segment][0][self._place] != pc:
                self._segment, self._trip, self._place = before
                return False
            self._move_to(self._segment, self._trip, self._place + 1)
        return True

    def _move_to(self, segment: int, trip: int, place: int) -> None:
        """Go on at a place, which may be the end of a body or behind its last repetition."""
        if place == len(self._bodies[segment][0]):
            trip, place = trip + 1, 0
        if trip == self._bodies[segment][1]:
            segment, trip = segment + 1, 0
        self._segment, self._trip, self._place = segment, trip, place


def _pieces(trips: int, early: int) -> list[_Piece]:
    pieces = _Piece(EARLY, 0, early), _Piece(LATE, early, trips - early)
    return [piece for piece in pieces if piece.trips > 0]


def _name_part(segment: Segment, part: int) -> Segment:
    return replace(segment, pc=np.full_like(segment.pc, part))
