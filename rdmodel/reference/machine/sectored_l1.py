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
from rdmodel.trace import Op


@dataclass(slots=True, eq=False)
class SectorMshr:
    """MSHR of the sectors of a line that one transaction missed: the first of those that wait for them."""

    owner: Owner
    line: int
    sectors: int
    transactions: list[Transaction] = field(default_factory=list)


@dataclass(slots=True)
class LineHistory:
    """The load that brought a line, if one did, and the number of loads that have found the line since."""

    load: Transaction | None
    reuses: int = 0


class SectoredL1(L1):
    """The L1 of one SM, with sectors.

    With ``allocate="miss"`` a line in flight always has a way. With ``"fill"`` it may have lost its way, or not have
    got one yet.
    """

    def __init__(self, cache: CacheConfig, counts: Counters) -> None:
        super().__init__(cache, counts)
        self._requests: list[SectorMshr] = []
        self._histories: dict[int, LineHistory] = {}
        self._asked: dict[int, int] = {}  # sectors that loads asked for, by line
        self._held: dict[int, int] = {}  # sectors in the shadow, by line, the least recently loaded first
        self._returns = RETURNS["miss"]
        self._reserves = cache.allocate == "miss"

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._requests and super().idle

    def is_absent(self, line: int) -> bool:
        """Return whether `line` has neither a way nor a sector in flight."""
        return self.find(line) is None and not self._pending(line)

    def is_in_flight(self, line: int) -> bool:
        """Return whether some sector of `line` is in flight."""
        return self._pending(line) != 0

    def first_waiting(self, line: int, sectors: int) -> Transaction:
        """Return the transaction that has missed `sectors` of a line in flight."""
        (mshr,) = (mshr for mshr in self._requests if mshr.line == line and mshr.sectors == sectors)
        return mshr.transactions[0]

    def bringing_load(self, line: int) -> Transaction | None:
        """Return the load transaction that brought a line that is not absent; None if a store brought it."""
        return self._histories[line].load

    def count_loads(self, line: int) -> int:
        """Return the number of load transactions that brought or found a line that is not absent."""
        history = self._histories[line]
        return history.reuses + (history.load is not None)

    def returns(self, outcome: L1Outcome) -> Returns:
        """Return what the load transaction waits for that was served last, with `outcome`."""
        return RETURNS["bypassed"] if outcome == "bypassed" else self._returns

    def fill(self, line: int, sectors: int = 1) -> list[Transaction]:
        """Make sectors in flight valid, free their MSHR, and return the transactions that waited."""
        mshr = self._remove_request(line, sectors)
        way = self.find(line)
        if way is None:
            way = self.victim_of_load(line)
            assert way is not None
            self._place(way, line, mshr.owner)
        way.sectors |= sectors
        way.state = "reserved" if self._reserves and self._pending(line) else "valid"
        return mshr.transactions

    def may_abandon(self, line: int) -> bool:
        """Return whether a line in flight would take a way at its next fill."""
        return self.find(line) is None

    def abandon(self, line: int, sectors: int = 1) -> list[Transaction]:
        """Free the MSHR of sectors in flight, which get no way; return the transactions that waited."""
        return self._remove_request(line, sectors).transactions

    def load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        """Serve a transaction of a load, which may find some sectors, wait for some and miss others."""
        line, asked = transaction.line, transaction.sectors
        way = self.find(line)
        absent, again = self.is_absent(line), way is not None
        if absent and not transaction.allocating:
            return self.bypass(transaction)
        pending = asked & self._pending(line)
        found = asked & way.sectors if way is not None else 0
        missing = asked & ~(pending | found)
        merged = [mshr for mshr in self._requests if mshr.line == line and mshr.sectors & pending]
        failure = self._failure(transaction, merged, missing, absent=absent)
        if failure is not None:
            return failure
        for mshr in merged:
            mshr.transactions.append(transaction)
        self._count(line, found, pending, missing, absent=absent)
        self._note_load(transaction, absent=absent)
        if absent and self._reserves:
            way = self.victim_of_load(line)
            assert way is not None
            self._place(way, line, transaction.warp.owner)
        if missing:
            self._request(line, missing, transaction)
        if way is not None:
            way.state = "reserved" if self._reserves and self._pending(line) else "valid"
            if again:
                self.ways.touch(way)
        self._remember(line, asked)
        self._returns = Returns(len(merged) + (missing != 0), (found | pending) != 0, missing)
        return "miss" if missing else "pending" if pending else "hit"

    def store(
        self, instruction: MachineInstruction, owner: Owner, line: int, sectors: int = 1, full: int = 1
    ) -> L1Outcome | L1Failure:
        """Serve a transaction of a store or an atomic: write through, and in place where the line has a way.

        The L1 loses the sectors of an atomic, which is served by the L2.
        """
        if not self._has_queue_slot():
            return "fail_miss_queue"
        way = self.find(line)
        pending = self._pending(line)
        present = pending | (way.sectors | way.written if way is not None else 0)
        atomic = instruction.op == Op.ATOMIC
        if atomic:
            if way is not None:
                way.sectors &= ~sectors
                way.written &= ~sectors
        elif way is not None:
            self.ways.touch(way)
        elif self._cache.stores == "through":
            way = self._place_stored(line, owner)
        if way is not None and not atomic:
            if way.ghost:
                way.ghost, way.bringer = False, owner
                self._histories[line] = LineHistory(None)
            way.written |= sectors
            way.sectors |= full & ~pending
        self.miss_queue.append(Message(line, True, sectors=sectors, full=full, block=owner.block, atomic=atomic))
        self.unacknowledged[owner.block] += 1
        self._counts["writes"] += 1
        self._counts["store_sectors"] += sectors.bit_count()
        self._counts["store_hits"] += (sectors & present).bit_count()
        return "write"

    def _pending(self, line: int) -> int:
        """Return the sectors of a line that are in flight; an MSHR has each of them."""
        return sum(mshr.sectors for mshr in self._requests if mshr.line == line)

    def _remove_request(self, line: int, sectors: int) -> SectorMshr:
        (mshr,) = (mshr for mshr in self._requests if mshr.line == line and mshr.sectors == sectors)
        self._requests.remove(mshr)
        return mshr

    def _failure(
        self, transaction: Transaction, merged: list[SectorMshr], missing: int, *, absent: bool
    ) -> L1Failure | None:
        """Return the first resource that a load lacks, or None."""
        limit = self._cache.mshr_merge
        if limit is not None and any(len(mshr.transactions) >= limit for mshr in merged):
            return "fail_mshr_merge"
        if not missing:
            return None
        if absent and self._reserves and self.victim_of_load(transaction.line) is None:
            return "fail_line_alloc"
        if not self._has_mshr(transaction.warp.owner):
            return "fail_mshr_entry"
        return None if self._has_queue_slot() else "fail_miss_queue"

    def _has_mshr(self, owner: Owner) -> bool:
        used_by_warp = sum(mshr.owner == owner for mshr in self._requests)
        entries, per_warp = self._cache.mshrs, self._cache.mshr_per_warp
        return (entries is None or len(self._requests) < entries) and (per_warp is None or used_by_warp < per_warp)

    def _note_load(self, transaction: Transaction, *, absent: bool) -> None:
        """Record that a load brings its line, or has found it."""
        line = transaction.line
        if absent:
            self._histories[line] = LineHistory(transaction)
        else:
            self._histories[line].reuses += 1
        way = self.find(line)
        if way is not None:
            way.reuses = self._histories[line].reuses

    def _place(self, way: Way, line: int, owner: Owner) -> None:
        """Give a way to a line, without any sector."""
        self._evict(way, owner)
        self.ways.place(way, line, "valid", owner)
        history = self._histories[line]
        way.load, way.reuses = history.load, history.reuses

    def _place_stored(self, line: int, owner: Owner) -> Way | None:
        """Give a way to a line that a store writes, if there is one."""
        way = self.victim_of_store(line, must=False)
        if way is not None:
            if not self._pending(line):
                self._histories[line] = LineHistory(None)
            self._place(way, line, owner)
        return way

    def _request(self, line: int, missing: int, transaction: Transaction) -> None:
        self._requests.append(SectorMshr(transaction.warp.owner, line, missing, [transaction]))
        self.miss_queue.append(Message(line, write=False, sectors=missing))

    def _count(self, line: int, found: int, pending: int, missing: int, *, absent: bool) -> None:
        """Count the sectors of a load by outcome, and the misses by cause."""
        counts = self._counts
        counts["sectors"] += (found | pending | missing).bit_count()
        counts["hits"] += found.bit_count()
        counts["pending_hits"] += pending.bit_count()
        counts["tag_misses"] += absent
        counts["sector_misses"] += not absent and missing != 0
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
