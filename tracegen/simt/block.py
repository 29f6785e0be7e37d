"""Define `Block`, the `k` of a kernel: all threads of one block, and the operations that they share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from rdmodel.errors import TraceError
from rdmodel.trace import WARP, Launch, Op, Program, Space
from rdmodel.trace.cache_ops import parse_cache_op
from tracegen.arrays import Array, Place
from tracegen.simt.agreement import DivergenceError, common_value, in_common, is_per_thread
from tracegen.simt.call_sites import CallSites
from tracegen.simt.recorder import BlockRecorder, LoopStart, Variation
from tracegen.simt.scoreboard import Mask, MemoryInstruction
from tracegen.simt.symbolic import NO_SOURCES, RecordedLoop, Value, as_value, is_integer, join_sources
from tracegen.simt.work import WorkCounter, access_class, advance, declared_arithmetic
from tracegen.unrolling import DEFAULT_UNROLL, NEVER, Unroll, UnrolledBodies, parse_unroll


class Geometry:
    """Thread indices and mask of the lanes of a block, padded to whole warps."""

    __slots__ = ("lane", "mask", "thread", "warps")

    def __init__(self, launch: Launch) -> None:
        self.warps = launch.block_warps
        self.lane = np.arange(self.warps * WARP)
        width, height, _ = launch.block
        self.thread = (self.lane % width, self.lane // width % height, self.lane // (width * height))
        self.mask = Mask(self.lane < launch.block_threads, NO_SOURCES)

    def masks(self, blocks: int) -> Mask:
        """Return the mask of a batch of `blocks` blocks."""
        return Mask(np.tile(self.mask.lanes, (blocks, 1)), NO_SOURCES)


class Block:
    """The threads of one block while its kernel runs: the `k` of a kernel function.

    `x`, `y`, `z` are the global thread indices; `thread_x` ... and `block_x` ... are CUDA's threadIdx and blockIdx. An
    array of blocks forms a batch, which runs as one: Python code must go the same way for all of them, else
    `DivergenceError` is raised (`tracegen.simt.agreement`). Blocks without an active lane leave instructions out
    (`tracegen.simt.varied_blocks`).
    """

    block_x: Any
    block_y: Any
    block_z: Any

    def __init__(
        self,
        launch: Launch,
        block: int | NDArray[np.int64],
        sites: CallSites,
        geometry: Geometry,
        counter: WorkCounter | None = None,
        unroll: int | None = DEFAULT_UNROLL,
    ) -> None:
        self.launch = launch
        self._unroll = unroll
        self._around = False  # whether the loop that runs is around another one that is not unrolled completely
        batch = isinstance(block, np.ndarray)
        self.index: Any = block[:, None] if isinstance(block, np.ndarray) else block
        width, height, _ = launch.grid
        at = self.index % width, self.index // width % height, self.index // (width * height)
        self.block_x, self.block_y, self.block_z = map(Value, at) if batch else at
        self.thread_x, self.thread_y, self.thread_z = (Value(thread) for thread in geometry.thread)
        self._at = at
        self._sites = sites
        self._geometry = geometry
        self._counter = counter
        blocks = len(block) if isinstance(block, np.ndarray) else 1
        self._mask = geometry.masks(blocks) if batch else geometry.mask
        self._recorder = BlockRecorder(blocks * geometry.warps, blocks)
        self._loop: RecordedLoop | None = None
        self._moving_accesses: list[tuple[Op, Place, Mask]] = []

    @cached_property
    def x(self) -> Value:
        """The global index of each thread along x."""
        return self._global_index(0)

    @cached_property
    def y(self) -> Value:
        """The global index of each thread along y."""
        return self._global_index(1)

    @cached_property
    def z(self) -> Value:
        """The global index of each thread along z."""
        return self._global_index(2)

    def _global_index(self, axis: int) -> Value:
        return Value(self._geometry.thread[axis] + self._at[axis] * self.launch.block[axis])

    def program(self) -> Program:
        """Return the recorded program."""
        self._recorder.flush()
        return self._recorder.segments

    @property
    def variations(self) -> Mapping[int, Variation]:
        """Differences between the blocks of a batch in their program, by the numbers of its segments."""
        return self._recorder.variations

    def load(self, array: Array, *index: Any, cache: str | None = None) -> Value:
        """Load one element per active thread.

        Parameters
        ----------
        array
            An array of the kernel.
        *index
            One number, or one per thread, for each dimension, or a single flat index.
        cache
            The cache operator of the load, such as ``"cg"`` or ``"nc"`` (`rdmodel.trace.cache_ops`); None: none.

        Returns
        -------
        Value
            The elements, 0 for inactive threads; integers as int64. The value of an array without data may be
            computed with, but cannot be an index or a condition.

        Raises
        ------
        TraceError
            If an index is outside the array, or if `cache` is no operator.
        """
        return self._access(Op.LOAD, array, index, sys._getframe(1), parse_cache_op(cache))

    def store(self, array: Array, *index: Any) -> None:
        """Store one element per active thread; see `load`."""
        self._access(Op.STORE, array, index, sys._getframe(1))

    def atomic(self, array: Array, *index: Any) -> None:
        """Update one element per active thread atomically; see `load`."""
        self._access(Op.ATOMIC, array, index, sys._getframe(1))

    def barrier(self) -> None:
        """Wait for the other warps of the block (``__syncthreads()``)."""
        if self._mask.any:
            pc = self._sites.number(sys._getframe(1))
            self._record(MemoryInstruction(pc, Op.BARRIER, self._mask))
            if self._counter is not None:
                self._counter.add("barrier", self._mask.lanes)

    def gap(self, instructions: int) -> None:
        """Insert `instructions` instructions that do not access memory before the next memory instruction."""
        self._recorder.add_gap(instructions, self._mask)

    def compute(self, flops: int = 0, ints: int = 0, special: int = 0, type: str = "float32") -> None:
        """Declare the arithmetic of each active thread, which has no effect on the memory instructions of the trace.

        Parameters
        ----------
        flops
            Floating-point operations, two in each multiply-add; an odd one is an addition.
        ints
            Integer instructions. Without any in the kernel, they are estimated from its indices and loops.
        special
            Special functions, such as square roots.
        type
            "float32", "float64" or "float16".

        Raises
        ------
        TraceError
            For a number that is not a whole one from 0 to 2^20, and for an unknown type.
        """
        classes, operations = declared_arithmetic(flops, ints, special, type)
        if self._counter is not None:
            self._counter.compute(classes, operations, self._mask.lanes)

    def wait(self) -> None:
        """Make the next memory instruction of every active warp wait for all its earlier loads."""
        self._recorder.wait(self._mask.run)

    @contextmanager
    def where(self, condition: Any) -> Iterator[None]:
        """Restrict the body to the active threads for which `condition` holds: an if, or the guard of a loop."""
        outer = self._mask
        value = as_value(condition)
        holds = np.asarray(value.settled()).astype(np.bool_, copy=False)
        sources = join_sources((outer.conditions, value.sources)) if value.sources else outer.conditions
        self._mask = Mask(outer.lanes & holds, sources)
        if self._counter is not None:
            self._counter.derive(1, outer.lanes)
            self._counter.add("branch", outer.lanes)
        try:
            yield
        finally:
            self._mask = outer

    def any(self, condition: Any) -> bool:
        """Return whether `condition` holds for an active thread: ``while k.any(c): with k.where(c): ...``."""
        holds = self._mask.lanes & np.asarray(as_value(condition).settled()).astype(np.bool_)
        return bool(common_value(holds.any(axis=-1)))

    def range(self, start: Any, stop: Any = None, step: int = 1, *, unroll: Unroll = None) -> Iterator[Any]:
        """Loop over ``range(start, stop, step)``; bounds may differ between threads, which then leave one by one.

        The innermost loop with common bounds is recorded as a loop: its body runs once and represents all iterations,
        as long as its addresses advance by a constant. Otherwise (a division of the loop variable, a guard that
        compares it, a loaded index, a variable carried from one iteration to the next), the body runs iteration by
        iteration, with the same result in a longer program. A body that carries state in anything but local variables
        and loaded values must use Python's own `range`.

        An unrolled body waits for the loads of the body before it (`tracegen.trace`). A loop around others is not
        unrolled, unless these are unrolled completely: they have ``unroll="none"``, or are Python's own `range`.

        Parameters
        ----------
        start, stop
            Bounds as in Python's `range`: one number, or one per thread. A single argument is `stop`.
        step
            Advance per iteration, a whole number other than 0, common to all threads.
        unroll
            How often compilers unroll the loop, ``"none"`` if no body waits for the one before (None: as the kernel).

        Yields
        ------
        The loop variable: one number per thread, or common to all threads.

        Raises
        ------
        TraceError
            If `step` is 0.
        ConfigError
            If `unroll` is invalid.
        """
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise TraceError(f"{self.launch.kernel}: step=0: must be a whole number other than 0")
        first, last = as_value(start), as_value(stop)
        times, complete = self._unroll if unroll is None else parse_unroll(unroll), unroll == NEVER
        if is_per_thread(first.settled()) or is_per_thread(last.settled()):
            return self._lane_range(first, last, step, times, complete)
        return self._uniform_range(*_common_trips(first, last, step), step, times, complete)

    def _uniform_range(self, first: Any, trips: int, step: int, times: int | None, complete: bool) -> Iterator[Any]:
        run = self._mask.run
        outer, exiting, recorder = self._loop, self._recorder.exiting, self._recorder
        if outer is not None:
            outer.settle()
        around, self._around = self._around, False
        if not trips:
            self._around = around or not complete
            return
        loop = self._loop = RecordedLoop(trips)
        self._moving_accesses = []
        recorder.exiting = trips == 1
        caller = sys._getframe(1)
        names = _watch_locals(caller)
        start = recorder.begin_loop()
        counted = None if self._counter is None else self._counter.begin()
        j = Value(first, step=step, loop=loop)
        try:
            yield j
            if not self._mask.any or _carries_state(names, caller.f_locals, j):
                loop.settle()
            if self._counter is not None and counted is not None:
                unrolled = DEFAULT_UNROLL if loop.at is None else 1
                if loop.at is None:
                    self._counter.repeat(counted, loop.trips)
                self._counter.derive(2, self._mask.lanes, loop.trips / unrolled)
                self._counter.add("branch", self._mask.lanes, loop.trips / unrolled)
            if loop.at is None:
                self._end_symbolic(loop, start, None if times is None else UnrolledBodies(run, times))
            elif self._mask.any:
                if self._mask.present is not None:
                    raise DivergenceError("some blocks of a batch do not run a loop")
                for t in range(1, trips):
                    self._end_iteration(t, times, run)
                    recorder.exiting = t == trips - 1
                    at = first + t * step
                    yield at if isinstance(at, int) else Value(at)
            else:
                loop.at = trips - 1  # what follows sees the last iteration, whether it was masked or not
        finally:
            loop.settle()
            if times is not None:
                recorder.wait(run)
            self._loop, recorder.exiting, self._around = outer, exiting, around or not complete or self._around

    def _end_iteration(self, iterations: int, times: int | None, run: NDArray[np.bool_]) -> None:
        """Let the warps wait after so many iterations, if an unrolled body ends; loops around others have no others."""
        if times is not None and (self._around or iterations % times == 0):
            self._recorder.wait(run)

    def _end_symbolic(self, loop: RecordedLoop, start: LoopStart, bodies: UnrolledBodies | None) -> None:
        for op, place, mask in self._moving_accesses:
            self._check(op, place, mask, loop.trips - 1)
        self._recorder.repeat(start, loop.trips, bodies)
        loop.at = loop.trips - 1

    def _lane_range(self, first: Value, last: Value, step: int, times: int | None, complete: bool) -> Iterator[Value]:
        left = np.where(self._mask.lanes, (last - first).settled(), 0)
        trips_of_lanes = -((-left if step > 0 else left) // abs(step))
        trips_of_blocks = trips_of_lanes.max(axis=-1)
        trips = int(trips_of_blocks.max())
        if complete and trips and not trips_of_blocks.all():
            raise DivergenceError("only some blocks of a batch run a loop")
        trips_of_warps = trips_of_lanes.reshape(-1, WARP).max(axis=1)
        ends, leaving = set(trips_of_blocks.flat), set(trips_of_warps.tolist())
        bounds = first.sources, last.sources
        recorder, exiting, around = self._recorder, self._recorder.exiting, self._around
        self._around = False
        before = recorder.recorded
        try:
            for t in range(trips):
                if t and t & (t - 1) == 0:  # the iterations so far may tell how long the batch gets
                    recorder.expect((trips - t) * (recorder.recorded - before) // t)
                at = first + t * step
                recorder.exiting = in_common(trips_of_blocks == t + 1) if t + 1 in ends else False
                with self.where(Value(trips_of_lanes > t, join_sources(bounds))):
                    yield at
                self._end_iteration(t + 1, times, trips_of_warps > t)
                if times is not None and t + 1 in leaving:
                    recorder.wait(trips_of_warps == t + 1)
        finally:
            recorder.exiting, self._around = exiting, around or not complete or self._around

    def _access(self, op: Op, array: Array, index: tuple[Any, ...], frame: FrameType, cache_op: int = 0) -> Value:
        mask = self._mask
        bases, steps, sources = self._parts(array, index)
        if not mask.any:
            return Value(0, unknown=array.name if array.data is None else "")
        place = Place(array, bases, steps)
        address, inside = place.locate(mask.lanes.shape)
        if not inside:
            self._check(op, place, mask)
        step = 0
        if any(steps):
            self._moving_accesses.append((op, place, mask))
            step = place.advance
        if self._counter is not None:
            self._count_access(op, array, address, step, len(index))
        if array.shared:
            return Value(0, unknown=array.name)
        if array.space == Space.LOCAL:
            address = address + (self.index * self.launch.block_threads + self._geometry.lane) * array.size
        instruction = MemoryInstruction(
            self._sites.number(frame),
            op,
            mask,
            space=array.space,
            size=array.size,
            address=address,
            step=step,
            sources=join_sources((sources, mask.conditions)) if mask.conditions else sources,
            cache_op=cache_op,
        )
        self._record(instruction)
        if op != Op.LOAD or array.data is None:
            return Value(0, unknown=array.name)
        if step and self._loop is not None:
            if mask.present is not None:
                raise DivergenceError("only some blocks of a batch load different data in each iteration")
            self._loop.settle()
        return Value(_loaded(array.data, place.flat, mask.lanes), frozenset((instruction,)))

    def _count_access(self, op: Op, array: Array, address: Any, step: int, indices: int) -> None:
        assert self._counter is not None
        lanes = self._mask.lanes
        if array.shared:
            trips = 1 if self._loop is None else self._loop.trips
            self._counter.share(op, array.size, address, lanes, step=step, trips=trips)
        else:
            self._counter.add(access_class(op, array.space), lanes)
        self._counter.derive(advance(step, array.shared, DEFAULT_UNROLL) or indices, lanes)

    def _record(self, instruction: MemoryInstruction) -> None:
        checkpoint()
        self._recorder.record(instruction, symbolic=self._loop is not None and self._loop.at is None)

    def _parts(self, array: Array, index: tuple[Any, ...]) -> tuple[list[Any], list[int], frozenset[MemoryInstruction]]:
        """Return the bases and steps of the numbers of an index, and the loads that it depends on."""
        if not isinstance(array, Array):
            raise TraceError(f"{self.launch.kernel}: {array!r}: must be an array of the kernel")
        if len(index) != len(array.shape) and len(index) != 1:
            raise TraceError(
                f"{self.launch.kernel}: {len(index)} indices into {array.name}{list(array.shape)}: "
                f"must be {len(array.shape)}, or one flat index"
            )
        sources, bases, steps = NO_SOURCES, [], []
        for i in index:
            value = as_value(i)
            if value.unknown:
                value.settled()
            if value.sources:
                sources = join_sources((sources, value.sources))
            base, step = value.parts()
            bases.append(base if is_integer(base) else self._whole(array, base))
            steps.append(step)
        return bases, steps, sources

    def _whole(self, array: Array, base: Any) -> Any:
        """Convert an index of another integer type to int64."""
        numbers = np.asarray(base)
        if numbers.dtype.kind not in "iu":
            raise TraceError(
                f"{self.launch.kernel}: index into {array.name} is {numbers.dtype}: must be a whole number"
            )
        return numbers.astype(np.int64) if numbers.ndim else int(numbers)

    def _check(self, op: Op, place: Place, mask: Mask, t: int = 0) -> None:
        wrong = place.outside(mask.lanes, t)
        if wrong is not None:
            lane, problem = wrong
            thread = tuple(int(axis.base.flat[lane]) for axis in (self.x, self.y, self.z))
            raise TraceError(f"{self.launch.kernel}: thread {thread}: {op.name.lower()} of {problem}")


def _common_trips(first: Value, last: Value, step: int) -> tuple[Any, int]:
    """Return the start of a loop, a number or one for each block of a batch, and its iterations in all of them."""
    begin, end = first.settled(), last.settled()
    if np.ndim(begin) == np.ndim(end) == 0 or not (is_integer(begin) and is_integer(end)):
        start = first.__index__()
        return start, len(range(start, last.__index__(), step))
    return begin, max(0, int(common_value(-((begin - end) // step))))


def _loaded(data: NDArray[Any], flat: Any, lanes: NDArray[np.bool_]) -> NDArray[Any]:
    """Return elements, integers as int64, and 0 for inactive lanes, whose index may be anything."""
    elements = data.take(flat, mode="clip")
    if data.dtype.kind in "iub":
        # One pass instead of a selection and a conversion.
        widened: NDArray[Any] = np.multiply(elements, lanes, dtype=np.uint64 if data.dtype == np.uint64 else np.int64)
        return widened
    return np.where(lanes, elements, 0)


def _watch_locals(caller: FrameType) -> dict[str, Any]:
    """Return the local variables of `caller`, and clear their `touched` marks."""
    names = dict(caller.f_locals)
    for value in names.values():
        if isinstance(value, Value):
            value.touched = False
    return names


def _carries_state(before: dict[str, Any], after: dict[str, Any], j: Value) -> bool:
    """Return whether the body of a loop may carry a local variable into its next iteration.

    It does if it used the variable and then assigned another value. A value of an array without data may be carried,
    since nothing can depend on it; the loop variable `j` does not count.
    """
    for name, old in before.items():
        new = after.get(name, old)
        if new is old or new is j or (isinstance(old, Value) and not old.touched):
            continue
        if not (isinstance(new, Value) and new.unknown):
            return True
    return False
