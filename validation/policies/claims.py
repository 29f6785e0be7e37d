"""Look up the recorded runs that the papers' claims are checked against, and average over kernels."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from validation.policies.measure import NONE, Measurement, group
from validation.policies.patterns import Pattern

HELPS = 1.05
"""Least mean speedup of kernels that a policy helps."""

HARMS = 0.99
"""Least relative speed of a kernel that a policy does not harm."""


class Counters:
    """Measurements and patterns by machine, group, kernel and policies."""

    def __init__(self, measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> None:
        self._measurements = {(one.machine, one.group, one.kernel, one.policies): one for one in measurements}
        self._patterns = {(one.machine, one.group, one.kernel, one.policies): one for one in patterns}

    def get(self, machine: str, of: str, kernel: str, policies: str = NONE) -> Measurement:
        """Return the measurement of one kernel."""
        return self._measurements[machine, of, kernel, policies]

    def of(self, machine: str, of: str, policies: str = NONE) -> list[Measurement]:
        """Return the measurements of a group, in its order."""
        return [self.get(machine, of, kernel, policies) for kernel in group(of)]

    def faster(self, machine: str, of: str, policies: str, over: str = NONE) -> list[float]:
        """Return the speedups of the kernels of a group under policies over other policies."""
        pairs = zip(self.of(machine, of, over), self.of(machine, of, policies), strict=True)
        return [before.cycles / after.cycles for before, after in pairs]

    def patterns(self, machine: str, of: str, policies: str = NONE) -> list[Pattern]:
        """Return the patterns of a group, in its order."""
        return [self._patterns[machine, of, kernel, policies] for kernel in group(of)]


def mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean, as Wang et al. and Jia et al. do."""
    return statistics.geometric_mean(numbers)


def harmonic(numbers: Sequence[float]) -> float:
    """Return the harmonic mean, as Khairy et al. do."""
    return statistics.harmonic_mean(numbers)


def rank_correlation(ones: Sequence[float], others: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal numbers share the mean of their ranks."""
    return statistics.correlation(_ranks(ones), _ranks(others))


def _ranks(numbers: Sequence[float]) -> list[float]:
    return [sum((other < one) + (other <= one) for other in numbers) / 2 for one in numbers]
