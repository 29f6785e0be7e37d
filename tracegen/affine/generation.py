"""Generate the blocks of a nest, straight from the affine forms to segments, with NumPy over the threads.

Two facts make it fast. Blocks with equal `Control.key` differ only by an offset per instruction, so one of them is
recorded and shifted to the others. The same holds for the iterations of a loop around other loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import memory_text
from rdmodel.errors import TraceError
from rdmodel.trace import Launch, Op, Program, Segment
from rdmodel.trace.moved import MovedProgram, SharedProgram
from tracegen.affine.affine_form import Affine, Term
from tracegen.affine.bounds import describe_violation
from tracegen.affine.nest import (
    BLOCK_DIMENSIONS,
    THREAD_DIMENSIONS,
    Nest,
    NestAccess,
    NestBarrier,
    NestGap,
    NestGuard,
    NestLoop,
    NestNode,
    NestShared,
    NestWait,
    walk,
)
from tracegen.affine.recording import AffineInstruction, LoopBody, SegmentRecorder, State
from tracegen.affine.shifting import program_bytes, repeat_program, repeated_bytes
from tracegen.affine.uniform_ranges import cut_iterations
from tracegen.simt.block import Geometry
from tracegen.simt.scoreboard import Mask
from tracegen.simt.symbolic import NO_SOURCES
from tracegen.unrolling import UnrolledBodies

MAX_CACHED_BYTES = 1 << 24
"""Bytes of addresses of recorded blocks that are cached to be shifted to other blocks."""


MAX_PROGRAM_BYTES = 1 << 28
"""Memory of the program of a block; larger ones come from loops around others that have to be written out."""


class Generator:
    """Generates the programs of the blocks of a launch."""

    def __init__(self, launch: Launch, nest: Nest, unroll: int | None) -> None:
        self._launch, self._nest, self._unroll = launch, nest, unroll
        self._geometry = Geometry(launch)
        self._thread_sums = _ThreadSums()
        self._cache: dict[tuple[object, ...], _Recorded] = {}
        self._bytes = 0

    def block(self, block: int) -> Program:
        """Return the program of a block; raises `TraceError` for a subscript outside its array."""
        width, height, _ = self._launch.grid
        at = block % width, block // width % height, block // (width * height)
        key = self._nest.control.key(at)
        recorded = self._cache.get(key)
        if recorded is None:
            run = _BlockRun(self._launch, self._nest, self._geometry, self._thread_sums, at, self._unroll)
            program = run.program()
            size = sum(segment.base.nbytes for segment in program)
            if size > MAX_CACHED_BYTES or self._nest.control.exact:
                return program
            recorded = _Recorded.of(program, at, self._nest.moves)
            self._store(key, recorded, size)
        return recorded.at(at)

    def _store(self, key: tuple[object, ...], recorded: _Recorded, size: int) -> None:
        if self._bytes + size > MAX_CACHED_BYTES:
            self._cache.clear()
            self._bytes = 0
        self._cache[key] = recorded
        self._bytes += size


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The program of a block with the ids `origin`, and by how many bytes one block further moves each instruction.

    `moves` has a row for each dimension of the grid.
    """

    program: SharedProgram
    origin: tuple[int, int, int]
    moves: NDArray[np.int64]

    @classmethod
    def of(cls, program: Program, origin: tuple[int, int, int], moves: NDArray[np.int64]) -> _Recorded:
        """Return the record of a program, with the moves of instructions by `pc` and dimension."""
        shared = SharedProgram(program)
        return cls(shared, origin, np.ascontiguousarray(moves[shared.pc, : len(BLOCK_DIMENSIONS)].T))

    def at(self, block: tuple[int, int, int]) -> MovedProgram:
        """Return the program of the block with these ids."""
        distance = [a - b for a, b in zip(block, self.origin, strict=True)]
        return MovedProgram(self.program, np.dot(distance, self.moves))


class _ThreadSums:
    """The values of terms that depend on the thread alone: many accesses have the same, and all blocks."""

    def __init__(self) -> None:
        self._known: dict[tuple[Term, ...], Any] = {}

    def value(self, form: Affine, at: Sequence[Any]) -> Any:
        """Return ``form.value(at)``; the thread indices in `at` must be the same in all calls."""
        rest: Any = form.constant
        terms: tuple[Term, ...] = ()
        for term in form.terms:
            dimension, coefficient = term
            if dimension in THREAD_DIMENSIONS:
                terms += (term,)
            else:
                rest = rest + at[dimension] * coefficient
        if terms not in self._known:
            self._known[terms] = Affine(0, terms).value(at)
        return self._known[terms] + rest


