"""The L2 that the modelled SMs share: they run side by side, and their requests reach it in the order of time.

Definitions in docs/model.md, section 12. Memory does not grow with the length of the trace: an SM that is ahead of the
others waits for them, and what has become the past of all SMs is merged and forgotten.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.model._core import DONE, WANT_BLOCK, WANT_LOG, Core
from rdmodel.model._l2 import SharedCache
from rdmodel.results.prediction import L2Prediction

LOG_FULL = 4096
"""Requests in the log of an SM that make it stop, and wait for the others."""

MOST_PENDING = 1 << 18
"""Requests that wait to be merged before anything is: merging a few at a time would cost more."""

MOST_LINES = 1 << 32
"""Lines of the largest L2: half a terabyte of them."""


class ModelledSm(Protocol):
    """What runs one SM."""

    sm: int
    core: Core
    begun: int

    def serve(self, wanted: int) -> None:
        """Give the core what it wants, other than a block."""

    def give(self, block: int | None) -> None:
        """Answer the request for a block."""


def run_side_by_side(sms: Sequence[ModelledSm], supplies: Sequence[Iterator[int]], cap: int, l2: SharedL2) -> None:
    """Run all SMs to their ends: the one that is furthest behind goes on until it wants something.

    SM i gets its blocks from ``supplies[i]``, at most `cap`. If that is the same for all, it is a dispatcher: whoever
    has a free slot first gets the next block, at time 0 in rounds, otherwise of several the SM with the lowest number.
    """
    asked = [0] * len(sms)
    stops: list[tuple[int, bool, int, int, int]] = []

    def run_on(sm: ModelledSm) -> None:
        wanted, now = sm.core.run(), sm.core.now
        l2.take_log(sm.sm, sm.core)
        # Who asks for a block waits for those who may still ask at the same time.
        asks = wanted == WANT_BLOCK
        if wanted != DONE:
            heapq.heappush(stops, (now, asks, asked[sm.sm] if asks and now == 0 else 0, sm.sm, wanted))

    for sm in sms:
        run_on(sm)
    while stops:
        now, asks, _, i, wanted = heapq.heappop(stops)
        l2.pass_time(now)
        if asks:
            asked[i] += 1
            sms[i].give(next(supplies[i], None) if sms[i].begun < cap else None)
        elif wanted != WANT_LOG:
            sms[i].serve(wanted)
        run_on(sms[i])
    l2.finish()


class SharedL2:
    """The L2 of the SMs 0 to `sms` - 1: takes their logs, and serves what is in them in the order of time.

    Raises `ConfigError` for an L2 that no memory holds.
    """

    def __init__(self, gpu: GPU, sms: int) -> None:
        self._line = gpu.l1.line
        # Slice and set of a line say no more than its number mod slices x sets: all slices are one cache.
        sets, ways = gpu.l2.slices * gpu.l2.sets(self._line), gpu.l2.ways
        if sets * ways > MOST_LINES:
            raise ConfigError(f"l2.slices x l2.size: {sets * ways} lines; the model's L2 has at most {MOST_LINES}")
        self._cache = SharedCache(sets=sets, ways=ways)
        self._logs = [[_Log.empty(0)] for _ in range(sms)]
        self._pending = 0
        self._most = MOST_PENDING

    def take_log(self, sm: int, core: Core) -> None:
        """Take over what has left an SM since the last time."""
        if core.logged:
            log = _Log.empty(core.logged)
            core.take_log(log.times, log.lines, log.writes)
            self._logs[sm].append(log)
            self._pending += len(log.times)

    def pass_time(self, now: int) -> None:
        """Take note that all requests of before `now` have been taken over."""
        if self._pending > self._most:
            self._serve(now)
            # Of SMs that are far ahead much is left, each time; then let more come together.
            self._most = max(MOST_PENDING, 2 * self._pending)

    def finish(self) -> None:
        """Serve all requests that are left."""
        self._serve(None)

    def prediction(self) -> L2Prediction:
        """Return what has been counted."""
        cache = self._cache
        return L2Prediction(
            sms_modelled=len(self._logs),
            line=self._line,
            reads=cache.reads,
            hits=cache.hits,
            misses=cache.reads - cache.hits,
            writes=cache.writes,
            write_hits=cache.write_hits,
            write_backs=cache.write_backs,
            dirty=cache.dirty(),
        )

    def _serve(self, until: int | None) -> None:
        """Serve the requests of before `until`, or all: by time, then by SM, then as they left it."""
        due = []
        for sm, logs in enumerate(self._logs):
            log = _Log.join(logs)
            end = len(log.times) if until is None else int(np.searchsorted(log.times, until))
            due.append(log.part(0, end))
            self._logs[sm] = [log.part(end, len(log.times))]
        log = _Log.join(due)
        order = np.argsort(log.times, kind="stable")
        self._cache.request(log.lines[order], log.writes[order])
        self._pending -= len(order)


class _Log:
    """Requests in the order in which they left: when, which line, and whether it is written."""

    __slots__ = ("lines", "times", "writes")

    def __init__(self, times: NDArray[np.int64], lines: NDArray[np.int64], writes: NDArray[np.uint8]) -> None:
        self.times, self.lines, self.writes = times, lines, writes

    @classmethod
    def empty(cls, count: int) -> _Log:
        return cls(np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8))

    @classmethod
    def join(cls, logs: Sequence[_Log]) -> _Log:
        def all_of(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(log, name) for log in logs])

        return logs[0] if len(logs) == 1 else cls(all_of("times"), all_of("lines"), all_of("writes"))

    def part(self, first: int, end: int) -> _Log:
        return _Log(self.times[first:end], self.lines[first:end], self.writes[first:end])
