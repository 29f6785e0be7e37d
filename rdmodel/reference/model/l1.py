"""The cache of the `hardware` definition: a miss takes its way and its MSHR at issue (docs/model.md section 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import floor

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import resolved_latencies
from rdmodel.reference.model.record import Counts, Effect, Log, Outcome, Request, Try
from rdmodel.reference.model.stack import Stacks

Moment = tuple[int, int]
"""A time and the issue number of a transaction: fills and arrivals are ordered by both."""


@dataclass(slots=True, eq=False)
class _Mshr:
    """An entry for a line in flight: the warp that missed, the time of the fill, the transactions served."""

    warp: int
    time: int
    served: int = 1


class L1:
    """Sets of ways in LRU order, MSHRs, fills under way, the issue counter, what is counted and what has left."""

    def __init__(self, cache: CacheConfig, options: Options, latencies: Iterator[int], log: Log | None) -> None:
        self.counts = Counts()
        self.requests: list[Request] = []
        self.fills: list[tuple[Moment, int]] = []
        self.order = 0
        self._cache = cache
        self._options = options
        self._lat_min, self._hit_latency = resolved_latencies(options)
        self._latencies = latencies
        self._log = log
        self._stacks = Stacks(cache)
        self._ways: defaultdict[int, list[int]] = defaultdict(list)  # least recently used first
        self._mshrs: dict[int, _Mshr] = {}

    def take_order(self) -> int:
        """Return the next issue number."""
        self.order += 1
        return self.order - 1

    def fill(self, now: int) -> bool:
        """Apply the fills due by `now`: lines become valid, MSHRs free. Tell whether there was one."""
        filled = False
        while self.fills and self.fills[0][0][0] <= now:
            (time, _), line = heappop(self.fills)
            del self._mshrs[line]
            self._note(Effect(time, line))
            filled = True
        return filled

    def evict(self, lines: Iterable[int]) -> None:
        """Make those of `lines` absent that are valid."""
        for line in lines:
            ways = self._ways_of(line)
            if line in ways and line not in self._mshrs:
                ways.remove(line)

    def access(self, now: int, warp: int, line: int) -> Moment | None:
        """Issue one transaction and return when its data is there; None, with no change, if it stalls."""
        distance = self._stacks.distance(line)
        used = len(self._mshrs)
        ways = self._ways_of(line)
        if self._stalls(warp, line):
            self._note(Try(now, warp, line, distance, "stall", used, used, None, None))
            return None
        order = self.take_order()
        outcome: Outcome
        if line in self._mshrs:
            mshr = self._mshrs[line]
            mshr.served += 1
            outcome, time = "latency", max(mshr.time, now + self._hit_latency)
            self.counts.add("latency_misses", distance)
        elif line in ways:
            outcome, time = "hit", now + self._hit_latency
            self.counts.add("hits", distance)
        else:
            cause = self._stacks.cause(line)
            outcome, time = "miss", now + self._miss_latency(first=cause == "compulsory")
            self.requests.append(Request(now, line, write=False))
            self._allocate(line)
            self._mshrs[line] = _Mshr(warp, time)
            heappush(self.fills, ((time, order), line))
            self.counts.add(cause, distance)
        if line in ways:
            ways.remove(line)
            ways.append(line)
        self._stacks.touch(line)
        self._note(Try(now, warp, line, distance, outcome, used, len(self._mshrs), time - now, time))
        return time, order

    def _ways_of(self, line: int) -> list[int]:
        return self._ways[self._stacks.set_of(line)]

    def _stalls(self, warp: int, line: int) -> bool:
        """Count and report a stall: an MSHR, or else a way, that the transaction needs is missing."""
        if not self._has_mshr(warp, line):
            self.counts.stalls_mshr += 1
            return True
        absent = line not in self._mshrs and line not in self._ways_of(line)
        if absent and self._options.full_set == "stall" and not self._has_way(line):
            self.counts.stalls_ways += 1
            return True
        return False

    def _has_mshr(self, warp: int, line: int) -> bool:
        """Tell whether a line in flight may take one more transaction, or an absent one a new MSHR."""
        cache = self._cache
        if line in self._mshrs:
            return cache.mshr_merge is None or self._mshrs[line].served < cache.mshr_merge
        if line in self._ways_of(line):
            return True
        held = sum(mshr.warp == warp for mshr in self._mshrs.values())
        return (cache.mshrs is None or len(self._mshrs) < cache.mshrs) and (
            cache.mshr_per_warp is None or held < cache.mshr_per_warp
        )

    def _has_way(self, line: int) -> bool:
        ways = self._ways_of(line)
        return len(ways) < self._cache.ways or any(old not in self._mshrs for old in ways)

    def _allocate(self, line: int) -> None:
        """Give `line` an empty way, else the least recently used one not in flight, else none (a bypass)."""
        ways = self._ways_of(line)
        if not self._has_way(line):
            self.counts.bypassed += 1
            return
        if len(ways) == self._cache.ways:
            ways.remove(next(old for old in ways if old not in self._mshrs))
        ways.append(line)

    def _miss_latency(self, *, first: bool) -> int:
        latency = self._lat_min + int(next(self._latencies))
        return floor(self._options.first_touch_factor * latency + 0.5) if first else latency

    def _note(self, record: Try | Effect) -> None:
        if self._log is not None:
            self._log.append(record)
