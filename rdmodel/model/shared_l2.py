"""Run the modelled SMs side by side, and serve their requests in the L2 by time (docs/model.md sections 12 and 14).

Memory does not grow with the length of the trace: an SM that is ahead of the others waits for them, and requests older
than the time of every SM are merged, served and discarded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.model._core import DONE, WANT_BLOCK, WANT_LOG, Core
from rdmodel.model._l2 import SectoredCache, SharedCache, Warmer
from rdmodel.model._pending import PendingRequests
from rdmodel.results.prediction import L2Prediction

MAX_LOGGED_REQUESTS = 4096
"""Requests in the log of an SM at which it stops and waits for the other SMs."""

LOGGED_REQUESTS_TO_TAKE = MAX_LOGGED_REQUESTS // 2
"""Requests in the log of an SM from which on they are taken over whenever it stops."""

MIN_PENDING_TO_MERGE = 1 << 13
"""Pending requests at which they are merged and served, where SMs are few: the processor's caches hold them."""

PENDING_PER_SM_TO_MERGE = 1 << 8
"""The same per SM, where SMs are many: merging fewer at a time costs more per request."""

MAX_L2_LINES = 1 << 32
"""Lines of the largest L2, half a terabyte with 128-byte lines."""


def is_plain_l2(gpu: GPU) -> bool:
    """Return whether the L2 has whole lines, a linear index and one partition, and serves L1s with whole lines."""
    whole = gpu.l1.sectors == 1 and gpu.l2_sector_bytes == gpu.l1.line and gpu.l2_fetch_bytes == gpu.l1.line
    return whole and gpu.l2.index == "linear" and gpu.l2.partitions == 1


def check_known_l2(gpu: GPU) -> None:
    """Raise `ConfigError` if the sectors of the L1s and of the L2 differ."""
    if gpu.l1.sector_bytes != gpu.l2_sector_bytes:
        raise ConfigError(
            f"l2.sector={gpu.l2_sector_bytes}: with l2=True, it must be that of the L1, l1.sector={gpu.l1.sector_bytes}"
        )


class ModelledSm(Protocol):
    """An SM that `run_side_by_side` can drive; `rdmodel.model.sm.Sm` is one."""

    sm: int
    core: Core
    blocks_started: int

    def advance(self) -> int:
        """Run the core on until it requests something, perhaps other than instructions only; return the request."""

    def serve(self, wanted: int) -> None:
        """Serve a request of the core for instructions or random numbers."""

    def give_block(self, block: int | None) -> None:
        """Serve the core's request for a block; None: there are no more, and its slot stays empty."""

    def give_next(self, block: int | None) -> None:
        """Serve the core's request for a block; None: there are no more, and the core will request none."""


def run_side_by_side(
    sms: Sequence[ModelledSm],
    supplies: Sequence[Iterator[int]],
    cap: int,
    l2: SharedL2,
    ended: Callable[[], bool] | None = None,
) -> None:
    """Run all SMs to their ends; the SM that is furthest behind always runs until its next request.

    SM i gets its blocks from ``supplies[i]``, at most `cap` of them. If all SMs have the same supply, it is that of a
    dispatcher: the SM with a free slot first gets the next block. At time 0 blocks go round the SMs; later, of several
    SMs that have a free slot at the same time, the one with the lowest number is first. The run ends early if `ended`,
    which is called between requests of the SMs, returns True.
    """
    served = [0] * len(sms)
    stops: list[tuple[int, bool, int, int, int]] = []

    def run_on(sm: ModelledSm) -> None:
        core = sm.core
        # `ended` counts the requests between which it is called.
        wanted, now = core.run() if ended is not None else sm.advance(), core.now
        if wanted == WANT_LOG or core.logged >= LOGGED_REQUESTS_TO_TAKE:
            l2.take_log(sm.sm, core)
        # Requests for blocks are served after all other requests of the same time, which may lead to more of them.
        wants_block = wanted == WANT_BLOCK
        if wanted != DONE:
            heapq.heappush(stops, (now, wants_block, served[sm.sm] if wants_block and now == 0 else 0, sm.sm, wanted))

    for sm in sms:
        run_on(sm)
    while stops and not (ended is not None and ended()):
        now, wants_block, _, i, wanted = heapq.heappop(stops)
        l2.pass_time(now, sms)
        if wants_block:
            served[i] += 1
            block = next(supplies[i], None) if sms[i].blocks_started < cap else None
            if ended is not None:
                sms[i].give_block(block)
            else:
                sms[i].give_next(block)
        elif wanted != WANT_LOG:
            sms[i].serve(wanted)
        run_on(sms[i])
    l2.take_logs(sms)
    l2.finish()


