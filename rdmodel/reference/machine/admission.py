"""Decide which loads of the reference machine may use the L1."""

from __future__ import annotations

from collections import deque

from rdmodel.policies import PD, StreamingBypass
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.l1 import L1, L1_OUTCOMES, L1Failure, L1Outcome, is_served
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way


class Admission:
    """Admit every load to the L1; let a load bypass it where it would fail for one of the reasons in `stalls`.

    Policies derive from this class. The ``on_...`` methods report events to them, and do nothing here.
    """

    def __init__(self, l1: L1, stalls: frozenset[L1Failure]) -> None:
        self._l1 = l1
        self._stalls = stalls

    def load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        """Serve a transaction of a load and return its outcome, or return the failure and change nothing."""
        absent = self._l1.is_absent(transaction.line)
        outcome = self._load(transaction)
        if outcome in self._stalls:
            outcome = self._l1.bypass(transaction)
        if is_served(outcome):
            self._on_load(transaction, outcome, absent=absent)
        return outcome

    def fill(self, line: int, sectors: int) -> list[Transaction]:
        """Let `sectors` of a line in flight arrive; return the transactions that waited for them."""
        return self._l1.fill(line, sectors)

    # Events, for policies that keep a history.

    def on_warp_begin(self, warp: Warp) -> None:
        """Handle the start of a warp that has an instruction (E3)."""

    def on_hint(self) -> None:
        """Handle the hint of the answer that fills a line next (S1)."""

    def on_issue(self, instruction: MachineInstruction) -> None:
        """Handle the issue of a memory instruction (S4)."""

    def on_instruction_served(self, warp: Warp, instruction: MachineInstruction) -> None:
        """Handle the service of an instruction's last transaction (S3)."""

    def on_warp_end(self, warp: Warp) -> None:
        """Handle the end of a warp (E2)."""

    def end_cycle(self, now: int, instructions: int) -> None:
        """Handle the end of cycle `now`, before phase E1, after so many thread instructions of the SM."""

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        return self._l1.load(transaction)

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        """Handle the service of a load; `absent` says whether its line was neither valid nor in flight."""


class BypassAllLoads(Admission):
    """``bypass-all``: every load bypasses the L1."""

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        return self._l1.bypass(transaction)


class DistanceProtection(Admission):
    """``pd``: protect a line for `distance` loads of its set, or of the cache; loads without another line bypass."""

    def __init__(
        self, l1: L1, stalls: frozenset[L1Failure], policy: PD, *, allocate_on_miss: bool, longest: int | None = None
    ) -> None:
        """Begin with the distance of `policy`; that of a subclass may change, but does not exceed `longest`."""
        super().__init__(l1, stalls)
        self._policy = policy
        self._distance = policy.distance
        self._longest = policy.distance if longest is None else longest
        self._allocate_on_miss = allocate_on_miss
        # For each set, or for all together, the value of `Ways.uses` when each of the last loads was served.
        self._last_loads: dict[int, deque[int]] = {}
        l1.is_protected = self._is_protected

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        line = transaction.line
        if self._allocate_on_miss and self._l1.is_absent(line) and self._keeps_out(line):
            return self._l1.bypass(transaction)
        return super()._load(transaction)

    def fill(self, line: int, sectors: int) -> list[Transaction]:
        """Let a line arrive; if it would displace a protected line, only the waiting transactions get the data."""
        if self._l1.may_abandon(line) and self._keeps_out(line):
            return self._l1.abandon(line, sectors)
        return super().fill(line, sectors)

    def _keeps_out(self, line: int) -> bool:
        """Return whether some way could take a line, but all of those are protected."""
        return self._l1.victim(line) is not None and self._l1.victim_of_load(line) is None

    def _is_protected(self, way: Way) -> bool:
        """Return whether fewer than `distance` loads were served since a way's line was last used, or allocated."""
        if way.state != "valid":
            return False
        since = way.placed if self._policy.since == "allocation" else way.last_use
        return sum(use >= since for use in self._loads_beside(way.line)) < self._distance

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        self._loads_beside(transaction.line).append(self._l1.ways.uses)

    def _loads_beside(self, line: int) -> deque[int]:
        """Return the last loads that count for the protection of a line."""
        scope = 0 if self._policy.counts == "cache" else self._l1.set_of(line)
        return self._last_loads.setdefault(scope, deque(maxlen=self._longest))


class StreamingAdmission(Admission):
    """``streaming-bypass``: loads bypass the L1 in periods after one in which hardly any load found its line."""

    def __init__(self, l1: L1, stalls: frozenset[L1Failure], policy: StreamingBypass) -> None:
        super().__init__(l1, stalls)
        self._gate = Gate(policy)

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        if self._gate.is_open:
            return super()._load(transaction)
        outcome = self._l1.bypass(transaction)
        if outcome in L1_OUTCOMES:
            self._update_tags(transaction.line)
        return outcome

    def _update_tags(self, line: int) -> None:
        """Update the tags of a closed L1, which show when loads would find their lines again."""
        way = self._l1.find(line)
        if way is not None:
            self._l1.ways.touch(way)
        elif self._l1.is_absent(line):
            self._l1.remember(line)

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        self._gate.count_read(absent=absent)

    def end_cycle(self, now: int, instructions: int) -> None:
        """Open or close the L1 at the end of a period."""
        was_open = self._gate.is_open
        self._gate.end_cycle(now, instructions)
        if self._gate.is_open and not was_open:
            self._l1.ways.forget_ghosts()
