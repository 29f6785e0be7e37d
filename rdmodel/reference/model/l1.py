"""Restate the L1 of the `hardware` definition: a miss takes way and MSHR at issue (docs/model.md section 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import floor

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import resolved_latencies
from rdmodel.reference.model.record import Counts, Effect, L2Request, Log, Moment, Try, TryOutcome
from rdmodel.reference.model.stack import Stacks


@dataclass(slots=True, eq=False)
class _HardwareMshr:
    """MSHR of the reference `hardware` model: the warp that missed, the time of the fill, the requests merged."""

    warp: int
    time: int
    requests: int = 1


class L1:
    """The L1 of the reference `hardware` model: sets of ways with LRU replacement, MSHRs and the fills in flight.

    `counts` are the counters of the SM and `requests` all that left it. `order` is the next issue number, which all
    transactions and non-memory instructions of the SM share. The L1 of the reference machine is in
    `rdmodel.reference.machine.l1`.
    """

    def __init__(self, cache: CacheConfig, options: Options, latencies: Iterator[int], log: Log | None) -> None:
        self.counts = Counts()
        self.requests: list[L2Request] = []
        self.fills: list[tuple[Moment, int]] = []
        self.order = 0
        self._cache = cache
        self._options = options
        self._lat_min, self._hit_latency = resolved_latencies(options)
        self._latencies = latencies
        self._log = log
        self._stacks = Stacks(cache)
        self._ways: defaultdict[int, list[int]] = defaultdict(list)  # least recently used first
        self._mshrs: dict[int, _HardwareMshr] = {}

    def take_order(self) -> int:
        """Return the next issue number, and advance it."""
        self.order += 1
        return self.order - 1

    def fill(self, now: int) -> bool:
        """Apply the fills due by `now`: lines become valid and MSHRs free. Return whether there were any."""
        filled = False
        while self.fills and self.fills[0][0].time <= now:
            filled_at, line = heappop(self.fills)
            del self._mshrs[line]
            self._write_log(Effect(filled_at.time, line))
            filled = True
        return filled

    def evict(self, lines: Iterable[int]) -> None:
        """Drop those of `lines` that are valid; a line in flight stays in flight."""
        for line in lines:
            ways = self._ways_of(line)
            if line in ways and line not in self._mshrs:
                ways.remove(line)

    def access(self, now: int, warp: int, line: int) -> Moment | None:
        """Issue one transaction and return the moment when its data arrives; None, and no change, if it stalls."""
        distance = self._stacks.distance(line)
        used = len(self._mshrs)
        ways = self._ways_of(line)
        if self._stalls(warp, line):
            self._write_log(Try(now, warp, line, distance, "stall", used, used, None, None))
            return None
        order = self.take_order()
        outcome: TryOutcome
        if line in self._mshrs:
            mshr = self._mshrs[line]
            mshr.requests += 1
            outcome, time = "latency", max(mshr.time, now + self._hit_latency)
            self.counts.add("latency_misses", distance)
        elif line in ways:
            outcome, time = "hit", now + self._hit_latency
            self.counts.add("hits", distance)
        else:
            cause = self._stacks.cause(line)
            outcome, time = "miss", now + self._miss_latency(first=cause == "compulsory")
            self.requests.append(L2Request(now, line, write=False))
            self._allocate(line)
            self._mshrs[line] = _HardwareMshr(warp, time)
            heappush(self.fills, (Moment(time, order), line))
            self.counts.add(cause, distance)
        if line in ways:
            ways.remove(line)
            ways.append(line)
        self._stacks.touch(line)
        self._write_log(Try(now, warp, line, distance, outcome, used, len(self._mshrs), time - now, time))
        return Moment(time, order)

    def _ways_of(self, line: int) -> list[int]:
        return self._ways[self._stacks.set_of(line)]

    def _stalls(self, warp: int, line: int) -> bool:
        """Return whether the transaction stalls for want of an MSHR or of a way, and count the stall."""
        if not self._has_mshr(warp, line):
            self.counts.stalls_mshr += 1
            return True
        absent = line not in self._mshrs and line not in self._ways_of(line)
        if absent and self._options.full_set == "stall" and not self._has_way(line):
            self.counts.stalls_ways += 1
            return True
        return False

    def _has_mshr(self, warp: int, line: int) -> bool:
        """Return whether the MSHR of a line in flight can merge one more request, or an absent line can get an MSHR."""
        cache = self._cache
        if line in self._mshrs:
            return cache.mshr_merge is None or self._mshrs[line].requests < cache.mshr_merge
        if line in self._ways_of(line):
            return True
        used_by_warp = sum(mshr.warp == warp for mshr in self._mshrs.values())
        return (cache.mshrs is None or len(self._mshrs) < cache.mshrs) and (
            cache.mshr_per_warp is None or used_by_warp < cache.mshr_per_warp
        )

    def _has_way(self, line: int) -> bool:
        ways = self._ways_of(line)
        return len(ways) < self._cache.ways or any(resident not in self._mshrs for resident in ways)

    def _allocate(self, line: int) -> None:
        """Give `line` an empty way, else that of the least recently used line not in flight, else none (a bypass)."""
        ways = self._ways_of(line)
        if not self._has_way(line):
            self.counts.bypassed += 1
            return
        if len(ways) == self._cache.ways:
            ways.remove(next(resident for resident in ways if resident not in self._mshrs))
        ways.append(line)

    def _miss_latency(self, *, first: bool) -> int:
        latency = self._lat_min + int(next(self._latencies))
        return floor(self._options.first_touch_factor * latency + 0.5) if first else latency

    def _write_log(self, record: Try | Effect) -> None:
        if self._log is not None:
            self._log.append(record)
