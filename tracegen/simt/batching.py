"""Run a batch of blocks as one: Python runs once, NumPy computes over the threads of all blocks.

The batch holds the requested block and the blocks that will probably be requested next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rdmodel.trace import Launch, Program, Work
from tracegen.simt.block import Block, Geometry
from tracegen.simt.call_sites import CallSites
from tracegen.simt.recorder import MAX_BATCH_INSTRUCTIONS
from tracegen.simt.work import WorkCounter

MAX_BATCH_THREADS = 1 << 14
"""Maximum number of threads of a batch: larger batches are not faster."""

MAX_FAILED_BATCHES = 3
"""Diverging batches in a row after which every block runs on its own."""


class BlockRunner:
    """Runner of the blocks of a kernel: one at a time or, with `ahead`, in batches of blocks that behave alike.

    `traced` are the blocks of the trace, and `sites` numbers the places that access memory. The next requests are
    predicted from the distance between the last two, and the size of a batch doubles after every correct prediction.
    The result is the same as for each block on its own.
    """

    def __init__(
        self,
        function: Callable[..., None],
        arguments: Mapping[str, Any],
        launch: Launch,
        traced: Container[int],
        *,
        ahead: bool,
        unroll: int | None,
    ) -> None:
        self._function, self._arguments, self._launch, self._traced = function, arguments, launch, traced
        self._unroll = unroll
        self.sites = CallSites(inspect.unwrap(function).__code__)
        self._geometry = Geometry(launch)
        self._max_size = self._fitting_size = MAX_BATCH_THREADS // len(self._geometry.lane) if ahead else 1
        self._ready: dict[int, Program] = {}
        self._last = self._distance = 0
        self._size = self._failed = 0

    def block(self, block: int) -> Program:
        """Return the program of a block."""
        if block not in self._ready:
            self._ready = self._run(self._likely(block))
        self._last = block
        return self._ready.pop(block)

    def work(self, block: int) -> tuple[Work, bool]:
        """Return the work of a block, and whether the kernel declared any."""
        counter = WorkCounter()
        self._function(Block(self._launch, block, self.sites, self._geometry, counter, self._unroll), **self._arguments)
        return counter.work(self._geometry.warps), counter.declared

    def _likely(self, block: int) -> list[int]:
        """Return the block and the blocks that will probably be requested next."""
        distance = block - self._last
        predicted = distance > 0 and distance == self._distance and self._failed < MAX_FAILED_BATCHES
        self._size = max(1, min(2 * self._size, self._max_size, self._fitting_size)) if predicted else 1
        self._distance = distance
        blocks = [block]
        while len(blocks) < self._size and blocks[-1] + distance in self._traced:
            blocks.append(blocks[-1] + distance)
        return blocks

    def _run(self, blocks: Sequence[int]) -> dict[int, Program]:
        if len(blocks) > 1:
            # An error here is raised again by the block that causes it, when it runs on its own.
            with suppress(Exception):
                whole = self._program(np.array(blocks, dtype=np.int64))
                self._failed = 0
                return {block: _take_block(whole, at, self._geometry.warps) for at, block in enumerate(blocks)}
            self._failed += 1
            self._size = 1
        program = self._program(blocks[0])
        instructions = self._geometry.warps * sum(len(segment.op) for segment in program)
        self._fitting_size = (MAX_BATCH_INSTRUCTIONS - 1) // max(1, instructions)
        return {blocks[0]: program}

    def _program(self, block: Any) -> Program:
        k = Block(self._launch, block, self.sites, self._geometry, unroll=self._unroll)
        self._function(k, **self._arguments)
        return k.program()


def _take_block(whole: Program, at: int, warps: int) -> Program:
    """Copy the program of the block at position `at` out of the program of a batch, so that the batch can be freed."""
    rows = slice(at * warps, (at + 1) * warps)
    return [s.with_lanes(s.base[rows].copy(), s.needs[rows].copy(), s.mask[rows].copy()) for s in whole]
