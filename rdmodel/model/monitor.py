"""What the parts of a study share while they run: progress, and the end of patience; and the clock of each part.

Parts run in threads of their own. Only the thread that began tells of progress, and one thread at a time asks a trace
for a block.
"""

from __future__ import annotations

from threading import Event, Lock
from time import perf_counter

from rdmodel.common.progress import Progress
from rdmodel.execution.threads import Cancelled
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import StoreRule, WarpStream, open_block


class Watch:
    """What the parts of a study share: progress, the end of patience, and who may ask the trace for a block."""

    def __init__(self, blocks: int, progress: Progress | None) -> None:
        self.stop = Event()
        self.asking = Lock()
        self.in_threads = False
        self._blocks = blocks
        self._progress = progress
        self._clocks: list[Clock] = []

    def clock(self) -> Clock:
        """Return the clock of one more part."""
        self._clocks.append(Clock(self))
        return self._clocks[-1]

    def look(self) -> None:
        """Tell how many blocks were begun; only ever called in the thread that began."""
        if self._progress is not None and (begun := sum(clock.begun for clock in self._clocks)):
            self._progress(begun, self._blocks)

    def tick(self) -> None:
        """Take note, in any thread, that work goes on."""
        if self.stop.is_set():
            raise Cancelled
        if not self.in_threads:
            self.look()


class Clock:
    """Time that one part spent on traces and on waiting for others that did, and the blocks that it has begun."""

    def __init__(self, watch: Watch) -> None:
        self.trace_seconds = 0.0
        self.waited = 0.0
        self.begun = 0
        self._watch = watch
        self.tick = watch.tick

    def open(self, trace: Trace, block: int, line: int, rule: StoreRule) -> list[WarpStream]:
        """Return the streams of a block; one thread at a time asks, whoever makes the trace."""
        came = perf_counter()
        with self._watch.asking:
            started = perf_counter()
            streams = open_block(trace, block, line, rule)
        self.waited += started - came
        self.trace_seconds += perf_counter() - started
        self.begun += 1
        return streams
