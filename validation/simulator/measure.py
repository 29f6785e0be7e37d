"""Runs of the simulator that the papers' behaviours are looked for in, and the record of their counters."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import tracegen
from rdmodel.simulator import simulate
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


READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys((field.name for field in fields(Measurement)), int),
    "machine": str,
    "kernel": str,
    "sizes": str,
}
"""How the fields of a measurement are made from texts."""


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
    groups = (
        asdict(run),
        asdict(simulation.misses),
        asdict(simulation.reservation_fails),
        asdict(simulation.contention),
    )
    own = {name: getattr(simulation, name) for name in ("instructions", "cycles", "loads", "sms")}
    return _measurement({**own, **{name: count for group in groups for name, count in group.items()}})


def _measurement(values: Mapping[str, Any]) -> Measurement:
    return Measurement(**{name: read(values[name]) for name, read in READERS.items()})


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Measurement)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in measurements)
    return text.getvalue()


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return [_measurement(line) for line in csv.DictReader(io.StringIO(text))]
