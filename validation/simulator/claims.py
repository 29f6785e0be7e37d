"""What a claim of a paper is, and the counters that it is held against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from validation.simulator.measure import SUITE, Measurement
from validation.simulator.scenarios import settings

GONE = 0.1
"""What is left of something that is gone, at most."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper: where it is, what it says, what was measured, and if it holds."""

    where: str
    says: str
    measured: str
    holds: bool


class Counters:
    """Measurements by machine, kernel and sizes."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._found = {(one.machine, one.kernel, one.sizes): one for one in measurements}

    def get(self, machine: str, kernel: str, sizes: str = SUITE) -> Measurement:
        """Return one of them."""
        return self._found[machine, kernel, sizes]

    def of(self, machine: str, kernels: Iterable[str], sizes: str = SUITE) -> list[Measurement]:
        """Return those of several kernels."""
        return [self.get(machine, kernel, sizes) for kernel in kernels]

    def speedups(self, machine: str, over: str, kernels: Iterable[str], sizes: str = SUITE) -> list[float]:
        """Return how many times faster kernels are on `machine` than on another."""
        return [self.get(over, k, sizes).cycles / self.get(machine, k, sizes).cycles for k in kernels]


def contention(one: Measurement) -> str:
    """Return "conflict", "thrashing", or "" where a large cache would not save much."""
    if one.share(one.associativity + one.capacity) < settings()["behaviours"]["contended"]:
        return ""
    return "conflict" if one.associativity > one.capacity else "thrashing"


def values(kernels: Sequence[str], numbers: Iterable[float], form: str = ".1f") -> str:
    """Return numbers with the kernels that they belong to, in words."""
    return ", ".join(f"{kernel} {number:{form}}" for kernel, number in zip(kernels, numbers, strict=True))


def most_failed(found: Iterable[Measurement]) -> str:
    """Return what failed most often in each of several kernels, in words."""
    return ", ".join(f"{one.kernel} {one.most_failed or 'none'}" for one in found)
