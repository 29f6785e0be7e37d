"""Look up the counters that the papers' claims are checked against, and classify the contention of a kernel."""

from __future__ import annotations

from collections.abc import Iterable

from validation.simulator.measure import SUITE, Measurement
from validation.simulator.scenarios import settings


class Counters:
    """Measurements by machine, kernel and sizes."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._found = {(one.machine, one.kernel, one.sizes): one for one in measurements}

    def get(self, machine: str, kernel: str, sizes: str = SUITE) -> Measurement:
        """Return the measurement of one kernel."""
        return self._found[machine, kernel, sizes]

    def of(self, machine: str, kernels: Iterable[str], sizes: str = SUITE) -> list[Measurement]:
        """Return the measurements of several kernels."""
        return [self.get(machine, kernel, sizes) for kernel in kernels]

    def speedups(self, machine: str, over: str, kernels: Iterable[str], sizes: str = SUITE) -> list[float]:
        """Return the speedups of kernels on `machine` over another machine."""
        return [self.get(over, k, sizes).cycles / self.get(machine, k, sizes).cycles for k in kernels]


def contention(one: Measurement) -> str:
    """Return "conflict", "thrashing", or "" if a large cache would avoid few misses."""
    if one.share(one.associativity + one.capacity) < settings()["behaviours"]["contended"]:
        return ""
    return "conflict" if one.associativity > one.capacity else "thrashing"


def most_failed(found: Iterable[Measurement]) -> str:
    """Return the most frequent reservation failure of each kernel, in words."""
    return ", ".join(f"{one.kernel} {one.most_failed or 'none'}" for one in found)
