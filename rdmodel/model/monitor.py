"""Share state between the parallel parts of a study: progress, cancellation and per-part timing.

Parts run in threads. Only the thread that called `predict` reports progress, and one thread at a time reads a block of
the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Lock
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.progress import Progress
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import StoreRule, WarpStream, open_block
from rdmodel.trace.constants import ConstantReads


class RunMonitor:
    """Progress, cancellation and the trace lock of all parts of a study."""

    def __init__(self, blocks: int, progress: Progress | None) -> None:
        self.stop = Event()
        self.trace_lock = Lock()
        self.in_threads = False
        self._blocks = blocks
        self._progress = progress
        self._timers: list[PartTimer] = []

    def new_timer(self) -> PartTimer:
        """Return the timer of another part."""
        self._timers.append(PartTimer(self))
        return self._timers[-1]

    def report_progress(self) -> None:
        """Report the number of started blocks; call it only in the thread that called `predict`."""
        if self._progress is not None and (started := sum(timer.blocks_started for timer in self._timers)):
            self._progress(started, self._blocks)

    def tick(self) -> None:
        """Raise `Cancelled` if the study was stopped; without threads, report progress."""
        if self.stop.is_set():
            raise Cancelled
        if not self.in_threads:
            self.report_progress()


class PartTimer:
    """Time that one part spent on the trace and on waiting for it, in seconds, and the blocks that it started.

    `constants`, if it is given, gets the places of constant memory that the opened blocks read.
    """

    def __init__(self, monitor: RunMonitor) -> None:
        self.trace_seconds = 0.0
        self.wait_seconds = 0.0
        self.blocks_started = 0
        self.constants: ConstantReads | None = None
        self._monitor = monitor
        self.tick = monitor.tick

    def announce(self, trace: Trace, blocks: Sequence[int]) -> None:
        """Say which blocks this part will read."""
        with self._monitor.trace_lock:
            trace.announce(blocks)

    def open_block(
        self,
        trace: Trace,
        block: int,
        line: int,
        rule: StoreRule,
        request_bytes: int,
        bypass: NDArray[np.uint8] | None,
        *,
        begins: bool = True,
        place: int | None = None,
    ) -> list[WarpStream]:
        """Return the streams of a block's warps; only one thread at a time makes a block.

        `begins` tells whether the block counts as started. `place` is that of `open_block`.
        """
        arrived = perf_counter()
        with self._monitor.trace_lock:
            started = perf_counter()
            streams = open_block(trace, block, line, rule, request_bytes, bypass, self.constants, place)
        self.wait_seconds += started - arrived
        self.trace_seconds += perf_counter() - started
        self.blocks_started += begins
        return streams
