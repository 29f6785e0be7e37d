"""Implement ``pdp`` in the reference machine: protection for a distance that follows sampled reuse distances."""

from __future__ import annotations

from collections import Counter

from rdmodel.policies import PD, PDP
from rdmodel.reference.machine.admission import DistanceProtection
from rdmodel.reference.machine.l1 import L1, L1Failure, L1Outcome
from rdmodel.reference.machine.messages import Transaction


class SampledDistanceProtection(DistanceProtection):
    """``pdp``: protect lines as ``pd`` does, and choose the distance anew after each period."""

    def __init__(self, l1: L1, stalls: frozenset[L1Failure], policy: PDP, *, allocate_on_miss: bool) -> None:
        start = PD(distance=1)
        super().__init__(l1, stalls, start, allocate_on_miss=allocate_on_miss, longest=policy.most)
        self._sampling = policy
        self._lines: dict[int, list[int]] = {}  # of the loads of each sampled set, the last one first
        self._start_period()

    def _start_period(self) -> None:
        self._reuses: Counter[int] = Counter()  # loads by their distance from the load of the same line before
        self._sampled = 0

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        super()._on_load(transaction, outcome, absent=absent)
        index = self._l1.set_of(transaction.line)
        if index % self._sampling.every:
            return
        lines = self._lines.setdefault(index, [])
        if transaction.line in lines:
            self._reuses[lines.index(transaction.line) + 1] += 1
        lines.insert(0, transaction.line)
        del lines[self._sampling.most :]
        self._sampled += 1

    def end_cycle(self, now: int, instructions: int) -> None:
        """Choose the distance at the end of a period."""
        if (now + 1) % self._sampling.period or not self._sampled:
            return
        rates = {distance: self._hits_per_place(distance) for distance in range(1, self._sampling.most + 1)}
        best = max(rates, key=lambda distance: rates[distance])  # the first of equals
        self._distance = best if rates[best] else 1
        self._start_period()

    def _hits_per_place(self, distance: int) -> float:
        """Return the hits that a distance promises, relative to the loads during which lines occupy ways for them."""
        near = {reuse: count for reuse, count in self._reuses.items() if reuse <= distance}
        hits = sum(near.values())
        occupied = sum(reuse * count for reuse, count in near.items())
        others = (self._sampled - hits) * (distance + len(self._l1.ways.of_set(0)))
        return hits / (occupied + others) if hits else 0.0
