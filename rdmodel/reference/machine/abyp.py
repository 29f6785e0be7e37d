"""Implement ``abyp`` in the reference machine: loads whose lines are not used again bypass the L1."""

from __future__ import annotations

from rdmodel.policies import ABYP
from rdmodel.reference.machine.admission import Admission
from rdmodel.reference.machine.l1 import L1, L1Failure, L1Outcome
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.ways import Way


class LoadCounters(Admission):
    """Admission by a saturating counter per load: up for each line evicted without a reuse, down for each reuse.

    Loads share a counter if their program counters are equal modulo `entries`.
    """

    def __init__(self, l1: L1, stalls: frozenset[L1Failure], policy: ABYP) -> None:
        super().__init__(l1, stalls)
        self._policy = policy
        self._counters = [0] * policy.entries
        l1.on_evict.append(self._on_evict)

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        counter = self._counters[self._number_of(transaction)]
        if counter >= self._policy.threshold and self._l1.is_absent(transaction.line):
            return self._l1.bypass(transaction)
        return super()._load(transaction)

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        if not absent and outcome != "bypassed":
            load = self._l1.bringing_load(transaction.line)
            if load is not None:
                self._add(load, -1)

    def _on_evict(self, way: Way) -> None:
        if way.load is not None and not way.reuses:
            self._add(way.load, 1)

    def _add(self, load: Transaction, step: int) -> None:
        number = self._number_of(load)
        self._counters[number] = min(max(self._counters[number] + step, 0), self._policy.most)

    def _number_of(self, load: Transaction) -> int:
        return load.instruction.pc % self._policy.entries
