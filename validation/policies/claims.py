"""What a claim of a paper is, and the counters that it is held against."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from validation.policies.measure import NONE, Measurement, group


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper: where it is, what it says, what was measured, and if it holds."""

    where: str
    says: str
    measured: str
    holds: bool


class Counters:
    """Measurements by machine, group, kernel and policies."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._found = {(one.machine, one.group, one.kernel, one.policies): one for one in measurements}

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


def values(kernels: Iterable[str], numbers: Iterable[float], form: str = ".2f") -> str:
    """Return numbers with the kernels that they belong to, in words."""
    return ", ".join(f"{kernel} {number:{form}}" for kernel, number in zip(kernels, numbers, strict=True))


def mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean, as Wang et al. and Jia et al. do."""
    return statistics.geometric_mean(numbers)


def harmonic(numbers: Sequence[float]) -> float:
    """Return the harmonic mean, as Khairy et al. do."""
    return statistics.harmonic_mean(numbers)
