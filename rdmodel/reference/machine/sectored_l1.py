"""Model an L1 that fetches its lines by sector, and whose stores write through (docs/machine.md, Sectors).

A mask has one bit per sector of a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rdmodel.gpu.config import CacheConfig
from rdmodel.reference.machine.instruction import MachineInstruction, Owner
from rdmodel.reference.machine.l1 import L1, RETURNS, L1Failure, L1Outcome, Returns
from rdmodel.reference.machine.messages import Message, Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.ways import Way


@dataclass(slots=True, eq=False)
class SectorMshr:
    """MSHR of the sectors that one transaction missed: the first of those that wait for them."""

    owner: Owner
    way: Way
    sectors: int
    transactions: list[Transaction] = field(default_factory=list)


class SectoredL1(L1):
    """The L1 of one SM, with sectors; a line in flight always has a way."""

    def __init__(self, cache: CacheConfig, counts: Counters) -> None:
        super().__init__(cache, counts)
        self._requests: list[SectorMshr] = []
        self._asked: dict[int, int] = {}  # sectors that loads asked for, by line
        self._held: dict[int, int] = {}  # sectors in the shadow, by line, the least recently loaded first
        self._returns = RETURNS["miss"]

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._requests and super().idle

    def returns(self, outcome: L1Outcome) -> Returns:
        """Return what the load transaction waits for that was served last, with `outcome`."""
        return RETURNS["bypassed"] if outcome == "bypassed" else self._returns

    def fill(self, line: int, sectors: int = 1) -> list[Transaction]:
        """Make sectors in flight valid, free their MSHR, and return the transactions that waited."""
        (mshr,) = (mshr for mshr in self._requests if mshr.way.line == line and mshr.sectors == sectors)
        self._requests.remove(mshr)
        way = mshr.way
        way.sectors |= sectors
        way.pending &= ~sectors
        way.state = "reserved" if way.pending else "valid"
        return mshr.transactions

    def load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        """Serve a transaction of a load, which may find some sectors, wait for some and miss others."""
        line, asked = transaction.line, transaction.sectors
        way = self.find(line)
        if way is None and not transaction.allocating:
            return self.bypass(transaction)
        pending = asked & way.pending if way is not None else 0
        found = asked & way.sectors if way is not None else 0
        missing = asked & ~(pending | found)
        merged = [mshr for mshr in self._requests if mshr.way is way and mshr.sectors & pending]
        failure = self._failure(transaction, merged, missing, absent=way is None)
        if failure is not None:
            return failure
        for mshr in merged:
            mshr.transactions.append(transaction)
        self._count(line, way, found, pending, missing)
        if way is None:
            way = self._place(line, transaction.warp.owner)
        if missing:
            self._request(way, missing, transaction)
        self.ways.touch(way)
        self._remember(line, asked)
        self._returns = Returns(len(merged) + (missing != 0), (found | pending) != 0, missing)
        return "miss" if missing else "pending" if pending else "hit"

    def store(
        self, instruction: MachineInstruction, owner: Owner, line: int, sectors: int = 1, full: int = 1
    ) -> L1Outcome | L1Failure:
        """Serve a transaction of a store or an atomic: write through, and in place where the line has a way."""
        if not self._has_queue_slot():
            return "fail_miss_queue"
        way = self.find(line)
        present = way.sectors | way.pending | way.written if way is not None else 0
        if way is None and self._cache.stores == "through" and self.victim(line) is not None:
            way = self._place(line, owner)
        if way is not None:
            way.written |= sectors
            way.sectors |= full & ~way.pending
            self.ways.touch(way)
        self.miss_queue.append(Message(line, write=True, sectors=sectors, full=full, block=owner.block))
        self.unacknowledged[owner.block] += 1
        self._counts["writes"] += 1
        self._counts["store_sectors"] += sectors.bit_count()
        self._counts["store_hits"] += (sectors & present).bit_count()
        return "write"

    def _failure(
        self, transaction: Transaction, merged: list[SectorMshr], missing: int, *, absent: bool
    ) -> L1Failure | None:
        """Return the first resource that a load lacks, or None."""
        limit = self._cache.mshr_merge
        if limit is not None and any(len(mshr.transactions) >= limit for mshr in merged):
            return "fail_mshr_merge"
        if not missing:
            return None
        if absent and self.victim_of_load(transaction.line) is None:
            return "fail_line_alloc"
        if not self._has_mshr(transaction.warp.owner):
            return "fail_mshr_entry"
        return None if self._has_queue_slot() else "fail_miss_queue"

    def _has_mshr(self, owner: Owner) -> bool:
        used_by_warp = sum(mshr.owner == owner for mshr in self._requests)
        entries, per_warp = self._cache.mshrs, self._cache.mshr_per_warp
        return (entries is None or len(self._requests) < entries) and (per_warp is None or used_by_warp < per_warp)

    def _place(self, line: int, owner: Owner) -> Way:
        """Give an absent line a way, without any sector."""
        way = self.victim(line)
        assert way is not None
        self._evict(way, owner)
        self.ways.place(way, line, "valid", owner)
        return way

    def _request(self, way: Way, missing: int, transaction: Transaction) -> None:
        way.pending |= missing
        way.state = "reserved"
        self._requests.append(SectorMshr(transaction.warp.owner, way, missing, [transaction]))
        self.miss_queue.append(Message(way.line, write=False, sectors=missing))

    def _count(self, line: int, way: Way | None, found: int, pending: int, missing: int) -> None:
        """Count the sectors of a load by outcome, and the misses by cause."""
        counts = self._counts
        counts["sectors"] += (found | pending | missing).bit_count()
        counts["hits"] += found.bit_count()
        counts["pending_hits"] += pending.bit_count()
        counts["tag_misses"] += way is None
        counts["sector_misses"] += way is not None and missing != 0
        asked, held = self._asked.get(line, 0), self._held.get(line, 0)
        for sector in bits_of(missing):
            counts["compulsory" if not asked & sector else "associativity" if held & sector else "capacity"] += 1

    def _remember(self, line: int, asked: int) -> None:
        """Record that loads asked for sectors, and feed the shadow."""
        self._asked[line] = self._asked.get(line, 0) | asked
        self._held[line] = self._held.pop(line, 0) | asked
        if len(self._held) > self._cache.lines:
            del self._held[next(iter(self._held))]


def bits_of(mask: int) -> Iterator[int]:
    """Yield the bits of a mask, each as a mask of its own, the lowest first."""
    while mask:
        yield mask & -mask
        mask &= mask - 1
