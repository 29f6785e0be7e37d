"""One block of a nest after the other: straight from the affine forms to segments, NumPy over threads only.

Two things make it fast. Blocks that do the same (`Control.key`) differ in nothing but an offset per instruction, so
that one is recorded and the others are moved. The same holds for the iterations of a loop around other loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Launch, Op, Program, Segment
from tracegen.affine.affine_form import Affine
from tracegen.affine.bounds import complaint
from tracegen.affine.nest import (
    BLOCK,
    Nest,
    NestAccess,
    NestBarrier,
    NestGap,
    NestGuard,
    NestLoop,
    NestNode,
    walk,
)
from tracegen.affine.recording import LoopBody, Recorded, Recorder, State
from tracegen.affine.shifting import moved, moved_on
from tracegen.affine.uniform_ranges import stretches
from tracegen.simt.block import Geometry
from tracegen.simt.scoreboard import Mask
from tracegen.simt.symbolic import NO_SOURCES

MOST_KEPT = 1 << 24
"""Bytes of addresses that recorded blocks may take, to be moved instead of being recorded again."""


class Generator:
    """Makes the programs of the blocks of a launch."""

    def __init__(self, launch: Launch, nest: Nest) -> None:
        self._launch, self._nest = launch, nest
        self._geometry = Geometry(launch)
        self._kept: dict[tuple[object, ...], tuple[tuple[int, int, int], Program]] = {}
        self._bytes = 0

    def block(self, block: int) -> Program:
        """Return the program of a block; raises `TraceError` for a subscript outside its array."""
        width, height, _ = self._launch.grid
        at = block % width, block // width % height, block // (width * height)
        key = self._nest.control.key(at)
        if key not in self._kept:
            program = _BlockRun(self._launch, self._nest, self._geometry, at).program()
            self._keep(key, at, program)
            return program
        origin, program = self._kept[key]
        distance = [at[d] - origin[d] for d in BLOCK]
        return moved(program, self._nest.moves[:, : len(BLOCK)] @ distance) if any(distance) else program

    def _keep(self, key: tuple[object, ...], at: tuple[int, int, int], program: Program) -> None:
        size = sum(segment.base.nbytes for segment in program)
        if self._bytes + size > MOST_KEPT:
            self._kept.clear()
            self._bytes = 0
        if size <= MOST_KEPT and not self._nest.control.exact:
            self._kept[key] = at, program
            self._bytes += size


class _BlockRun:
    """Goes through the nest for one block.

    `_at` holds the value of every dimension: numbers, or arrays of one per thread.
    """

    def __init__(self, launch: Launch, nest: Nest, geometry: Geometry, block: tuple[int, int, int]) -> None:
        self._launch, self._nest, self._mask = launch, nest, geometry.mask
        self._at: list[Any] = [*block, *geometry.thread, *[0] * (len(nest.box) - 6)]
        self._recorder = Recorder(geometry.warps)

    def program(self) -> Program:
        """Return the segments of the block."""
        self._body(self._nest.body, self._mask, self._recorder)
        self._recorder.flush()
        return self._recorder.segments

    def _body(
        self,
        body: Sequence[NestNode],
        mask: Mask,
        to: Recorder | LoopBody,
        loop: NestLoop | None = None,
        trips: int = 1,
    ) -> None:
        """Tell `to` what a body does for the threads of `mask`, in `trips` iterations of `loop` at once."""
        for node in body:
            match node:
                case NestAccess():
                    self._access(node, mask, to, loop, trips)
                case NestGuard():
                    inner = self._holding(node.conditions, mask)
                    if inner.any:
                        self._body(node.body, inner, to, loop, trips)
                case NestLoop():
                    self._loop(node, mask)
                case NestBarrier():
                    to.record(Recorded(node.pc, Op.BARRIER, mask))
                case NestGap():
                    to.add_gap(node.instructions)
                case _:
                    to.wait(mask.run)

    def _holding(self, conditions: Sequence[Affine], mask: Mask) -> Mask:
        lanes = mask.lanes
        for condition in conditions:
            lanes = lanes & np.asarray(condition.value(self._at) >= 0)
        return mask if lanes is mask.lanes or np.array_equal(lanes, mask.lanes) else Mask(lanes, NO_SOURCES)

    def _access(
        self, access: NestAccess, mask: Mask, to: Recorder | LoopBody, loop: NestLoop | None, trips: int
    ) -> None:
        if not access.inside:
            self._check(access, mask, loop, trips)
        array = access.array
        step = 0 if loop is None else int(self._nest.moves[access.pc, loop.dimension])
        address = access.address.value(self._at)
        to.record(Recorded(access.pc, access.op, mask, array.space, array.size, address, step))

    def _check(self, access: NestAccess, mask: Mask, loop: NestLoop | None, trips: int) -> None:
        """Look at the first and the last iteration: in between, every index is between those."""
        wrong = complaint(access, self._at, mask.lanes, self._launch)
        if not wrong and loop is not None and trips > 1:
            at = list(self._at)
            at[loop.dimension] += trips - 1
            wrong = complaint(access, at, mask.lanes, self._launch)
        if wrong:
            raise TraceError(f"{self._launch.kernel}: {wrong}")

    # ---- loops

    def _loop(self, loop: NestLoop, mask: Mask) -> None:
        if loop.first >= 0:
            self._at[loop.first] = loop.lower.value(self._at)
        trips = -(-loop.distance.value(self._at) // loop.stride)
        outer = self._recorder.exiting
        if loop.innermost:
            self._innermost(loop, mask, trips)
        else:
            self._nested(loop, mask, trips)
        self._recorder.exiting = outer

    def _innermost(self, loop: NestLoop, mask: Mask, trips: Any) -> None:
        """Record the body once for each run of iterations in which the same threads do the same."""
        ends = _ends(trips, mask)
        total = max(ends, default=0)
        cuts = ends | self._crossings(loop, mask, total)
        for first, end in _pieces(cuts, total):
            active = mask if isinstance(trips, int) else _longer(mask, trips, first)
            self._at[loop.dimension] = first
            body = LoopBody()
            self._body(loop.body, active, body, loop, end - first)
            self._recorder.repeat(body, end - first, last=end == total)

    def _crossings(self, loop: NestLoop, mask: Mask, total: int) -> set[int]:
        """Return the iterations at which a guard in an innermost loop begins or ceases to hold for a thread."""
        cuts: set[int] = set()
        for node in walk(loop.body):
            if isinstance(node, NestGuard):
                for form in node.conditions:
                    step = form.coefficient(loop.dimension)
                    if step:
                        self._at[loop.dimension] = 0
                        start = np.broadcast_to(form.value(self._at), mask.lanes.shape)[mask.lanes]
                        # It holds from ceil(-start / step) on, or ends after floor(start / -step).
                        crossing = -(start // step) if step > 0 else start // -step + 1
                        cuts |= set(np.unique(crossing[(crossing > 0) & (crossing < total)]).tolist())
        return cuts

    def _nested(self, loop: NestLoop, mask: Mask, trips: Any) -> None:
        """Go through the iterations of a loop around others one by one, as far as they do not repeat."""
        ends = _ends(trips, mask)
        total = max(ends, default=0)
        for first, end in _pieces(ends, total):
            active = mask if isinstance(trips, int) else _longer(mask, trips, first)
            for begin, stop, alike in stretches(loop, first, end, self._at, self._nest.box):
                if alike:
                    self._alike(loop, active, begin, stop, total)
                    continue
                for t in range(begin, stop):
                    self._at[loop.dimension] = t
                    self._recorder.exiting = loop.loads and t == total - 1
                    self._body(loop.body, active, self._recorder)

    def _alike(self, loop: NestLoop, mask: Mask, first: int, end: int, total: int) -> None:
        """Go through iterations that differ in their addresses only: those that begin in the same state are moved."""
        recorder, along = self._recorder, self._nest.moves[:, loop.dimension]
        seen: dict[tuple[object, ...], tuple[int, list[Segment], State]] = {}
        t = first
        while t < end:
            recorder.flush()
            recorder.exiting = loop.loads and t == total - 1
            key = _key(recorder)
            if key not in seen:
                self._at[loop.dimension], held = t, len(recorder.segments)
                self._body(loop.body, mask, recorder)
                recorder.flush()
                seen[key] = t, recorder.segments[held:], recorder.state
                t += 1
                continue
            earlier, segments, after = seen[key]
            recorder.state = after
            # Where an iteration ends as it began, so do all others, but the last one if the loads in it tell.
            steady = not recorder.exiting and key == _key(recorder)
            count = min(end, total - loop.loads) - t if steady else 1
            recorder.segments += moved_on(segments, along, range(t - earlier, t - earlier + count))
            t += count


def _key(recorder: Recorder) -> tuple[object, ...]:
    loads, waiting, gap = recorder.state
    return loads.tobytes(), waiting.tobytes(), gap, recorder.exiting


def _ends(trips: Any, mask: Mask) -> set[int]:
    """Return the numbers of iterations after which a thread is done."""
    if not isinstance(trips, np.ndarray):
        return {int(trips)} if trips > 0 else set()
    done = trips[mask.lanes]
    return set(np.unique(done[done > 0]).tolist())


def _pieces(cuts: set[int], total: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of iterations between cuts, up to the last iteration."""
    first = 0
    for end in sorted(cut for cut in cuts if cut <= total):
        yield first, end
        first = end


def _longer(mask: Mask, trips: NDArray[np.int64], first: int) -> Mask:
    lanes = mask.lanes & (trips > first)
    return mask if np.array_equal(lanes, mask.lanes) else Mask(lanes, NO_SOURCES)
