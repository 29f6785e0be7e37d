"""What a claim of a paper is, and the record that it is held against."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from validation.policies.measure import NONE, Measurement, group
from validation.policies.patterns import Pattern

HELPS = 1.05
"""What helps kernels makes them at least this many times as fast, on average."""

HARMS = 0.99
"""What does no harm leaves at least this much of the speed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper: where it is, what it says, what was measured, and if it holds."""

    where: str
    says: str
    measured: str
    holds: bool


class Counters:
    """Measurements, and what is known of lines, by machine, group, kernel and policies."""

    def __init__(self, measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> None:
        self._found = {(one.machine, one.group, one.kernel, one.policies): one for one in measurements}
        self._patterns = {(one.machine, one.group, one.kernel, one.policies): one for one in patterns}

    def get(self, machine: str, of: str, kernel: str, policies: str = NONE) -> Measurement:
        """Return one of them."""
        return self._found[machine, of, kernel, policies]

    def of(self, machine: str, of: str, policies: str = NONE) -> list[Measurement]:
        """Return those of a group, in its order."""
        return [self.get(machine, of, kernel, policies) for kernel in group(of)]

    def faster(self, machine: str, of: str, policies: str, over: str = NONE) -> list[float]:
        """Return how many times faster the kernels of a group are under policies than under others."""
        pairs = zip(self.of(machine, of, over), self.of(machine, of, policies), strict=True)
        return [before.cycles / after.cycles for before, after in pairs]

    def patterns(self, machine: str, of: str, policies: str = NONE) -> list[Pattern]:
        """Return what is known of the lines of a group, in its order."""
        return [self._patterns[machine, of, kernel, policies] for kernel in group(of)]


def values(kernels: Iterable[str], numbers: Iterable[float], form: str = ".2f") -> str:
    """Return numbers with the kernels that they belong to, in words."""
    return ", ".join(f"{kernel} {number:{form}}" for kernel, number in zip(kernels, numbers, strict=True))


def mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean, as Wang et al. and Jia et al. do."""
    return statistics.geometric_mean(numbers)


def harmonic(numbers: Sequence[float]) -> float:
    """Return the harmonic mean, as Khairy et al. do."""
    return statistics.harmonic_mean(numbers)


def rank_correlation(ones: Sequence[float], others: Sequence[float]) -> float:
    """Return Spearman's correlation: that of the ranks, equal numbers sharing the mean of theirs."""
    return statistics.correlation(_ranks(ones), _ranks(others))


def _ranks(numbers: Sequence[float]) -> list[float]:
    return [sum((other < one) + (other <= one) for other in numbers) / 2 for one in numbers]
