"""Count the work of the blocks of a nest: instructions by class, arithmetic, and wavefronts of shared memory.

Statements say what threads compute. The integer instructions of subscripts and loops follow from the nest, unless it
declares integer instructions itself (`tracegen.simt.work`): compilers advance an address by one addition per iteration
in which it moves, and count and compare once per iteration of an unrolled loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from rdmodel.trace import Launch, Work
from tracegen.affine.nest import (
    BLOCK_DIMENSIONS,
    Nest,
    NestAccess,
    NestBarrier,
    NestCompute,
    NestGuard,
    NestLoop,
    NestNode,
    NestShared,
    SignTest,
    walk,
)
from tracegen.affine.uniform_ranges import cut_iterations
from tracegen.simt.block import Geometry
from tracegen.simt.work import Lanes, WorkCounter, access_class, advance
from tracegen.unrolling import DEFAULT_UNROLL


class NestWork:
    """Counts the work of the blocks of a launch; blocks that differ in their addresses only are counted once."""

    def __init__(self, launch: Launch, nest: Nest) -> None:
        self._launch, self._nest = launch, nest
        self._geometry = Geometry(launch)
        self._known: dict[tuple[object, ...], Work] = {}
        self.has_arithmetic = any(isinstance(node, NestCompute | NestShared) for node in walk(nest.body))

    def block(self, block: int) -> Work:
        """Return the work of a block, without the requests of its memory instructions."""
        width, height, _ = self._launch.grid
        at = block % width, block // width % height, block // (width * height)
        key = self._nest.control.key(at)
        if key not in self._known:
            self._known[key] = _BlockWork(self._nest, self._geometry, at).work()
        return self._known[key]


class _BlockWork:
    """Walks the nest for one block: `_at` has the value of every dimension, a number or an array by thread."""

    def __init__(self, nest: Nest, geometry: Geometry, block: Sequence[int]) -> None:
        self._nest, self._geometry = nest, geometry
        self._at: list[Any] = [*block, *geometry.thread, *[0] * (len(nest.box) - 2 * len(BLOCK_DIMENSIONS))]
        self._counter = WorkCounter()

    def work(self) -> Work:
        """Return the work of the block."""
        self._walk(self._nest.body, self._geometry.mask.lanes, 1, None)
        return self._counter.work(self._geometry.warps)

    def _walk(self, body: Sequence[NestNode], lanes: Lanes, times: int, loop: NestLoop | None) -> None:
        """Count a body that `lanes` execute a number of times, directly inside a loop."""
        for node in body:
            match node:
                case NestAccess():
                    self._counter.add(access_class(node.op, node.array.space), lanes, times)
                    self._address(node, lanes, times, loop)
                case NestShared(access=access):
                    step = 0 if loop is None else access.address.coefficient(loop.dimension)
                    address = access.address.value(self._at)
                    self._counter.share(
                        access.op, access.array.size, address, lanes, step=step, trips=times, times=times
                    )
                    self._address(access, lanes, times, loop)
                case NestBarrier():
                    self._counter.add("barrier", lanes, times)
                case NestCompute():
                    self._counter.compute(node.classes, node.operations, lanes, times)
                case NestGuard():
                    self._guard(node, lanes, times, loop)
                case NestLoop():
                    self._loop(node, lanes, times)

    def _guard(self, guard: NestGuard, lanes: Lanes, times: int, loop: NestLoop | None) -> None:
        inside = lanes
        for condition in guard.conditions:
            inside = inside & np.asarray(condition.value(self._at) >= 0)
        self._counter.derive(len(guard.conditions), lanes, times)
        self._counter.add("branch", lanes, times)
        if inside.any():
            self._walk(guard.body, inside, times, loop)

    def _address(self, access: NestAccess, lanes: Lanes, times: int, loop: NestLoop | None) -> None:
        """Count the integer instructions of an address: one per subscript, or one addition if a loop moves it."""
        if loop is None:
            self._counter.derive(len(access.subscripts), lanes, times)
        else:
            step = access.address.coefficient(loop.dimension)
            self._counter.derive(advance(step, access.array.shared, _unrolled(loop)), lanes, times)

    def _loop(self, loop: NestLoop, lanes: Lanes, times: int) -> None:
        if loop.first >= 0:
            self._at[loop.first] = loop.lower.value(self._at)
        trips = -(-loop.distance.value(self._at) // loop.stride)
        counts = np.broadcast_to(np.asarray(trips), lanes.shape)
        ends = sorted({int(n) for n in np.unique(counts[lanes]) if n > 0})
        for first, end in pairwise([0, *ends]):
            active = lanes & (counts > first)
            overhead = times * (end - first) / _unrolled(loop)
            self._counter.derive(2, active, overhead)
            self._counter.add("branch", active, overhead)
            for begin, stop, uniform in cut_iterations(_tested(loop), first, end, self._at, self._nest.box):
                for t in [begin] if uniform else range(begin, stop):
                    self._at[loop.dimension] = t
                    self._walk(loop.body, active, times * (stop - begin if uniform else 1), loop)


def _tested(loop: NestLoop) -> NestLoop:
    """Return a loop with the tests that decide about the counts of an iteration: guards, in an innermost loop."""
    if not loop.innermost:
        return loop
    tests: list[SignTest] = []
    for node in walk(loop.body):
        if isinstance(node, NestGuard):
            tests += [
                SignTest(form, uniform_below_zero=True) for form in node.conditions if form.coefficient(loop.dimension)
            ]
    return replace(loop, sign_tests=tuple(tests))


def _unrolled(loop: NestLoop) -> int:
    return DEFAULT_UNROLL if loop.innermost else 1
