"""Record the memory instructions of one block, or of a batch, as `Segment`s."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Op, Segment
from tracegen.simt.agreement import DivergenceError, in_common
from tracegen.simt.repetition import repetition
from tracegen.simt.scoreboard import Mask, MemoryInstruction, Scoreboard
from tracegen.unrolling import UnrolledBodies

MAX_STRAIGHT_INSTRUCTIONS = 1024
"""Maximum number of instructions of a segment of straight-line code, so that memory does not hold long code twice."""

MAX_BATCH_INSTRUCTIONS = 1 << 17
"""Maximum number of warp instructions of a batch: 32 MB of addresses."""


class LongBatchError(DivergenceError):
    """The program of a batch takes too much memory: fewer blocks have to run together.

    `instructions` are those of a warp, as far as they are known or can be expected.
    """

    def __init__(self, instructions: int) -> None:
        super().__init__(f"a batch has more than {MAX_BATCH_INSTRUCTIONS} warp instructions")
        self.instructions = instructions


@dataclass(frozen=True, slots=True)
class Variation:
    """Differences between the blocks of a batch in a segment.

    `present` tells which blocks execute each instruction, `gaps` are the gaps before them, and `exits` tell which loads
    are in the last iteration of a loop; all have the shape (blocks, instructions). `straight` code is in no loop.
    """

    present: NDArray[np.bool_]
    gaps: NDArray[np.int64]
    exits: NDArray[np.bool_]
    straight: bool


class BlockRecorder:
    """Recorder of one block of `warps` warps; `segments` is the program so far.

    `exiting` marks the last iteration of a loop. In a batch of several `blocks`, it may be one value for each of them,
    and `warps` counts the warps of all. `variations` are those of segments that some blocks do not execute as the
    others do, by their numbers.
    """

    def __init__(self, warps: int, blocks: int = 1) -> None:
        self.segments: list[Segment] = []
        self.variations: dict[int, Variation] = {}
        self.exiting: Any = False
        self._blocks = blocks
        self.recorded = 0
        self._most = MAX_BATCH_INSTRUCTIONS // warps if blocks > 1 else -1
        self._scoreboard = Scoreboard(warps)
        self._body: list[MemoryInstruction] = []
        self._gap: Any = 0  # a number, or one for each block
        self._varied = False  # whether blocks differ in the present segment
        self._wait: NDArray[np.bool_] | None = None

    def record(self, instruction: MemoryInstruction, *, symbolic: bool) -> None:
        """Append an instruction; a `symbolic` one represents every iteration of a loop."""
        self._take_gap(instruction)
        instruction.wait, self._wait = self._wait, None
        instruction.exit = self.exiting if instruction.op == Op.LOAD else False
        instruction.needs = self._scoreboard.issue(instruction)
        self._body.append(instruction)
        self._varied = self._varied or _varies(instruction)
        self.recorded += 1
        self.expect(0)
        if len(self._body) >= MAX_STRAIGHT_INSTRUCTIONS and not symbolic and not self._varied:
            self.flush()

    def expect(self, instructions: int) -> None:
        """Raise `LongBatchError` if so many further instructions of a batch would take too much memory."""
        if 0 <= self._most <= self.recorded + instructions:
            raise LongBatchError(self.recorded + instructions)

    def _take_gap(self, instruction: MemoryInstruction) -> None:
        """Put the pending gap before an instruction, in those blocks that execute it."""
        present = instruction.mask.present
        if present is None or (isinstance(self._gap, int) and self._gap == 0):
            instruction.gap, self._gap = self._gap, 0
        else:
            instruction.gap, self._gap = in_common(self._gap * present), in_common(self._gap * ~present)

    def add_gap(self, instructions: int, mask: Mask) -> None:
        """Insert `instructions` non-memory instructions before the next memory instruction, if a lane is active."""
        if mask.any:
            self._gap = self._gap + (instructions if mask.present is None else instructions * mask.present)

    def wait(self, warps: NDArray[np.bool_]) -> None:
        """Make the next memory instruction of `warps` wait for all earlier loads."""
        self._wait = warps if self._wait is None else self._wait | warps

    def flush(self) -> None:
        """Close the present segment of straight-line code."""
        if self._body:
            self._append(self._body, 1, straight=True)
            self._body, self._varied = [], False

    def begin_loop(self) -> LoopStart:
        """Start the body of a loop; return its start, for `repeat`."""
        self.flush()
        if self._wait is not None:
            self._scoreboard.wait(self._wait)
            self._wait = None
        return LoopStart(self._gap, self._scoreboard.state())

    def repeat(self, start: LoopStart, trips: int, bodies: UnrolledBodies | None) -> None:
        """Repeat the instructions recorded since `start` for `trips` iterations of a loop.

        The iterations become one segment, whose body has several iterations if these wait for different loads. First
        iterations that wait for other loads than the later ones, or follow another gap, are peeled.
        """
        body, self._body, self._varied = self._body, [], False
        present = self._blocks_of(body, start)
        if not body:
            self._gap = start.gap + trips * (self._gap - start.gap)
            return
        history, period = self._replay(body, start, trips, bodies)
        needs = np.array(history).reshape(len(history), len(body), self._blocks, -1)
        if present is not None:
            needs = needs[:, :, present]
        first, period = repetition(needs, period)
        more = self._gap - start.gap
        if more and trips > 1:
            first = max(first, 1)
        count, rest = divmod(trips - first, period)
        if count < 2 and period > 1:
            first, count, rest = trips, 0, 0

        def rows_of(times: range, step: int, last: int) -> list[MemoryInstruction]:
            rows = []
            for t in times:
                known = t if t < len(history) else len(history) - period + (t - len(history)) % period
                made = [i.iteration(t, n, step=step * i.step) for i, n in zip(body, history[known], strict=True)]
                made[0].gap += more if t else 0
                for row in made if t == last else ():
                    row.exit = row.op == Op.LOAD
                rows += made
            return rows

        parts = ((range(first), 1), (range(first, first + period), count), (range(trips - rest, trips), 1))
        for times, repeated in parts:
            if times and repeated:
                end = times[-1] if times[-1] + 1 + (repeated - 1) * period == trips else -1
                rows = rows_of(times, period if repeated > 1 else 0, end)
                self._append(rows, repeated, straight=False)
        self._wait = None

    def _blocks_of(self, body: Sequence[MemoryInstruction], start: LoopStart) -> NDArray[np.bool_] | None:
        """Return the blocks of a batch that execute the body of a loop; None if all do.

        Raises `DivergenceError` if a block executes a part of it only, or if blocks differ in gaps or inner loops.
        """
        values = (start.gap, self._gap, *(instruction.gap for instruction in body), *(i.exit for i in body))
        present = {None if i.mask.present is None else i.mask.present.tobytes() for i in body}
        if len(present) > 1 or any(isinstance(value, np.ndarray) for value in values):
            raise DivergenceError("the blocks of a batch execute different parts of a loop")
        found = body[0].mask.present if body else None
        if found is not None and (start.gap or self._gap):
            # Blocks without the body collect the gaps of all iterations.
            raise DivergenceError("the blocks of a batch differ in the gaps of a loop")
        return found

    def _replay(
        self, body: list[MemoryInstruction], start: LoopStart, trips: int, bodies: UnrolledBodies | None
    ) -> tuple[list[list[NDArray[np.uint64]]], int]:
        """Return the needs of each iteration until they repeat, and their period; advance the scoreboard to the end.

        65 iterations, or bodies, are enough: then the registers hold no load from before the loop.
        """
        board, period = self._scoreboard, 1 if bodies is None else bodies.times
        states, history = [start.state], [[i.needs for i in body]]
        outside = any(load not in body for i in body for load in i.sources)
        while True:
            self._end_iteration(len(history), bodies)
            states.append(board.state())
            if bodies is not None and len(history) > outside and not board.has_open(bodies.warps):
                period = 1 if np.array_equal(states[-2], states[-1]) else period
            if len(history) == trips or (
                len(history) >= period * (1 + outside) and np.array_equal(states[-1 - period], states[-1])
            ):
                break
            history.append([board.issue(i) for i in body])
        left = trips - len(history)
        rest = np.zeros(len(body[0].mask.bits), np.uint64)
        for instruction in body:
            if instruction.op != Op.BARRIER:
                rest += instruction.mask.run
        rest *= np.uint64(left // period * period)
        board.skip(rest)
        for instruction in body:
            if instruction.op == Op.LOAD:
                instruction.position = instruction.position + rest
        for t in range(left % period):
            for instruction in body:
                board.issue(instruction)
            self._end_iteration(len(history) + t + 1, bodies)
        return history, period

    def _end_iteration(self, iterations: int, bodies: UnrolledBodies | None) -> None:
        """Let the warps wait after so many iterations as the loop, or the end of a body, says."""
        if self._wait is not None:
            self._scoreboard.wait(self._wait)
        if bodies is not None and bodies.end_with(iterations):
            self._scoreboard.wait(bodies.warps)

    def _append(self, body: list[MemoryInstruction], trips: int, *, straight: bool) -> None:
        """Append a segment, and its variation if blocks differ."""
        varied = any(map(_varies, body))
        if varied:
            shape = self._blocks, len(body)
            present, gaps, exits = np.ones(shape, np.bool_), np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
            for at, instruction in enumerate(body):
                if instruction.mask.present is not None:
                    present[:, at] = instruction.mask.present
                gaps[:, at], exits[:, at] = instruction.gap, instruction.exit
            self.variations[len(self.segments)] = Variation(present, gaps, exits, straight)
        self.segments.append(self._segment(body, trips, varied))

    def _segment(self, body: list[MemoryInstruction], trips: int, varied: bool) -> Segment:
        """Return a segment; segments with equal bodies share columns, in all blocks, so that loop nests stay small.

        The gaps of a `varied` segment, and the loads of last iterations, are in its variation.
        """
        own = [(0, False) if varied else (i.gap, i.exit) for i in body]
        shared = shared_columns(
            tuple(
                (i.pc, i.op, i.space, i.size, gap, exit, i.step, i.cache_op)
                for i, (gap, exit) in zip(body, own, strict=True)
            )
        )
        warps = len(body[0].mask.bits)
        base = np.empty((warps, len(body), WARP), dtype=np.int64)
        for at, instruction in enumerate(body):
            address = instruction.address
            if isinstance(address, np.ndarray):
                address = address.reshape(warps, WARP)
            base[:, at] = address
        return Segment(
            trips=trips,
            needs=np.stack([i.needs for i in body], axis=1),
            mask=np.stack([i.mask.bits for i in body], axis=1),
            base=base,
            **shared,
        )


class LoopStart:
    """The pending `gap` and the `state` of the scoreboard at the start of a loop."""

    __slots__ = ("gap", "state")

    def __init__(self, gap: Any, state: NDArray[np.uint64]) -> None:
        self.gap = gap
        self.state = state


@functools.lru_cache(maxsize=64)
def shared_columns(key: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    """Return the columns of a segment from rows of (pc, op, space, size, gap, loop_exit, step, cache_op)."""
    types = {
        "pc": np.int32,
        "op": np.uint8,
        "space": np.uint8,
        "size": np.uint8,
        "gap": np.int32,
        "loop_exit": np.bool_,
        "step": np.int64,
        "cache_op": np.uint8,
    }
    columns: dict[str, Any] = {}
    for (name, dtype), values in zip(types.items(), zip(*key, strict=True), strict=True):
        columns[name] = np.array(values, dtype=dtype)
        columns[name].flags.writeable = False
    if not columns["cache_op"].any():
        columns["cache_op"] = None
    return columns


def _varies(instruction: MemoryInstruction) -> bool:
    """Tell whether the blocks of a batch differ in an instruction."""
    present, gap, exit = instruction.mask.present, instruction.gap, instruction.exit
    return present is not None or isinstance(gap, np.ndarray) or isinstance(exit, np.ndarray)
