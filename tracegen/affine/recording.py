"""Record the instructions of a block as `Segment`s, with their dependences on loads, and with loops.

The rules for dependences are those of `tracegen.simt.scoreboard`. Addresses never come from loads here, so one 64-bit
register per warp suffices: it marks those of the last 64 memory instructions that are loads not yet waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Op, Segment, Space
from tracegen.simt.recorder import shared_columns
from tracegen.simt.repetition import repetition
from tracegen.simt.scoreboard import Mask
from tracegen.unrolling import UnrolledBodies

MAX_SEGMENT_GAP = (1 << 31) - 1
"""Largest gap of an instruction in a trace."""

_MAX_STRAIGHT_INSTRUCTIONS = 256
"""Maximum number of instructions of straight-line code in one segment."""


@dataclass(slots=True, eq=False)
class AffineInstruction:
    """An instruction: in iteration t, thread l accesses ``address[l] + t * step``."""

    pc: int
    op: Op
    mask: Mask
    space: Space = Space.GLOBAL
    size: int = 0
    address: Any = 0
    step: int = 0
    cache_op: int = 0


State = tuple[NDArray[np.uint64], NDArray[np.bool_], int]
"""State that determines the needs and gaps of the following instructions: loads, waiting warps and gap."""


@dataclass(slots=True, eq=False)
class RecordedRow:
    """An instruction with the loads that it waits for, or a copy of it, `moved` by a number of iterations."""

    instruction: AffineInstruction
    needs: NDArray[np.uint64]
    gap: int
    exit: bool = False
    step: int = 0
    moved: int = 0


class LoopBody:
    """The body of a loop, recorded once for all iterations; it has the recording methods of `SegmentRecorder`."""

    def __init__(self) -> None:
        self.items: list[AffineInstruction | NDArray[np.bool_] | int] = []

    def record(self, instruction: AffineInstruction) -> None:
        """Append an instruction."""
        self.items.append(instruction)

    def add_gap(self, instructions: int) -> None:
        """Add instructions without memory access before the next memory instruction."""
        self.items.append(instructions)

    def wait(self, warps: NDArray[np.bool_]) -> None:
        """Make the next memory instruction of `warps` wait for all earlier loads."""
        self.items.append(warps)


class SegmentRecorder:
    """Records the instructions of one block of `warps` warps; `segments` is the program so far.

    `exiting` says that the recorded instructions belong to the last iteration of their loop.
    """

    def __init__(self, warps: int) -> None:
        self.segments: list[Segment] = []
        self.exiting = False
        self._none = np.zeros(warps, dtype=np.uint64)
        self._loads = self._none
        self._waiting = np.zeros(warps, dtype=np.bool_)
        self._rows: list[RecordedRow] = []
        self._gap = 0

    def record(self, instruction: AffineInstruction) -> None:
        """Append an instruction."""
        row = self._issue(instruction)
        row.exit = self.exiting and instruction.op == Op.LOAD
        self._rows.append(row)

    def add_gap(self, instructions: int) -> None:
        """Add instructions without memory access before the next memory instruction."""
        self._gap = min(self._gap + instructions, MAX_SEGMENT_GAP)

    def wait(self, warps: NDArray[np.bool_]) -> None:
        """Make the next memory instruction of `warps` wait for all earlier loads."""
        self._waiting = self._waiting | warps & (self._loads != 0)

    def flush(self) -> None:
        """Turn the straight-line code so far into segments."""
        rows, self._rows = self._rows, []
        for first in range(0, len(rows), _MAX_STRAIGHT_INSTRUCTIONS):
            self.segments.append(_segment(rows[first : first + _MAX_STRAIGHT_INSTRUCTIONS], 1))

    @property
    def state(self) -> State:
        """The state that determines the needs and gaps of the following instructions."""
        return self._loads, self._waiting, self._gap

    @state.setter
    def state(self, state: State) -> None:
        self._loads, self._waiting, self._gap = state

    def repeat(self, body: LoopBody, trips: int, *, last: bool, bodies: UnrolledBodies | None = None) -> None:
        """Append `trips` iterations of a body; `last` says that the loop ends with them.

        The iterations become one segment, whose body has several iterations if these wait for different loads. First
        iterations that wait for other loads than the later ones, or follow another gap, are peeled.
        """
        self.flush()
        if not any(isinstance(item, AffineInstruction) for item in body.items):
            self._record_pass(body)
            self.add_gap((trips - 1) * sum(item for item in body.items if isinstance(item, int)))
            return
        history, period = self._replay(body, trips, bodies)
        if period > 1:
            first, period = repetition(np.array([[row.needs for row in rows] for rows in history])[:, :, None], period)
        if period == 1:
            first = next(t for t in range(len(history)) if all(_same_rows(rows, history[-1]) for rows in history[t:]))
        elif first == 0 and history[0][0].gap != history[-1][0].gap:
            first = 1
        count, rest = divmod(trips - first, period)
        if count < 2 and period > 1:
            first, count, rest = trips, 0, 0

        def rows_of(times: range, step: int, end: int) -> list[RecordedRow]:
            rows = []
            for t in times:
                known = t if t < len(history) else len(history) - period + (t - len(history)) % period
                rows += [
                    replace(
                        row, moved=t, step=step * row.instruction.step, exit=t == end and row.instruction.op == Op.LOAD
                    )
                    for row in history[known]
                ]
            return rows

        parts = ((range(first), 1), (range(first, first + period), count), (range(trips - rest, trips), 1))
        for times, repeated in parts:
            if times and repeated:
                ends = last and times[-1] + 1 + (repeated - 1) * period == trips
                rows = rows_of(times, period if repeated > 1 else 0, times[-1] if ends else -1)
                self.segments.append(_segment(rows, repeated))

    def _replay(self, body: LoopBody, trips: int, bodies: UnrolledBodies | None) -> tuple[list[list[RecordedRow]], int]:
        """Return the rows of each iteration until they repeat, and their period; advance the state to the end.

        A register of 64 loads repeats after 65 iterations, or bodies, at most.
        """
        period = 1 if bodies is None else bodies.times
        states = [self.state]
        history: list[list[RecordedRow]] = []
        while len(history) < trips:
            history.append(self._record_pass(body))
            nothing_open = bodies is not None and not self._loads[bodies.warps].any()
            if bodies is not None and bodies.end_with(len(history)):
                self.wait(bodies.warps)
            states.append(self.state)
            if nothing_open and _same_state(states[-2], states[-1]):
                return history, 1
            if len(states) > period and _same_state(states[-1 - period], states[-1]):
                break
        left = trips - len(history)
        self.state = states[-1 - (-left % period)]
        return history, period

    def _record_pass(self, body: LoopBody) -> list[RecordedRow]:
        rows = []
        for item in body.items:
            if isinstance(item, AffineInstruction):
                rows.append(self._issue(item))
            elif isinstance(item, int):
                self.add_gap(item)
            else:
                self.wait(item)
        return rows

    def _issue(self, instruction: AffineInstruction) -> RecordedRow:
        """Issue an instruction for its active warps; the needs of the other warps are 0."""
        gap, self._gap = self._gap, 0
        mask, needs = instruction.mask, self._none
        is_load, waiting = instruction.op == Op.LOAD, bool(self._waiting.any())
        if not is_load or waiting:
            waits = mask.run & self._waiting if is_load else mask.run
            needs = np.where(waits, self._loads, self._none)
            if waiting:
                self._waiting = self._waiting & ~mask.run
            self._loads = np.where(waits, self._none, self._loads)
        if instruction.op != Op.BARRIER:
            self._loads = self._loads << mask.run | (mask.run if is_load else self._none)
        return RecordedRow(instruction, needs, gap)


def _segment(rows: Sequence[RecordedRow], trips: int) -> Segment:
    """Return a segment; segments with the same body share its columns, which saves memory."""
    listed = [row.instruction for row in rows]
    shared = shared_columns(
        tuple(
            (i.pc, i.op, i.space, i.size, row.gap, row.exit, row.step, i.cache_op)
            for i, row in zip(listed, rows, strict=True)
        )
    )
    warps = len(rows[0].needs)
    base = np.empty((warps, len(rows), WARP), dtype=np.int64)
    for at, (instruction, row) in enumerate(zip(listed, rows, strict=True)):
        address = instruction.address + row.moved * instruction.step
        base[:, at] = address.reshape(warps, WARP) if isinstance(address, np.ndarray) else address
    return Segment(
        trips=trips,
        needs=np.stack([row.needs for row in rows], axis=1),
        mask=np.stack([i.mask.bits for i in listed], axis=1),
        base=base,
        **shared,
    )


def _same_state(one: State, other: State) -> bool:
    return one[2] == other[2] and all(a is b or np.array_equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))


def _same_rows(rows: Sequence[RecordedRow], others: Sequence[RecordedRow]) -> bool:
    return rows is others or all(
        a.gap == b.gap and (a.needs is b.needs or np.array_equal(a.needs, b.needs))
        for a, b in zip(rows, others, strict=True)
    )
