"""Runs of the simulator that the papers' behaviours are looked for in, and the record of their counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tracegen
from rdmodel.simulator.simulate import simulate
from validation import record
from validation.simulator.scenarios import FOLDER, make_gpu, settings, suite

MEASURED = FOLDER / "behaviours.csv"

SUITE = "suite"
"""The name of the sizes that the suite has."""

FAILS = ("line_alloc", "mshr_entry", "mshr_merge", "miss_queue")


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel on a machine of the file, with the sizes of the suite or others that the file names."""

    machine: str
    kernel: str
    sizes: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the simulator counted in a run."""

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
    def misses(self) -> int:
        """All misses."""
        return self.compulsory + self.capacity + self.associativity

    @property
    def mpki(self) -> float:
        """Misses per 1000 thread instructions."""
        return 1000 * self.misses / self.instructions

    @property
    def evictions(self) -> int:
        """Evictions of valid lines."""
        return self.intra_warp + self.cross_warp_intra_block + self.cross_block

    @property
    def fails(self) -> dict[str, float]:
        """Reservation failures per 1000 cycles of an SM, by type."""
        return {name: 1000 * int(getattr(self, name)) / (self.cycles * self.sms) for name in FAILS}

    @property
    def most_failed(self) -> str:
        """What failed most often; empty if nothing did."""
        most = max(FAILS, key=lambda name: int(getattr(self, name)))
        return most if getattr(self, most) else ""

    def share(self, count: int) -> float:
        """Return a count in percent of the loads."""
        return 100 * count / self.loads


def group(name: str) -> tuple[str, ...]:
    """Return the kernels of a group of the file."""
    return tuple(settings()["behaviours"]["groups"][name])


def runs() -> list[Run]:
    """Return all runs, each once, in the order of the file."""
    found = [
        Run(machine, kernel, one.get("sizes", SUITE))
        for one in settings()["behaviours"]["run"]
        for machine in one["machines"]
        for kernel in ([k for name in one["groups"] for k in group(name)] if "groups" in one else suite())
    ]
    return list(dict.fromkeys(found))


def measure(run: Run) -> Measurement:
    """Simulate a run."""
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
    return record.to_csv(Measurement, measurements)


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return record.from_csv(Measurement, text)
