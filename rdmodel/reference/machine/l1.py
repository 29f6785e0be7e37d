"""Model the L1 of one SM: ways, MSHRs, the miss queue and the causes of misses (docs/machine.md, An access)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeGuard

import numpy as np

from rdmodel.gpu.config import CacheConfig
from rdmodel.reference.machine.instruction import MachineInstruction, Owner
from rdmodel.reference.machine.messages import Message, Transaction, aligned_piece
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.ways import IsProtected, Way, Ways, leaving_order
from rdmodel.trace import Op

L1Outcome = Literal["hit", "pending", "miss", "write", "bypassed"]
L1Failure = Literal["fail_line_alloc", "fail_mshr_entry", "fail_mshr_merge", "fail_miss_queue"]
L1_OUTCOMES: tuple[L1Outcome, ...] = ("hit", "pending", "miss", "write", "bypassed")
"""Outcomes of a served access to the L1; the log stores their positions."""


Choose = Callable[[Sequence[Way]], Way | None]
"""A function that chooses the way to be replaced, or None."""


class Returns(NamedTuple):
    """Returns that a load transaction waits for: a number of `fills`, and with `found` one after the hit latency.

    `missing` are the sectors that it requested.
    """

    fills: int
    found: bool
    missing: int = 0


RETURNS: dict[L1Outcome, Returns] = {
    "hit": Returns(0, True),
    "pending": Returns(1, True),
    "miss": Returns(1, False, 1),
    "bypassed": Returns(1, False, 1),
}
"""The returns of a load transaction by its outcome, where lines have no sectors."""


def is_served(outcome: L1Outcome | L1Failure) -> TypeGuard[L1Outcome]:
    """Return whether an access was served, and did not fail."""
    return outcome in L1_OUTCOMES


@dataclass(slots=True, eq=False)
class L1Mshr:
    """MSHR of the reference machine's L1: the warp that missed, the transactions that wait, and the reserved way.

    The first transaction is the miss, the others are pending hits. With ``allocate="fill"`` there is no way, and
    `dirty` records that a local store wrote the line while it was in flight.
    """

    owner: Owner
    way: Way | None
    transactions: list[Transaction] = field(default_factory=list)
    dirty: bool = False


class L1:
    """The L1 of one SM of the reference machine.

    `counts` are the counters of the SM. The memory system empties `miss_queue`. `unacknowledged` counts the stores of
    each block that have entered it; the SM subtracts those that were acknowledged. A load never replaces a line for
    which `is_protected` holds, except at the fill of a line that a local store wrote. Each function in `on_evict` is
    called with the way of a valid line before that line is replaced. The L1 of the reference model is in
    `rdmodel.reference.model.l1`. Where `choose` is set, it chooses among the valid ways of a full set, or none of them.
    Messages have masks of pieces of `packet` bytes (None: whole lines).
    """

    def __init__(self, cache: CacheConfig, counts: Counters, packet: int | None = None) -> None:
        self.miss_queue: deque[Message] = deque()
        self.unacknowledged: Counter[int] = Counter()
        self.mshrs: dict[int, L1Mshr] = {}
        self.is_protected: IsProtected = lambda way: False
        self.choose: Choose | None = None
        self.on_evict: list[Callable[[Way], None]] = []
        self.ways = Ways(
            cache.sets, cache.ways, cache.pool, self.set_of if cache.pool else None, cache.pools, cache.protected
        )
        self._cache = cache
        self._counts = counts
        self._packet = packet
        self._whole = 1 if packet is None else (1 << cache.line // packet) - 1
        self._missed: set[int] = set()
        self._shadow: list[int] = []  # least recently loaded first
        self._set_numbers: dict[int, int] = {}

    def find(self, line: int) -> Way | None:
        """Return the way that holds `line` or is reserved for it."""
        return self.ways.find(self.set_of(line), line)

    def is_absent(self, line: int) -> bool:
        """Return whether `line` is neither valid nor in flight."""
        return line not in self.mshrs and self.find(line) is None

    def victim(self, line: int) -> Way | None:
        """Return the way that `line` takes by LRU; None if all ways of its set are reserved."""
        return self.ways.victim(self.set_of(line))

    def victim_of_load(self, line: int) -> Way | None:
        """Return the way that a load would give to `line` now; None if all are reserved, protected or not chosen."""
        if self.choose is None:
            return self.ways.victim(self.set_of(line), self.is_protected)
        if any(way.state == "invalid" for way in self.ways.of_set(self.set_of(line))):
            return self.victim(line)
        candidates = self.candidates(line)
        return self.choose(candidates) if candidates else None

    def victim_of_store(self, line: int, *, must: bool) -> Way | None:
        """Return the way that a store would give to `line` now; `must`: if none is chosen, that is the oldest."""
        if self.choose is None:
            return self.victim(line)
        return self.victim_of_load(line) or (self.victim(line) if must else None)

    def candidates(self, line: int) -> list[Way]:
        """Return the ways of the set of `line` with valid lines, the first to leave first."""
        ways = [way for way in self.ways.of_set(self.set_of(line)) if way.state == "valid" and not way.ghost]
        return sorted(ways, key=leaving_order)

    def is_in_flight(self, line: int) -> bool:
        """Return whether something of `line` is in flight."""
        return line in self.mshrs

    def first_waiting(self, line: int, sectors: int) -> Transaction:
        """Return the transaction that has missed `sectors` of a line in flight."""
        return self.mshrs[line].transactions[0]

    def bringing_load(self, line: int) -> Transaction | None:
        """Return the load transaction that brought a line that is valid or in flight; None if a store brought it."""
        if line in self.mshrs:
            return self.mshrs[line].transactions[0]
        way = self.find(line)
        assert way is not None
        return way.load

    def count_loads(self, line: int) -> int:
        """Return the number of load transactions that brought or found a line that is valid or in flight."""
        if line in self.mshrs:
            return len(self.mshrs[line].transactions)
        way = self.find(line)
        assert way is not None
        return way.reuses + (way.load is not None)

    def fill(self, line: int, sectors: int = 1) -> list[Transaction]:
        """Make a line in flight valid, free its MSHR, and return the transactions that waited."""
        mshr = self.mshrs.pop(line)
        way = mshr.way
        if way is None:
            way = self.victim_of_load(line) or self.victim(line)
            assert way is not None
            self._evict(way, mshr.owner)
            self.ways.place(way, line, "valid", mshr.owner, dirty=mshr.dirty)
        way.state = "valid"
        way.load, way.reuses = mshr.transactions[0], len(mshr.transactions) - 1
        return mshr.transactions

    def may_abandon(self, line: int) -> bool:
        """Return whether a line in flight would take a way at its fill, and may stay without one."""
        mshr = self.mshrs[line]
        return mshr.way is None and not mshr.dirty  # A fill must keep what a local store wrote.

    def abandon(self, line: int, sectors: int = 1) -> list[Transaction]:
        """Free the MSHR of a line, which gets no way for its data; return the transactions that waited."""
        mshr = self.mshrs.pop(line)
        assert mshr.way is None
        return mshr.transactions

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self.mshrs and not self.miss_queue

    def returns(self, outcome: L1Outcome) -> Returns:
        """Return what the load transaction waits for that was served last, with `outcome`."""
        return RETURNS[outcome]

    # Accesses: each serves one transaction, or returns a failure and changes nothing.

    def load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        """Serve a transaction of a load: a hit, a pending hit or a miss.

        A transaction that may not allocate bypasses the L1 instead of missing.
        """
        line = transaction.line
        mshr = self.mshrs.get(line)
        way = self.find(line)
        outcome: L1Outcome | L1Failure
        if mshr is None and way is None and not transaction.allocating:
            return self.bypass(transaction)
        if mshr is not None:
            outcome = self._merge(mshr, transaction)
        elif way is not None:
            self.ways.touch(way)
            way.reuses += 1
            self._counts["hits"] += 1
            outcome = "hit"
        else:
            outcome = self._miss(transaction)
        if outcome in L1_OUTCOMES:
            self._move_to_top(line)
        return outcome

    def bypass(self, transaction: Transaction) -> L1Outcome | L1Failure:
        """Read a line past the L1, whose state does not change."""
        if not self._has_queue_slot():
            return "fail_miss_queue"
        message = Message(transaction.line, write=False, bypass=transaction, sectors=self._carried(transaction.sectors))
        self.miss_queue.append(message)
        self._counts["bypassed"] += 1
        return "bypassed"

    def store(
        self, instruction: MachineInstruction, owner: Owner, line: int, sectors: int = 1, full: int = 1
    ) -> L1Outcome | L1Failure:
        """Serve a transaction of a store or an atomic of warp `owner`."""
        if instruction.op == Op.STORE and instruction.local:
            return self._store_local(owner, line)
        return self._store_global(owner, line, sectors, atomic=instruction.op == Op.ATOMIC)

    def _merge(self, mshr: L1Mshr, transaction: Transaction) -> L1Outcome | L1Failure:
        limit = self._cache.mshr_merge
        if limit is not None and len(mshr.transactions) >= limit:
            return "fail_mshr_merge"
        mshr.transactions.append(transaction)
        if mshr.way is not None:
            self.ways.touch(mshr.way)
        self._counts["pending_hits"] += 1
        return "pending"

    def _miss(self, transaction: Transaction) -> L1Outcome | L1Failure:
        owner, line = transaction.warp.owner, transaction.line
        way = self.victim_of_load(line) if self._cache.allocate == "miss" else None
        if self._cache.allocate == "miss" and way is None:
            return "fail_line_alloc"
        if not self._has_mshr(owner):
            return "fail_mshr_entry"
        if not self._has_queue_slot():
            return "fail_miss_queue"
        if way is not None:
            self._evict(way, owner)
            self.ways.place(way, line, "reserved", owner)
            way.load = transaction
        self.mshrs[line] = L1Mshr(owner, way, [transaction])
        self.miss_queue.append(Message(line, write=False, sectors=self._whole))
        self._counts[self._cause(line)] += 1
        return "miss"

    def _carried(self, asked: int) -> int:
        """Return the mask of a message for what a transaction asks for."""
        return asked if self._packet is None else aligned_piece(asked)

    def _store_global(self, owner: Owner, line: int, sectors: int, *, atomic: bool) -> L1Outcome | L1Failure:
        if not self._has_queue_slot():
            return "fail_miss_queue"
        way = self.find(line)
        if way is not None and way.state == "valid":
            way.state = "invalid"
        carried = self._carried(sectors)
        self.miss_queue.append(Message(line, write=True, sectors=carried, block=owner.block, atomic=atomic))
        self.unacknowledged[owner.block] += 1
        self._counts["writes"] += 1
        return "write"

    def _store_local(self, owner: Owner, line: int) -> L1Outcome | L1Failure:
        mshr = self.mshrs.get(line)
        way = self.find(line)
        if way is not None and way.ghost:
            self.ways.place(way, line, "valid", owner, dirty=True)
        elif way is not None:
            way.dirty = True
            self.ways.touch(way)
        elif mshr is not None:
            mshr.dirty = True
        else:
            way = self.victim_of_store(line, must=True)
            if way is None:
                return "fail_line_alloc"
            if way.state == "valid" and way.dirty and not self._has_queue_slot():
                return "fail_miss_queue"
            self._evict(way, owner)
            self.ways.place(way, line, "valid", owner, dirty=True)
        self._counts["writes"] += 1
        return "write"

    # Ghosts: lines without data.

    def remember(self, line: int) -> None:
        """Give an absent line a way as a ghost, if there is one."""
        way = self.victim(line)
        if way is not None:
            self._write_back(way)
            self.ways.place(way, line, "valid")
            way.ghost = True

    def _evict(self, way: Way, owner: Owner) -> None:
        """Evict the line in `way` for one that `owner` brings: write it back, and count the eviction by its bringer."""
        self._write_back(way)
        if way.state != "valid" or way.ghost:
            return
        for listener in self.on_evict:
            listener(way)
        if way.bringer == owner:
            self._counts["intra_warp"] += 1
        elif way.bringer.block == owner.block:
            self._counts["cross_warp_intra_block"] += 1
        else:
            self._counts["cross_block"] += 1

    def _write_back(self, way: Way) -> None:
        if way.state == "valid" and way.dirty:
            # The queue may exceed its limit by one: the access that evicts has checked for one slot only.
            self.miss_queue.append(Message(way.line, write=True, sectors=self._whole))

    def _has_mshr(self, owner: Owner) -> bool:
        used_by_warp = sum(mshr.owner == owner for mshr in self.mshrs.values())
        entries, per_warp = self._cache.mshrs, self._cache.mshr_per_warp
        return (entries is None or len(self.mshrs) < entries) and (per_warp is None or used_by_warp < per_warp)

    def _has_queue_slot(self) -> bool:
        return len(self.miss_queue) < self._cache.miss_queue

    def _cause(self, line: int) -> str:
        """Classify a miss of `line`, and remember that it missed."""
        if line not in self._missed:
            self._missed.add(line)
            return "compulsory"
        return "associativity" if line in self._shadow else "capacity"

    def _move_to_top(self, line: int) -> None:
        if line in self._shadow:
            self._shadow.remove(line)
        self._shadow.append(line)
        del self._shadow[: -self._cache.lines]

    def set_of(self, line: int) -> int:
        """Return the set of `line` under the cache's index function."""
        if line not in self._set_numbers:
            cache = self._cache
            self._set_numbers[line] = int(cache.index.set_of(np.array([line]), cache.sets, cache.line)[0])
        return self._set_numbers[line]
