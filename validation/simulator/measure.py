"""Simulate the runs in which the papers' behaviours are sought, and record their counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tracegen
from rdmodel.simulator.simulate import simulate
from validation.common import records
from validation.common.measurement import FAILURE_TYPES, SimulatedCounters
from validation.simulator.scenarios import FOLDER, make_gpu, settings, suite

MEASURED = FOLDER / "behaviours.csv"

SUITE = "suite"
"""Name of the sizes that the suite gives its kernels."""


@dataclass(frozen=True, slots=True)
class Run:
    """One kernel on one machine of ``scenarios.toml``, with the sizes of the suite or other named sizes."""

    machine: str
    kernel: str
    sizes: str


@dataclass(frozen=True, slots=True)
class Measurement(SimulatedCounters):
    """Counters of one simulated run."""

    machine: str
    kernel: str
    sizes: str
    instructions: int
    cycles: int
    loads: int
    compulsory: int
    capacity: int
    associativity: int
    line_alloc: int
    mshr_entry: int
    mshr_merge: int
    miss_queue: int
    intra_warp: int
    cross_warp_intra_block: int
    cross_block: int
    sms: int

    @property
    def evictions(self) -> int:
        """Evictions of valid lines."""
        return self.intra_warp + self.cross_warp_intra_block + self.cross_block

    @property
    def failure_rates(self) -> dict[str, float]:
        """Reservation failures per 1000 cycles of an SM, by type."""
        return {name: 1000 * count / (self.cycles * self.sms) for name, count in self.failures.items()}

    @property
    def most_failed(self) -> str:
        """The most frequent type of reservation failure; empty if there was none."""
        most = max(FAILURE_TYPES, key=self.failures.__getitem__)
        return most if self.failures[most] else ""

    def share(self, count: int) -> float:
        """Return a count in percent of the loads."""
        return 100 * count / self.loads


def group(name: str) -> tuple[str, ...]:
    """Return the kernels of a group of ``scenarios.toml``."""
    return tuple(settings()["behaviours"]["groups"][name])


def runs() -> list[Run]:
    """Return all runs, each once, in the order of ``scenarios.toml``."""
    found = [
        Run(machine, kernel, one.get("sizes", SUITE))
        for one in settings()["behaviours"]["run"]
        for machine in one["machines"]
        for kernel in ([k for name in one["groups"] for k in group(name)] if "groups" in one else suite())
    ]
    return list(dict.fromkeys(found))


def measure(run: Run) -> Measurement:
    """Simulate one run and return its counters."""
    behaviours = settings()["behaviours"]
    machine = behaviours["machines"][run.machine]
    sizes: Mapping[str, Any] = (suite() if run.sizes == SUITE else behaviours["sizes"][run.sizes])[run.kernel]
    simulation = simulate(
        tracegen.kernel(run.kernel, **sizes),
        make_gpu(machine["preset"], machine.get("overrides", {}), run.machine),
    )
    groups = (simulation.misses, simulation.reservation_fails, simulation.contention)
    counts: dict[str, Any] = {name: int(count) for group in groups for name, count in asdict(group).items()}
    own: dict[str, Any] = {name: int(getattr(simulation, name)) for name in ("instructions", "cycles", "loads", "sms")}
    return Measurement(**asdict(run), **counts, **own)


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    return records.to_csv(Measurement, measurements)


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return records.from_csv(Measurement, text)
