"""``abyp``: loads whose lines go unused bypass."""

from __future__ import annotations

from rdmodel.policies import ABYP
from rdmodel.reference.machine.admission import Admission
from rdmodel.reference.machine.l1 import L1, Failure, Outcome
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.ways import Way


class LoadCounters(Admission):
    """Counts, by program counter, lines that went unused against uses of lines."""

    def __init__(self, l1: L1, stalls: frozenset[Failure], policy: ABYP) -> None:
        super().__init__(l1, stalls)
        self._policy = policy
        self._counters = [0] * policy.entries
        l1.on_evict.append(self._evicted)

    def _load(self, transaction: Transaction) -> Outcome | Failure:
        counter = self._counters[self._number_of(transaction)]
        if counter >= self._policy.threshold and self._l1.absent(transaction.line):
            return self._l1.bypass(transaction)
        return super()._load(transaction)

    def _served(self, transaction: Transaction, outcome: Outcome, *, absent: bool) -> None:
        if outcome in ("hit", "pending"):
            brought_by = self._l1.brought_by(transaction.line)
            if brought_by is not None:
                self._add(brought_by, -1)

    def _evicted(self, way: Way) -> None:
        if way.load is not None and not way.found:
            self._add(way.load, 1)

    def _add(self, load: Transaction, step: int) -> None:
        number = self._number_of(load)
        self._counters[number] = min(max(self._counters[number] + step, 0), self._policy.most)

    def _number_of(self, load: Transaction) -> int:
        return load.instruction.pc % self._policy.entries
