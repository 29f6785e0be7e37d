"""Simulate kernels under policies, and record the counters of the runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.policies.combinations import Combination, combination
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.jitter import vary
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace
from validation.common import records
from validation.common.measurement import SimulatedCounters

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "results.csv"
VARIED = FOLDER / "variants.csv"

VARIANTS = 5
"""Variants of every run; ``results.csv`` has the first one, without changes, and ``variants.csv`` the others."""

NONE = "none"
"""The combination without policies."""

OPTIONS = ("sms", "sched", "memory")
"""Options of `simulate` that a machine in ``scenarios.toml`` may have beside its preset and overrides."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel of a group on one machine of ``scenarios.toml``."""

    machine: str
    group: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Measurement(SimulatedCounters):
    """Counters of one simulated run; `found` is the limit that a policy found, or -1 without such a policy.

    `variant` numbers runs with other latencies and addresses (`rdmodel.simulator.jitter`); 0 is the run as it is.
    """

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
    answer_bytes: int
    found: int
    variant: int = 0


@cache
def settings() -> dict[str, Any]:
    """Return the contents of ``scenarios.toml``."""
    return tomllib.loads((FOLDER / "scenarios.toml").read_text())


def group(name: str) -> tuple[str, ...]:
    """Return the kernels of a group of ``scenarios.toml``."""
    return tuple(settings()["groups"][name])


def cases(of: str = "run") -> dict[Case, list[str]]:
    """Return the policies of every case, each once, in the order of ``scenarios.toml``."""
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
    # Every run reads the same blocks. Making them can take longer than the run.
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
    """Return the options of `simulate` for the machine and the kernel of a case."""
    machine = settings()["machines"][case.machine]
    blocks = settings()["groups"][case.group][case.kernel].get("blocks")
    return {"blocks": blocks, **{name: machine[name] for name in OPTIONS if name in machine}}


def measure(case: Case, names: Sequence[str] | None = None, variant: int = 0) -> list[Measurement]:
    """Simulate a variant of a case under combinations of policies; None takes those of ``scenarios.toml``."""
    trace = make_trace(case)
    found = []
    for name in cases()[case] if names is None else names:
        one = combination(name)
        moved, gpu = vary(trace, make_gpu(case, one), variant)
        run = simulate(moved, gpu, policies=one.policies, **run_options(case))
        found.append(_measurement(case, name, run, variant))
    return found


def _measurement(case: Case, name: str, run: Simulation, variant: int) -> Measurement:
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
        answer_bytes=run.traffic.response_bytes,
        found=next(iter(run.found.values()), -1),
        variant=variant,
    )


def measure_all(jobs: int, variant: int = 0) -> list[Measurement]:
    """Return all measurements of a variant in order, from several processes."""
    return [one for found in records.run_all(partial(measure, variant=variant), list(cases()), jobs) for one in found]


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    return records.to_csv(Measurement, measurements)


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return records.from_csv(Measurement, text)
