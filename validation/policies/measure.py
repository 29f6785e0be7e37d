"""Runs of the simulator under policies, and the record of their counters."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.policies.combinations import Combination, combination
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace
from validation import record

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "results.csv"

NONE = "none"
"""The combination without policies."""

OPTIONS = ("sms", "sched", "memory")
"""What a machine of the file may say besides its preset and what it overrides: options of `simulate`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel of a group on a machine; both as the file of scenarios has them."""

    machine: str
    group: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the simulator counted in a run; `found` is what a policy found, -1 where none found anything."""

    machine: str
    group: str
    kernel: str
    policies: str
    instructions: int
    cycles: int
    loads: int
    bypassed: int
    compulsory: int
    capacity: int
    associativity: int
    line_alloc: int
    mshr_entry: int
    mshr_merge: int
    miss_queue: int
    answers: int
    found: int

    @property
    def misses(self) -> int:
        """All misses."""
        return self.compulsory + self.capacity + self.associativity

    @property
    def mpki(self) -> float:
        """Misses per 1000 thread instructions."""
        return 1000 * self.misses / self.instructions

    @property
    def fails(self) -> int:
        """All reservation failures."""
        return self.line_alloc + self.mshr_entry + self.mshr_merge + self.miss_queue


@cache
def settings() -> dict[str, Any]:
    """Return the file of scenarios, as it is."""
    return tomllib.loads((FOLDER / "scenarios.toml").read_text())


def group(name: str) -> tuple[str, ...]:
    """Return the kernels of a group of the file."""
    return tuple(settings()["groups"][name])


def cases(of: str = "run") -> dict[Case, list[str]]:
    """Return what is run: the policies of every case, each once, in the order of the file."""
    found: dict[Case, list[str]] = {}
    for one in settings()[of]:
        for case in (Case(m, g, k) for m in one["machines"] for g in one["groups"] for k in group(g)):
            known = found.setdefault(case, [])
            known += [name for name in one["policies"] if name not in known]
    return found


def make_trace(case: Case) -> Trace:
    """Return the trace of a case's kernel."""
    sizes = dict(settings()["groups"][case.group][case.kernel])
    sizes.pop("blocks", None)
    trace = tracegen.kernel(case.kernel, **sizes)
    # Every run asks for the same blocks, and to make them can take longer than the run.
    trace.block = cache(trace.block)  # type: ignore[method-assign]
    return trace


def make_gpu(case: Case, policies: Combination) -> GPU:
    """Return the GPU of a case, with the index function of a combination of policies."""
    machine = settings()["machines"][case.machine]
    overrides = {**machine.get("overrides", {}), "name": case.machine}
    if policies.index is not None:
        overrides["l1.index"] = policies.index.name
    return override(presets.gpu(machine["preset"]), overrides)


def run_options(case: Case) -> dict[str, Any]:
    """Return the options of `simulate` that a case's machine and kernel have."""
    machine = settings()["machines"][case.machine]
    blocks = settings()["groups"][case.group][case.kernel].get("blocks")
    return {"blocks": blocks, **{name: machine[name] for name in OPTIONS if name in machine}}


def measure(case: Case, names: Sequence[str] | None = None) -> list[Measurement]:
    """Simulate a case under combinations of policies; None for those of the file."""
    trace = make_trace(case)
    found = []
    for name in cases()[case] if names is None else names:
        one = combination(name)
        run = simulate(trace, make_gpu(case, one), policies=one.policies, **run_options(case))
        found.append(_measurement(case, name, run))
    return found


def _measurement(case: Case, name: str, run: Simulation) -> Measurement:
    fails = run.reservation_fails
    return Measurement(
        machine=case.machine,
        group=case.group,
        kernel=case.kernel,
        policies=name,
        instructions=run.instructions,
        cycles=run.cycles,
        loads=int(run.loads),
        bypassed=run.bypassed,
        compulsory=int(run.misses.compulsory),
        capacity=int(run.misses.capacity),
        associativity=int(run.misses.associativity),
        line_alloc=fails.line_alloc,
        mshr_entry=fails.mshr_entry,
        mshr_merge=fails.mshr_merge,
        miss_queue=fails.miss_queue,
        answers=run.traffic.response_messages,
        found=next(iter(run.found.values()), -1),
    )


def measure_all(jobs: int) -> list[Measurement]:
    """Return all measurements in order, from several processes."""
    return [one for found in record.run_all(measure, list(cases()), jobs) for one in found]


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    return record.to_csv(Measurement, measurements)


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return record.from_csv(Measurement, text)
