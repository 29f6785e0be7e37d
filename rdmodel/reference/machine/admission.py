"""Which loads may use the L1: `admission` makes what the policies of a machine ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rdmodel.policies import MRPB, PD, BypassAll, BypassOnStall, Policy, StreamingBypass
from rdmodel.reference.machine.l1 import L1, OUTCOMES, Failure, Outcome
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.ways import Way

STALLS: dict[str, frozenset[Failure]] = {
    "associativity": frozenset({"fail_line_alloc"}),
    "all": frozenset({"fail_line_alloc", "fail_mshr_entry", "fail_mshr_merge", "fail_miss_queue"}),
}
"""The failures that each kind of stall consists of."""


class Admission:
    """Every load may use the L1 `l1`, but bypasses it where it would fail for one of `stalls`."""

    def __init__(self, l1: L1, stalls: frozenset[Failure]) -> None:
        self._l1 = l1
        self._stalls = stalls

    def load(self, transaction: Transaction) -> Outcome | Failure:
        """Serve a transaction of a load, or change nothing and say what is missing."""
        absent = self._l1.absent(transaction.line)
        outcome = self._load(transaction)
        if outcome in self._stalls:
            outcome = self._l1.bypass(transaction)
        if outcome in OUTCOMES:
            self._served(transaction.line, absent=absent)
        return outcome

    def fill(self, line: int) -> list[Transaction]:
        """Let a line that was in flight arrive; return the transactions that waited for it."""
        return self._l1.fill(line)

    def end_cycle(self, now: int) -> None:
        """Take note of the end of cycle `now` (E0)."""

    def _load(self, transaction: Transaction) -> Outcome | Failure:
        return self._l1.load(transaction)

    def _served(self, line: int, *, absent: bool) -> None:
        """Take note that a load of `line` was served; `absent` tells whether it did not find the line."""


class NoLoads(Admission):
    """``bypass-all``: no load uses the L1."""

    def _load(self, transaction: Transaction) -> Outcome | Failure:
        return self._l1.bypass(transaction)


class Protection(Admission):
    """``pd``: lines are protected for a while, and what would displace them bypasses."""

    def __init__(self, l1: L1, stalls: frozenset[Failure], policy: PD, *, allocate_on_miss: bool) -> None:
        super().__init__(l1, stalls)
        self._distance = policy.distance
        self._allocate_on_miss = allocate_on_miss
        # Of each set, after which use of any line the last loads were served.
        self._last_loads: dict[int, deque[int]] = {}

    def _load(self, transaction: Transaction) -> Outcome | Failure:
        if self._allocate_on_miss and self._l1.absent(transaction.line):
            way = self._l1.victim(transaction.line)
            if way is not None and self._is_protected(way):
                return self._l1.bypass(transaction)
        return super()._load(transaction)

    def fill(self, line: int) -> list[Transaction]:
        """Let a line arrive; where it would displace a protected one only those who waited get it."""
        mshr = self._l1.mshrs[line]
        if mshr.way is None and not mshr.dirty:  # What a local store wrote must not be lost.
            way = self._l1.victim(line)
            if way is not None and self._is_protected(way):
                return self._l1.abandon(line)
        return super().fill(line)

    def _is_protected(self, way: Way) -> bool:
        """Tell whether a way's line was used, and fewer than `distance` loads of its set served since."""
        if way.state != "valid":
            return False
        last_loads = self._last_loads.get(self._l1.set_of(way.line), ())
        return sum(use >= way.last_use for use in last_loads) < self._distance

    def _served(self, line: int, *, absent: bool) -> None:
        last_loads = self._last_loads.setdefault(self._l1.set_of(line), deque(maxlen=self._distance))
        last_loads.append(self._l1.ways.uses)


class Gate(Admission):
    """``streaming-bypass``: the L1 is closed while hardly any load finds its line."""

    def __init__(self, l1: L1, stalls: frozenset[Failure], policy: StreamingBypass) -> None:
        super().__init__(l1, stalls)
        self._policy = policy
        self._is_open = True
        self._looked = self._missed = 0

    def _load(self, transaction: Transaction) -> Outcome | Failure:
        if self._is_open:
            return super()._load(transaction)
        outcome = self._l1.bypass(transaction)
        if outcome in OUTCOMES:
            self._look(transaction.line)
        return outcome

    def _look(self, line: int) -> None:
        """Keep the tags of a closed L1 up to date."""
        way = self._l1.find(line)
        if way is not None:
            self._l1.ways.touch(way)
        elif self._l1.absent(line):
            self._l1.remember(line)

    def _served(self, line: int, *, absent: bool) -> None:
        self._looked += 1
        self._missed += absent

    def end_cycle(self, now: int) -> None:
        """At the end of a period, open or close."""
        if (now + 1) % self._policy.period:
            return
        if self._looked:
            self._is_open = self._missed / self._looked <= self._policy.threshold
            if self._is_open:
                self._l1.forget_ghosts()
        self._looked = self._missed = 0


def admission(l1: L1, policies: Sequence[Policy], *, allocate_on_miss: bool) -> Admission:
    """Return what decides about the loads of `l1` under some policies."""
    stalls: frozenset[Failure] = frozenset()
    for policy in policies:
        if isinstance(policy, BypassOnStall):
            stalls |= STALLS[policy.on]
        elif isinstance(policy, MRPB) and policy.bypass is not None:
            stalls |= STALLS[policy.bypass]
    for policy in policies:
        if isinstance(policy, BypassAll):
            return NoLoads(l1, stalls)
        if isinstance(policy, PD):
            return Protection(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
        if isinstance(policy, StreamingBypass):
            return Gate(l1, stalls, policy)
    return Admission(l1, stalls)
