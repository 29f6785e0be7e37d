"""Implement ``apcm`` in the reference machine: the lines of one monitored warp decide how all warps' loads are treated.

The policy is that of Koo et al., ISCA 2017. Loads are numbered in the order in which they first issue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rdmodel.policies import APCM
from rdmodel.reference.machine.admission import Admission
from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.l1 import L1, L1Failure, L1Outcome
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way
from rdmodel.trace import Op

LoadPattern = Literal["streaming", "intra-warp", "other"]
"""Access pattern of a load: streaming loads may bypass the L1, and lines of intra-warp loads may be protected."""


@dataclass(slots=True)
class Tag:
    """A line that the monitored warp accesses, and the loads that touched it `first` and `last`.

    Of its `accesses` by all warps, `monitored_accesses` were those of the monitored warp.
    """

    line: int
    first: int
    last: int
    accesses: int
    monitored_accesses: int = 1

    @property
    def pattern(self) -> LoadPattern:
        """Pattern of the first load, from this line (table 2)."""
        if self.accesses == 1:
            return "streaming"
        return "intra-warp" if self.monitored_accesses == self.accesses else "other"


class KnownLoad(NamedTuple):
    """The pattern of a load, learnt from a line that had `accesses` and was last touched by the load `last`."""

    pattern: LoadPattern
    accesses: int
    last: int


@dataclass(slots=True)
class ProtectedLines:
    """The lines that a warp protects until load `last` is done: those of the missing `transactions` of `load`."""

    load: int
    last: int
    transactions: list[Transaction] = field(default_factory=list)


class AccessPatterns(Admission):
    """Admission by the access patterns that the monitored warp shows: bypass streaming loads, protect intra-warp lines.

    The first warp that begins on the SM is monitored.
    """

    def __init__(self, l1: L1, stalls: frozenset[L1Failure], policy: APCM, *, allocate_on_miss: bool) -> None:
        super().__init__(l1, stalls)
        self._policy = policy
        self._allocate_on_miss = allocate_on_miss
        self._numbers: dict[int, int] = {}
        self._has_seen_warp = False
        self._monitored: Warp | None = None
        self._tags: dict[int, Tag] = {}
        self._known_loads: dict[int, KnownLoad] = {}
        self._protected: dict[Warp, ProtectedLines] = {}
        l1.is_protected = self._is_protected

    # Monitoring.

    def on_warp_begin(self, warp: Warp) -> None:
        """Monitor the first warp."""
        if not self._has_seen_warp:
            self._has_seen_warp, self._monitored = True, warp

    def on_issue(self, instruction: MachineInstruction) -> None:
        """Give a new load the next number, if one is left."""
        if is_global_load(instruction) and instruction.lines and len(self._numbers) < self._policy.loads:
            self._numbers.setdefault(instruction.pc, len(self._numbers))

    def _number_of(self, instruction: MachineInstruction) -> int | None:
        return self._numbers.get(instruction.pc) if is_global_load(instruction) else None

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        load = self._number_of(transaction.instruction)
        if load is None or self._monitored is None:
            return
        slot = transaction.line % self._policy.tags
        tag = self._tags.get(slot)
        if tag is not None and tag.line == transaction.line:
            self._count(tag, load, transaction.warp)
        elif transaction.warp is self._monitored and transaction.place < 2:
            if tag is not None:
                self._learn(tag)
            accesses = 1 if absent or outcome == "bypassed" else self._l1.count_loads(transaction.line)
            self._tags[slot] = Tag(transaction.line, load, load, min(accesses, self._policy.most))
            self._learn_if_full(self._tags[slot])

    def _count(self, tag: Tag, load: int, warp: Warp) -> None:
        if tag.accesses < self._policy.most:
            tag.accesses += 1
            tag.monitored_accesses += warp is self._monitored
            tag.last = load
            self._learn_if_full(tag)

    def _learn_if_full(self, tag: Tag) -> None:
        if tag.accesses == self._policy.most:
            self._learn(tag)

    def _learn(self, tag: Tag) -> None:
        """Learn the pattern of a tag's first load, unless it was learnt from a line with as many accesses."""
        known = self._known_loads.get(tag.first)
        if known is None or known.accesses < tag.accesses:
            self._known_loads[tag.first] = KnownLoad(tag.pattern, tag.accesses, tag.last)

    def on_warp_end(self, warp: Warp) -> None:
        """End the warp's protection; if it was the monitored warp, learn from all tags."""
        self._protected.pop(warp, None)
        if warp is self._monitored:
            for _, tag in sorted(self._tags.items()):
                self._learn(tag)
            self._monitored = None

    # Bypassing and protecting.

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        load = self._number_of(transaction.instruction)
        known = self._known_loads.get(load) if load is not None else None
        pattern = None if known is None else known.pattern
        if pattern == "streaming" and self._policy.mode != "protect":
            return self._l1.bypass(transaction)
        if self._allocate_on_miss and self._l1.is_absent(transaction.line) and self._is_shut_out(transaction.line):
            return self._l1.bypass(transaction)
        absent = self._l1.is_absent(transaction.line)
        outcome = super()._load(transaction)
        if absent and outcome == "miss" and pattern == "intra-warp" and self._policy.mode != "bypass":
            assert load is not None and known is not None
            self._protect(transaction, load, known)
        return outcome

    def _protect(self, transaction: Transaction, load: int, known: KnownLoad) -> None:
        """Protect the line of a missing intra-warp load, unless its warp already protects lines of another load."""
        protected = self._protected.setdefault(transaction.warp, ProtectedLines(load, known.last))
        if protected.load == load:
            protected.transactions.append(transaction)

    def on_instruction_served(self, warp: Warp, instruction: MachineInstruction) -> None:
        """End the warp's protection after the last load, unless that load is in a loop that continues."""
        protected = self._protected.get(warp)
        if protected is None or self._number_of(instruction) != protected.last:
            return
        if protected.last != protected.load or instruction.loop_exit:
            del self._protected[warp]

    def fill(self, line: int, sectors: int) -> list[Transaction]:
        """Let a line arrive; if it would displace a protected line, only the waiting transactions get the data."""
        if self._l1.may_abandon(line) and self._is_shut_out(line):
            return self._l1.abandon(line, sectors)
        return super().fill(line, sectors)

    def _is_shut_out(self, line: int) -> bool:
        """Return whether a load of `line` finds no way because of protected lines.

        Where a way is empty and lacks data, the load waits for lines in flight.
        """
        ways = self._l1.ways.of_set(self._l1.set_of(line))
        if any(way.state == "invalid" for way in ways) or self._l1.victim_of_load(line) is not None:
            return False
        return any(self._is_protected(way) for way in ways)

    def _is_protected(self, way: Way) -> bool:
        """Return whether the line of a way, valid or reserved, is protected."""
        if way.load is None:
            return False
        protected = self._protected.get(way.load.warp)
        return protected is not None and way.load in protected.transactions


def is_global_load(instruction: MachineInstruction) -> bool:
    """Return whether an instruction is a load that does not address local memory."""
    return instruction.op == Op.LOAD and not instruction.local