class SharedL2:
    """The L2 of the SMs 0 to `sms` - 1: collects their requests, and serves them in the order of time.

    Requests are counted apart by the `period` in which they are taken over, 0 or more. Raises `ConfigError` for an L2
    with more than `MAX_L2_LINES` lines.
    """

    def __init__(self, gpu: GPU, sms: int) -> None:
        self._line, self._sector = gpu.l1.line, gpu.l2_sector_bytes
        # Slice and set of a line follow from its number modulo slices x sets: all slices together are one cache.
        sets, ways = gpu.l2.slices * gpu.l2.sets(self._line), gpu.l2.ways
        if sets * ways > MAX_L2_LINES:
            raise ConfigError(f"l2.slices x l2.size: {sets * ways} lines; must be at most {MAX_L2_LINES} lines")
        self._partitions = gpu.l2.partitions
        dirty_ways = -1 if gpu.l2.dirty_ways is None else gpu.l2.dirty_ways
        self.period = 0
        self._cache: SharedCache | SectoredCache
        if is_plain_l2(gpu):
            self._cache = SharedCache(sets=sets, ways=ways, dirty_ways=dirty_ways)
        else:
            self._cache = SectoredCache(
                units=sets,
                partitions=self._partitions,
                ways=ways,
                fetch=gpu.l2_fetch_bytes // self._sector,
                hashed=gpu.l2.index == "hash",
                dirty_ways=dirty_ways,
            )
        self._sms = sms
        self._requests = PendingRequests(sms)
        self._least_to_merge = max(MIN_PENDING_TO_MERGE, PENDING_PER_SM_TO_MERGE * sms)
        self._merge_at = self._least_to_merge

    def take_log(self, sm: int, core: Core) -> None:
        """Take over the requests that have left an SM since the last call."""
        if core.logged:
            self._requests.take(sm, core, self.period)

    def take_logs(self, sms: Sequence[ModelledSm]) -> None:
        """Take over the requests that have left all SMs since the last calls."""
        for sm in sms:
            self.take_log(sm.sm, sm.core)

    def begin_period(self, sms: Sequence[ModelledSm]) -> None:
        """Count the requests that leave the SMs from now on apart from those before."""
        self.take_logs(sms)
        self.period += 1

    def pass_time(self, now: int, sms: Sequence[ModelledSm]) -> None:
        """Note that all SMs have come to the time `now`; serve the requests from before if enough are pending."""
        if self._requests.count > self._merge_at:
            self.take_logs(sms)
            self._serve(now)
            # Requests of SMs that are far ahead stay pending; merge less often then.
            self._merge_at = max(self._least_to_merge, 2 * self._requests.count)

    def finish(self) -> None:
        """Serve all pending requests."""
        self._serve(None)

    def warmer(self, entries: int, old: bool = False) -> Warmer:
        """Return an object that fills the L2 with what SMs request; each SM has a filter of `entries` lines.

        `old` requests are from before all others.
        """
        return Warmer(self._cache, sms=self._sms, entries=entries, old=old)

    def counts(self, period: int) -> dict[str, int]:
        """Return the counters of the requests of a period by name: those of `L2Prediction`, and four more.

        "dirtied" sectors became dirty. "updates" are the writes of atomics. "cold" sectors were read from DRAM into a
        set that still had an empty way. "old_hits" are reads of sectors that an old `Warmer` added.
        """
        counts = self._cache.counts(period)
        return {**counts, "misses": counts["reads"] - counts["hits"]}

    def prediction(self) -> L2Prediction:
        """Return the counters of the L2, of all requests; they must be in period 0, and the late part in period 1."""
        late = self.counts(1)
        counts = {name: count + late[name] for name, count in self.counts(0).items()} | {"dirty": self._cache.dirty()}
        known = {name: counts[name] for name in L2Prediction.COUNTERS if name in counts}
        return L2Prediction(sms_modelled=self._sms, line=self._line, sector=self._sector, **known)

    def _serve(self, until: int | None) -> None:
        self._requests.serve(self._cache, self._partitions, until)
