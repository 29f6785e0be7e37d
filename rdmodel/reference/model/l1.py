"""Restate the L1 of the `hardware` definition: a miss takes way and MSHR at issue (docs/model.md sections 11 and 13).

Lines are fetched by sector. A mask has one bit per sector of a line, and a line without sectors has one bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import floor

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import LineRequest, resolved_latencies
from rdmodel.reference.model.record import Counts, Effect, L2Request, Ledger, Log, Moment, Try, TryOutcome
from rdmodel.reference.model.stack import SectoredShadow, Stacks
from rdmodel.reference.turns import Turns


@dataclass(slots=True, eq=False)
class _Mshr:
    """MSHR of the reference `hardware` model: the request of one transaction for the `sectors` that it missed.

    It knows the line, the warp that missed, the time of the fill, and how many requests have merged.
    """

    line: int
    sectors: int
    warp: int
    time: int
    requests: int = 1


@dataclass(slots=True, eq=False)
class _Way:
    """Sectors of a line in a way: those whose data is `valid`, and those `written` in place but not fetched.

    `protected`: the line was used again, and is one of those that leave last.
    """

    valid: int = 0
    written: int = 0
    protected: bool = False


class L1:
    """The L1 of the reference `hardware` model: sets of ways with LRU replacement, MSHRs and the fills in flight.

    Each way has data of its own, or the lines of many sets share data (`CacheConfig.tag_sets`). `ledger` has
    the counters of the SM, and `requests` all that left it. `order` is the next issue number, which all transactions
    and non-memory instructions of the SM share. The L1 of the reference machine is in `rdmodel.reference.machine.l1`.
    """

    def __init__(self, cache: CacheConfig, options: Options, latencies: Iterator[int], log: Log | None) -> None:
        self.ledger = Ledger()
        self.requests: list[L2Request] = []
        self.fills: list[tuple[Moment, _Mshr]] = []
        self.order = 0
        self._cache = cache
        self._options = options
        self._lat_min, self._hit_latency = resolved_latencies(options)
        self._latencies = latencies
        self._log = log
        self._stacks = Stacks(cache)
        self._shadow = SectoredShadow(cache.lines)
        self._ways: defaultdict[int, dict[int, _Way]] = defaultdict(dict)  # by set and line, the first to leave first
        self._turns = Turns(cache.sets, cache.pools)
        self._mshrs: list[_Mshr] = []
        self._missed: set[int] = set()  # lines

    @property
    def counts(self) -> Counts:
        """The counters of the present origin."""
        return self.ledger.counts

    def take_order(self) -> int:
        """Return the next issue number, and advance it."""
        self.order += 1
        return self.order - 1

    def fill(self, now: int) -> bool:
        """Apply the fills due by `now`: sectors become valid and MSHRs free. Return whether there were any."""
        filled = False
        while self.fills and self.fills[0][0].time <= now:
            filled_at, mshr = heappop(self.fills)
            self._mshrs.remove(mshr)
            ways = self._ways_of(mshr.line)
            if mshr.line in ways:
                ways[mshr.line].valid |= mshr.sectors
            self._write_log(Effect(filled_at.time, mshr.line))
            filled = True
        return filled

    def evict(self, lines: Iterable[int]) -> None:
        """Drop those of `lines` that have a way and no sector in flight."""
        for line in lines:
            if not self._in_flight(line):
                self._ways_of(line).pop(line, None)

    def access(self, now: int, warp: int, transaction: LineRequest) -> Moment | None:
        """Issue a load's transaction and return the moment when its data arrives; None, and no change, if it stalls."""
        line, asked = transaction.line, transaction.sectors
        distance = self._stacks.distance(line)
        used = len(self._mshrs)
        there = self._is_there(line)
        again = line in self._ways_of(line)
        pending = asked & self._in_flight(line)
        missing = asked & ~pending & ~self._valid(line)
        if self._stalls(warp, line, asked):
            self._write_log(Try(now, warp, line, distance, "stall", used, used, None, None))
            return None
        order = self.take_order()
        outcome: TryOutcome = "miss" if missing else "latency" if pending else "hit"
        merged = [mshr for mshr in self._mshrs if mshr.line == line and mshr.sectors & asked]
        for mshr in merged:
            mshr.requests += 1
        times = [max(mshr.time, now + self._hit_latency) for mshr in merged]
        if asked & ~pending & ~missing:
            times.append(now + self._hit_latency)
        if missing:
            if not there:
                self._allocate(line)
            elif line not in self._ways_of(line):
                self.counts.bypassed += 1
            times.append(now + self._miss_latency(first=line not in self._missed))
            self._missed.add(line)
            self.requests.append(L2Request(now, line, write=False, sectors=missing))
            mshr = _Mshr(line, missing, warp, times[-1])
            self._mshrs.append(mshr)
            heappush(self.fills, (Moment(mshr.time, order), mshr))
        self._count(line, there, asked, pending, missing)
        self.counts.add_distance(distance)
        if again:
            self._use_again(line)
        self._stacks.touch(line)
        time = max(times)
        self._write_log(Try(now, warp, line, distance, outcome, used, len(self._mshrs), time - now, time))
        return Moment(time, order)

    def bypass(self, now: int, transaction: LineRequest) -> Moment:
        """Send the transaction of a load that does not look into the L1 to the L2; return when its data arrives."""
        self.counts.bypassed_transactions += 1
        self.counts.bypassed_sectors += transaction.sectors.bit_count()
        self.requests.append(L2Request(now, transaction.line, write=False, sectors=transaction.sectors))
        return Moment(now + self._miss_latency(first=False), self.take_order())

    def store(self, now: int, transaction: LineRequest, *, atomic: bool) -> None:
        """Issue a transaction of a store that writes in place, where its line is, and through to the L2.

        An atomic is served by the L2: the L1 loses its sectors, except those in flight.
        """
        line, asked = transaction.line, transaction.sectors
        ways = self._ways_of(line)
        self.take_order()
        self.counts.store_transactions += 1
        self.counts.store_sectors += asked.bit_count()
        written = ways[line].written if line in ways else 0
        self.counts.store_hits += (asked & (self._valid(line) | self._in_flight(line) | written)).bit_count()
        self.requests.append(L2Request(now, line, write=True, sectors=asked, full=transaction.full, atomic=atomic))
        if atomic:
            if line in ways:
                ways[line].valid &= ~asked
                ways[line].written &= ~asked
            return
        if line in ways:
            self._use_again(line)
        elif self._options.stores == "through" and not self._is_there(line) and self._has_way(line):
            self._take_way(line)
        if line in ways:
            ways[line].written |= asked
            ways[line].valid |= transaction.full & ~self._in_flight(line)

    # Sectors and ways.

    def _ways_of(self, line: int) -> dict[int, _Way]:
        return self._ways[self._stacks.set_of(line)]

    def _valid(self, line: int) -> int:
        ways = self._ways_of(line)
        return ways[line].valid if line in ways else 0

    def _in_flight(self, line: int) -> int:
        """Return the sectors of `line` that were requested and have not arrived."""
        sectors = 0
        for mshr in self._mshrs:
            if mshr.line == line:
                sectors |= mshr.sectors
        return sectors

    def _is_there(self, line: int) -> bool:
        """Return whether a line has a way or, with ``full_set="bypass"``, is in flight without one."""
        return line in self._ways_of(line) or self._in_flight(line) != 0

    def _use_again(self, line: int) -> None:
        """Let a line that has a way leave last of its set.

        If lines are protected, and there is one too many, the one that was used least recently leaves before the
        others, but after those that are not protected.
        """
        ways = self._ways_of(line)
        way = ways.pop(line)
        ways[line] = way
        way.protected = self._cache.protected > 0
        protected = [resident for resident in ways if ways[resident].protected]
        if len(protected) > self._cache.protected:
            ways[protected[0]].protected = False

    def _enter(self, line: int) -> None:
        """Give an absent line an empty way: it leaves after all others that are not protected."""
        ways = self._ways_of(line)
        protected = {resident: way for resident, way in ways.items() if way.protected}
        for resident in protected:
            del ways[resident]
        ways[line] = _Way()
        ways.update(protected)

    def _has_way(self, line: int) -> bool:
        """Return whether an absent line can have a way: an empty one, or that of a line that is not in flight."""
        return self._has_room(line) or self._victim(line) is not None

    def _has_room(self, line: int) -> bool:
        """Return whether the set of a line has an empty way, and there are data for it."""
        cache = self._cache
        used = sum(len(self._ways[number]) for number in self._turns.part_of(self._stacks.set_of(line)))
        return len(self._ways_of(line)) < cache.ways and (not cache.pool or used < cache.pool // cache.pools)

    def _victim(self, line: int) -> int | None:
        """Return the line that has to leave for an absent one if there is no room; None if all are in flight.

        It is the first to leave that is not in flight, of the set of the absent one if all its ways are taken.
        Otherwise only data are wanted, and it is that of the first set in turn that has one.
        """
        own = self._ways_of(line)
        if len(own) == self._cache.ways:
            return self._oldest(own)
        found = (self._oldest(self._ways[number]) for number in self._turns.order(self._stacks.set_of(line)))
        return next((resident for resident in found if resident is not None), None)

    def _oldest(self, ways: dict[int, _Way]) -> int | None:
        return next((resident for resident in ways if not self._in_flight(resident)), None)

    def _take_way(self, line: int) -> None:
        """Give `line` an empty way, else that of the line that has to leave."""
        if not self._has_room(line):
            victim = self._victim(line)
            assert victim is not None
            if len(self._ways_of(line)) < self._cache.ways:
                self._turns.give(self._stacks.set_of(victim))
            del self._ways_of(victim)[victim]
        self._enter(line)

    def _allocate(self, line: int) -> None:
        """Give `line` a way, or none if it cannot have one (a bypass)."""
        if self._has_way(line):
            self._take_way(line)
        else:
            self.counts.bypassed += 1

    # MSHRs and stalls.

    def _stalls(self, warp: int, line: int, asked: int) -> bool:
        """Return whether the transaction stalls for want of an MSHR or of a way, and count the stall."""
        if not self._has_mshr(warp, line, asked):
            self.counts.stalls_mshr += 1
            return True
        if self._options.full_set == "stall" and not self._is_there(line) and not self._has_way(line):
            self.counts.stalls_ways += 1
            return True
        return False

    def _has_mshr(self, warp: int, line: int, asked: int) -> bool:
        """Return whether the MSHRs of the sectors in flight can merge one more request, and others can get an MSHR."""
        cache = self._cache
        merged = [mshr for mshr in self._mshrs if mshr.line == line and mshr.sectors & asked]
        if cache.mshr_merge is not None and any(mshr.requests >= cache.mshr_merge for mshr in merged):
            return False
        if not asked & ~self._in_flight(line) & ~self._valid(line):
            return True
        used_by_warp = sum(mshr.warp == warp for mshr in self._mshrs)
        return (cache.mshrs is None or len(self._mshrs) < cache.mshrs) and (
            cache.mshr_per_warp is None or used_by_warp < cache.mshr_per_warp
        )

    def _miss_latency(self, *, first: bool) -> int:
        latency = self._lat_min + int(next(self._latencies))
        return floor(self._options.first_touch_factor * latency + 0.5) if first else latency

    # Counters and the log.

    def _count(self, line: int, there: bool, asked: int, pending: int, missing: int) -> None:
        """Count a load's transaction, and feed it to the shadow."""
        counts = self.counts
        counts.sectors += asked.bit_count()
        counts.hits += (asked & ~pending & ~missing).bit_count()
        counts.latency_misses += pending.bit_count()
        for cause in self._shadow.causes(line, missing):
            counts.add_miss(cause)
        counts.tag_misses += not there
        counts.sector_misses += there and missing != 0
        self._shadow.load(line, asked)

    def _write_log(self, record: Try | Effect) -> None:
        if self._log is not None:
            self._log.append(record)
