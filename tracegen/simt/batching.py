"""Run a batch of blocks as one: Python runs once, NumPy computes over the threads of all blocks.

The batch holds the requested block and the blocks that were announced behind it, or will probably be requested next.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from rdmodel.trace import Launch, Program, Work
from rdmodel.trace.moved import MovedProgram
from tracegen.simt.block import Block, Geometry
from tracegen.simt.call_sites import CallSites
from tracegen.simt.recorder import MAX_BATCH_INSTRUCTIONS, LongBatchError
from tracegen.simt.shared_programs import SharedPrograms
from tracegen.simt.varied_blocks import Variations
from tracegen.simt.work import WorkCounter

MAX_BATCH_THREADS = 1 << 15
"""Maximum number of threads of a batch: larger batches are hardly faster."""

FIRST_BATCH = 32
"""Blocks of the first batch of announced ones: short kernels take hardly longer for them than for one block."""

MAX_READY_BATCHES = 8
"""Batches whose blocks are kept until they are requested, of those with programs of their own."""

MAX_SHARED_BATCHES = 64
"""Batches of which blocks with shared programs are kept, for further requests, too: these take hardly any memory."""

MAX_ANNOUNCED = 64
"""Announcements that are remembered: those of the SMs that run side by side."""

VARIED_SHARE = 0.75
"""Share of the blocks expected to fit that a batch gets if blocks are not alike: its others may be longer."""

MAX_FAILED_BATCHES = 3
"""Diverging batches in a row after which every block runs on its own."""


class BlockRunner:
    """Runner of the blocks of a kernel: one at a time or, with `batches`, many at a time.

    `traced` are the blocks of the trace, and `sites` numbers the places that access memory. A block that was not
    announced begins a batch of those that will probably be requested next: they are predicted from the distance
    between the last two requests, and the size of a batch doubles after every correct prediction. The result is the
    same as for each block on its own.
    """

    def __init__(
        self,
        function: Callable[..., None],
        arguments: Mapping[str, Any],
        launch: Launch,
        traced: Container[int],
        *,
        batches: bool,
        unroll: int | None,
    ) -> None:
        self._function, self._arguments, self._launch, self._traced = function, arguments, launch, traced
        self._unroll = unroll
        self.sites = CallSites(inspect.unwrap(function).__code__)
        self._geometry = Geometry(launch)
        self._max_size = self._fitting_size = MAX_BATCH_THREADS // len(self._geometry.lane) if batches else 1
        self._ready: deque[dict[int, Program]] = deque(maxlen=MAX_READY_BATCHES)
        self._shared_ready: dict[int, Program] = {}
        self._shared_batches: deque[list[int]] = deque()
        self._announced: deque[_Announced] = deque(maxlen=MAX_ANNOUNCED)
        self._measured = False
        self._last = self._distance = 0
        self._size = self._failed = 0
        self._shared = SharedPrograms()
        self._lock = Lock()  # several threads may ask one trace for blocks

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks of the trace, ascending, will be requested."""
        if self._max_size > 1:
            with self._lock:
                self._announced.append(_Announced(blocks))

    def block(self, block: int) -> Program:
        """Return the program of a block."""
        with self._lock:
            return self._ready_or_run(block)

    def _ready_or_run(self, block: int) -> Program:
        program = self._shared_ready.get(block)
        if program is None:
            program = self._take(block)
        if program is None:
            announced = next((one for one in reversed(self._announced) if one.reach(block)), None)
            blocks = self._likely(block) if announced is None else announced.ahead(self._fitting(), self._is_ready)
            batch = self._run(blocks)
            if announced is not None:
                announced.leave_behind(max(batch))
            program = batch[block]
            if not isinstance(program, MovedProgram):
                del batch[block]
            self._keep(batch)
        self._last = block
        return program

    def _take(self, block: int) -> Program | None:
        """Take out the program of a block that does not share it, if it is ready."""
        batch = next((batch for batch in self._ready if block in batch), None)
        if batch is None:
            return None
        program = batch.pop(block)
        if not batch:
            self._ready.remove(batch)
        return program

    def _is_ready(self, block: int) -> bool:
        return block in self._shared_ready or any(block in batch for batch in self._ready)

    def _keep(self, batch: dict[int, Program]) -> None:
        """Keep the programs of a batch until they are requested; shared ones take hardly any memory, and stay."""
        shared = {block: program for block, program in batch.items() if isinstance(program, MovedProgram)}
        self._shared_ready.update(shared)
        self._shared_batches.append(list(shared))
        if len(self._shared_batches) > MAX_SHARED_BATCHES:
            for block in self._shared_batches.popleft():
                self._shared_ready.pop(block, None)
        if len(shared) < len(batch):
            self._ready.append({block: program for block, program in batch.items() if block not in shared})

    def work(self, block: int) -> tuple[Work, bool]:
        """Return the work of a block, and whether the kernel declared any."""
        counter = WorkCounter()
        self._function(Block(self._launch, block, self.sites, self._geometry, counter, self._unroll), **self._arguments)
        return counter.work(self._geometry.warps), counter.declared

    def _fitting(self) -> int:
        """Return the size of a batch of announced blocks."""
        if not self._measured:
            return min(FIRST_BATCH, self._max_size)
        wanted = 2 * self._size if self._failed else self._max_size
        self._size = max(1, min(wanted, self._max_size, self._fitting_size))
        return self._size if self._failed < MAX_FAILED_BATCHES else 1

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
        """Run a batch of these blocks, or of the first of them if they are too many, or go different ways."""
        while len(blocks) > 1:
            try:
                whole, variations = self._program(np.array(blocks, dtype=np.int64))
            except LongBatchError as error:
                self._fit(error.instructions, most=len(blocks) // 2)
                blocks = blocks[: max(1, self._fitting_size)]
            except Exception:
                # The block that causes an error raises it again, when it runs on its own.
                self._size = 1
                self._failed += 1
                break
            else:
                self._failed = 0
                self._fit(sum(len(segment.op) for segment in whole), varied=bool(variations))
                programs = self._shared.split(whole, len(blocks), self._geometry.warps, variations)
                return dict(zip(blocks, programs, strict=True))
        program, _ = self._program(blocks[0])
        if not self._measured:
            self._fit(sum(len(segment.op) for segment in program))
        return {blocks[0]: program}

    def _fit(self, instructions: int, *, varied: bool = True, most: int = MAX_BATCH_THREADS) -> None:
        """Tell from the instructions of a warp how many blocks fit in a batch, and let the next ones have so many.

        If the blocks of a batch are not alike, others have other instructions, and more of them together.
        """
        fitting = (MAX_BATCH_INSTRUCTIONS - 1) // (self._geometry.warps * max(1, instructions))
        self._fitting_size = min(most, int(VARIED_SHARE * fitting) if varied else fitting)
        self._measured = True

    def _program(self, block: Any) -> tuple[Program, Variations]:
        """Return the program of a block or of a batch, and the differences between the blocks of the latter."""
        k = Block(self._launch, block, self.sites, self._geometry, unroll=self._unroll)
        self._function(k, **self._arguments)
        return k.program(), k.variations


class _Announced:
    """Blocks that were announced together; `next` is the place of the first one that no batch holds."""

    __slots__ = ("blocks", "next")

    def __init__(self, blocks: Sequence[int]) -> None:
        self.blocks = blocks
        self.next = 0

    def reach(self, block: int) -> bool:
        """Go on to a block, if it is among those that no batch holds."""
        place = bisect_left(self.blocks, block, self.next)
        found = place < len(self.blocks) and self.blocks[place] == block
        if found:
            self.next = place
        return found

    def leave_behind(self, block: int) -> None:
        """Go on to the blocks after one of them."""
        self.next = bisect_right(self.blocks, block, self.next)

    def ahead(self, count: int, is_ready: Callable[[int], bool]) -> list[int]:
        """Return the next blocks, for a batch, except those that are ready."""
        places = range(self.next, len(self.blocks))
        return list(islice((block for block in map(self.blocks.__getitem__, places) if not is_ready(block)), count))