class _BlockRun:
    """Executes the nest for one block.

    `_at` has the value of every dimension, a number or an array with one value per thread.
    """

    def __init__(
        self,
        launch: Launch,
        nest: Nest,
        geometry: Geometry,
        sums: _ThreadSums,
        block: tuple[int, int, int],
        unroll: int | None,
    ) -> None:
        self._launch, self._nest, self._mask, self._unroll = launch, nest, geometry.mask, unroll
        self._sums = sums
        self._at: list[Any] = [*block, *geometry.thread, *[0] * (len(nest.box) - 6)]
        self._recorder = SegmentRecorder(geometry.warps)
        self._bytes = self._measured = 0

    def program(self) -> Program:
        """Return the segments of the block."""
        self._record_body(self._nest.body, self._mask, self._recorder)
        self._recorder.flush()
        return self._recorder.segments

    def _record_body(
        self,
        body: Sequence[NestNode],
        mask: Mask,
        target: SegmentRecorder | LoopBody,
        loop: NestLoop | None = None,
        trips: int = 1,
    ) -> None:
        """Record in `target` a body that the threads of `mask` execute, in `trips` iterations of `loop` at once."""
        checkpoint()
        for node in body:
            match node:
                case NestAccess():
                    self._record_access(node, mask, target, loop, trips)
                case NestGuard():
                    inner = self._restrict_mask(node.conditions, mask)
                    if inner.any:
                        self._record_body(node.body, inner, target, loop, trips)
                case NestLoop():
                    self._record_loop(node, mask)
                case NestBarrier():
                    target.record(AffineInstruction(node.pc, Op.BARRIER, mask))
                case NestGap():
                    target.add_gap(node.instructions)
                case NestShared():
                    if not node.access.inside:
                        self._check_bounds(node.access, mask, loop, trips)
                case NestWait():
                    target.wait(mask.run)

    def _restrict_mask(self, conditions: Sequence[Affine], mask: Mask) -> Mask:
        lanes = mask.lanes
        for condition in conditions:
            lanes = lanes & np.asarray(self._sums.value(condition, self._at) >= 0)
        return mask if lanes is mask.lanes or np.array_equal(lanes, mask.lanes) else Mask(lanes, NO_SOURCES)

    def _record_access(
        self, access: NestAccess, mask: Mask, target: SegmentRecorder | LoopBody, loop: NestLoop | None, trips: int
    ) -> None:
        if not access.inside:
            self._check_bounds(access, mask, loop, trips)
        array = access.array
        step = 0 if loop is None else int(self._nest.moves[access.pc, loop.dimension])
        address = self._sums.value(access.address, self._at)
        target.record(
            AffineInstruction(access.pc, access.op, mask, array.space, array.size, address, step, access.cache_op)
        )

    def _check_bounds(self, access: NestAccess, mask: Mask, loop: NestLoop | None, trips: int) -> None:
        """Raise `TraceError` if an index is outside; the first and the last iteration bound those in between."""
        wrong = describe_violation(access, self._at, mask.lanes, self._launch)
        if not wrong and loop is not None and trips > 1:
            at = list(self._at)
            at[loop.dimension] += trips - 1
            wrong = describe_violation(access, at, mask.lanes, self._launch)
        if wrong:
            raise TraceError(f"{self._launch.kernel}: {wrong}")

    # ---- loops

    def _record_loop(self, loop: NestLoop, mask: Mask) -> None:
        if loop.first >= 0:
            self._at[loop.first] = loop.lower.value(self._at)
        trips = -(-loop.distance.value(self._at) // loop.stride)
        outer = self._recorder.exiting
        if loop.innermost:
            self._record_innermost(loop, mask, trips)
        else:
            self._record_nested(loop, mask, trips)
        self._recorder.exiting = outer

    def _record_innermost(self, loop: NestLoop, mask: Mask, trips: Any) -> None:
        """Record the body once for each range of iterations in which the same threads execute the same accesses."""
        ends = _final_iterations(trips, mask)
        total = max(ends, default=0)
        cuts = ends | self._guard_crossings(loop, mask, total)
        times = loop.unrolled(self._unroll)
        active = mask if isinstance(trips, int) else _running_lanes(mask, trips, 0)
        for first, end in _ranges_between(cuts, total):
            self._at[loop.dimension] = first
            body = LoopBody()
            self._record_body(loop.body, active, body, loop, end - first)
            bodies = None if times is None else UnrolledBodies(active.run, times, first)
            self._recorder.repeat(body, end - first, last=end == total, bodies=bodies)
            stays = _running_lanes(mask, trips, end) if end < total and end in ends else active
            if bodies is not None and end in ends:
                self._recorder.wait(active.run if end == total else active.run & ~stays.run)
            active = stays

    def _guard_crossings(self, loop: NestLoop, mask: Mask, total: int) -> set[int]:
        """Return the iterations at which a guard in an innermost loop begins or ceases to hold for some thread."""
        cuts: set[int] = set()
        for node in walk(loop.body):
            if isinstance(node, NestGuard):
                for form in node.conditions:
                    step = form.coefficient(loop.dimension)
                    if step:
                        self._at[loop.dimension] = 0
                        start = np.broadcast_to(form.value(self._at), mask.lanes.shape)[mask.lanes]
                        # The form becomes at least 0 at ceil(-start / step), or negative after floor(start / -step).
                        crossing = -(start // step) if step > 0 else start // -step + 1
                        cuts |= set(np.unique(crossing[(crossing > 0) & (crossing < total)]).tolist())
        return cuts

    def _record_nested(self, loop: NestLoop, mask: Mask, trips: Any) -> None:
        """Execute the iterations of a loop around others one by one, except for those that only shift addresses."""
        ends = _final_iterations(trips, mask)
        total = max(ends, default=0)
        for first, end in _ranges_between(ends, total):
            active = mask if isinstance(trips, int) else _running_lanes(mask, trips, first)
            for begin, stop, uniform in cut_iterations(loop, first, end, self._at, self._nest.box):
                if uniform:
                    self._record_uniform(loop, active, begin, stop, total)
                    continue
                for t in range(begin, stop):
                    self._check_size(loop)
                    self._recorder.exiting = loop.loads and t == total - 1
                    self._record_iteration(loop, active, t)
            if loop.unrolled(self._unroll) is not None:
                stays = _running_lanes(mask, trips, end).run & (end < total)
                self._recorder.wait(active.run & ~stays)

    def _record_uniform(self, loop: NestLoop, mask: Mask, first: int, end: int, total: int) -> None:
        """Execute iterations that differ in addresses only: those that begin in a known state are shifted copies."""
        recorder, offsets = self._recorder, self._nest.moves[:, loop.dimension]
        seen: dict[tuple[object, ...], tuple[int, list[Segment], State]] = {}
        times, last = loop.unrolled(self._unroll) or 1, min(end, total - loop.loads)
        t = first
        while t < end:
            recorder.flush()
            recorder.exiting = loop.loads and t == total - 1
            # Unrolled bodies that are complete are recorded as a whole, other iterations one by one.
            unit = times if t % times == 0 and t + times <= last else 1
            key = (*_state_key(recorder), unit, t % times)
            if key not in seen:
                before = len(recorder.segments)
                for i in range(t, t + unit):
                    self._record_iteration(loop, mask, i)
                recorder.flush()
                seen[key] = t, recorder.segments[before:], recorder.state
                t += unit
                continue
            earlier, segments, after = seen[key]
            recorder.state = after
            # A body that ends in the state in which it began is followed by equal ones, up to the last iteration: that
            # one differs if it marks the loads before the exit of the loop.
            steady = not recorder.exiting and unit == times and key == (*_state_key(recorder), unit, t % times)
            count = (last - t) // unit if steady else 1
            moves = range(t - earlier, t - earlier + count * unit, unit)
            self._check_size(loop, repeated_bytes(segments, moves))
            recorder.segments += repeat_program(segments, offsets, moves)
            t += count * unit

    def _record_iteration(self, loop: NestLoop, mask: Mask, t: int) -> None:
        """Record iteration `t` of a loop around others, with which an unrolled body may end."""
        self._at[loop.dimension] = t
        self._record_body(loop.body, mask, self._recorder)
        times = loop.unrolled(self._unroll)
        if times is not None and (t + 1) % times == 0:
            self._recorder.wait(mask.run)

    def _check_size(self, loop: NestLoop, more: int = 0) -> None:
        """Raise `TraceError` if the program so far and `more` bytes, written out for a loop, are too large."""
        segments = self._recorder.segments
        self._bytes += program_bytes(segments[self._measured :])
        self._measured = len(segments)
        if self._bytes + more > MAX_PROGRAM_BYTES:
            raise TraceError(
                f"{self._launch.kernel}: {loop.where}: the program of a block of {self._launch.block_threads} threads "
                f"takes more than {memory_text(MAX_PROGRAM_BYTES)}; use fewer iterations of loops around other loops, "
                "or smaller blocks"
            )


def _state_key(recorder: SegmentRecorder) -> tuple[object, ...]:
    loads, waiting, gap = recorder.state
    return loads.tobytes(), waiting.tobytes(), gap, recorder.exiting


def _final_iterations(trips: Any, mask: Mask) -> set[int]:
    """Return the numbers of iterations after which some thread leaves the loop."""
    if not isinstance(trips, np.ndarray):
        return {int(trips)} if trips > 0 else set()
    active_trips = trips[mask.lanes]
    return set(np.unique(active_trips[active_trips > 0]).tolist())


def _ranges_between(cuts: set[int], total: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of iterations between cuts, up to `total`."""
    first = 0
    for end in sorted(cut for cut in cuts if cut <= total):
        yield first, end
        first = end


def _running_lanes(mask: Mask, trips: Any, first: int) -> Mask:
    lanes = mask.lanes & (trips > first)
    return mask if np.array_equal(lanes, mask.lanes) else Mask(lanes, NO_SOURCES)
