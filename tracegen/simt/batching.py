"""Running blocks that will be asked for next together with the one that is: Python once, NumPy over all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rdmodel.trace import Launch, Program
from tracegen.simt.block import Block, Geometry
from tracegen.simt.recorder import MAX_BATCH_INSTRUCTIONS

MAX_BATCH_THREADS = 1 << 14
"""Threads that run as one at most: more do not pay any more."""

MAX_FAILED_BATCHES = 3
"""How often in a row blocks may turn out to differ until each is run by itself for good."""


class BlockRunner:
    """Runs the blocks of a kernel: one, or with `ahead` several as one, where they do the same.

    Blocks are guessed from the distance between the last ones that were asked for, twice as many each time that this
    was right. What comes out is the same as for each by itself.
    """

    def __init__(
        self,
        function: Callable[..., None],
        arguments: Mapping[str, Any],
        launch: Launch,
        held: Container[int],
        *,
        ahead: bool,
    ) -> None:
        self._function, self._arguments, self._launch, self._held = function, arguments, launch, held
        self._code = inspect.unwrap(function).__code__
        self._geometry = Geometry(launch)
        self._most = self._fit = MAX_BATCH_THREADS // len(self._geometry.lane) if ahead else 1
        self._ready: dict[int, Program] = {}
        self._last = self._distance = 0
        self._size = self._failed = 0

    def block(self, block: int) -> Program:
        """Return the program of a block."""
        if block not in self._ready:
            self._ready = self._run(self._likely(block))
        self._last = block
        return self._ready.pop(block)

    def _likely(self, block: int) -> list[int]:
        """Return the block and those that are likely to be asked for next."""
        distance = block - self._last
        guessed = distance > 0 and distance == self._distance and self._failed < MAX_FAILED_BATCHES
        self._size = max(1, min(2 * self._size, self._most, self._fit)) if guessed else 1
        self._distance = distance
        blocks = [block]
        while len(blocks) < self._size and blocks[-1] + distance in self._held:
            blocks.append(blocks[-1] + distance)
        return blocks

    def _run(self, blocks: Sequence[int]) -> dict[int, Program]:
        if len(blocks) > 1:
            # Whatever goes wrong here, the block that is at fault says so when it runs by itself.
            with suppress(Exception):
                whole = self._program(np.array(blocks, dtype=np.int64))
                self._failed = 0
                return {block: _take_block(whole, at, self._geometry.warps) for at, block in enumerate(blocks)}
            self._failed += 1
            self._size = 1
        program = self._program(blocks[0])
        instructions = self._geometry.warps * sum(len(segment.op) for segment in program)
        self._fit = (MAX_BATCH_INSTRUCTIONS - 1) // max(1, instructions)
        return {blocks[0]: program}

    def _program(self, block: Any) -> Program:
        k = Block(self._launch, block, self._code, self._geometry)
        self._function(k, **self._arguments)
        return k.program()


def _take_block(whole: Program, at: int, warps: int) -> Program:
    """Return the program of block number `at` of those that ran as one; a copy, since others may be kept longer."""
    rows = slice(at * warps, (at + 1) * warps)
    return [one.with_lanes(one.base[rows].copy(), one.needs[rows].copy(), one.mask[rows].copy()) for one in whole]
