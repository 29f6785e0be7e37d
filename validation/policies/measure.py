"""Simulate kernels under policies, and record the counters of the runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from rdmodel import presets
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.policies.combinations import Combination, combination
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.jitter import vary
from rdmodel.simulator.simulate import simulate_launches
from rdmodel.trace import Columns, Program, Trace
from rdmodel.trace.expansion import expand
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

NO_PARAMETERS = ("blocks", "rounds")
"""Keys of a kernel in ``scenarios.toml`` that are not its parameters."""


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


def make_launches(case: Case) -> list[Trace]:
    """Return the launches of a case: one, or rounds of several kernels, whose rounds are numbered by a parameter."""
    sizes = {name: value for name, value in _sizes(case).items() if name not in NO_PARAMETERS}
    rounds = _sizes(case).get("rounds")
    if rounds is None:
        return [_kernel(case.kernel, sizes)]
    numbered = ({**sizes, rounds["parameter"]: number} for number in range(rounds["count"]))
    return [_kernel(kernel, given) for given in numbered for kernel in rounds["kernels"]]


def _sizes(case: Case) -> dict[str, Any]:
    return dict(settings()["groups"][case.group][case.kernel])


def _kernel(name: str, sizes: Mapping[str, Any]) -> Trace:
    return _keep_blocks(tracegen.kernel(name, **sizes))


def _keep_blocks(trace: Trace) -> Trace:
    """Keep the blocks of a trace: every run reads the same ones, and making them can take longer than the run.

    Kernels that diverge keep only the addresses of active lanes.
    """
    make, warps = trace.block, trace.launch.block_warps

    @cache
    def block(number: int) -> Columns | Program:
        made = make(number)
        if isinstance(made, Columns):
            return made
        lanes = sum(segment.base.size for segment in made)
        active = sum(segment.trips * int(np.bitwise_count(segment.mask).sum()) for segment in made)
        return expand(made, warps) if active < lanes else made

    trace.block = block  # type: ignore[method-assign]
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
    return {"blocks": _sizes(case).get("blocks"), **{name: machine[name] for name in OPTIONS if name in machine}}


def measure(
    case: Case, names: Sequence[str] | None = None, variants: Iterable[int] = (0,)
) -> dict[int, list[Measurement]]:
    """Simulate variants of a case under combinations of policies; None takes those of ``scenarios.toml``."""
    launches = make_launches(case)
    plain = make_gpu(case, combination(NONE))
    found = {}
    for variant in variants:
        moved = launches if variant == 0 else [_keep_blocks(vary(one, plain, variant)[0]) for one in launches]
        found[variant] = [
            _simulate(case, combination(name), moved, variant) for name in (cases()[case] if names is None else names)
        ]
    return found


def _simulate(case: Case, policies: Combination, launches: Sequence[Trace], variant: int) -> Measurement:
    _, gpu = vary(launches[0], make_gpu(case, policies), variant)
    runs = simulate_launches(launches, gpu, policies=policies.policies, **run_options(case))
    return Measurement(
        machine=case.machine,
        group=case.group,
        kernel=case.kernel,
        policies=policies.name,
        variant=variant,
        found=next((value for run in runs for value in run.found.values()), -1),
        **{name: sum(count(run) for run in runs) for name, count in COUNTERS.items()},
    )


COUNTERS: dict[str, Callable[[Simulation], int]] = {
    "instructions": lambda run: run.instructions,
    "cycles": lambda run: run.cycles,
    "loads": lambda run: int(run.loads),
    "bypassed": lambda run: run.bypassed,
    "compulsory": lambda run: int(run.misses.compulsory),
    "capacity": lambda run: int(run.misses.capacity),
    "associativity": lambda run: int(run.misses.associativity),
    "line_alloc": lambda run: run.reservation_fails.line_alloc,
    "mshr_entry": lambda run: run.reservation_fails.mshr_entry,
    "mshr_merge": lambda run: run.reservation_fails.mshr_merge,
    "miss_queue": lambda run: run.reservation_fails.miss_queue,
    "answers": lambda run: run.traffic.response_messages,
    "answer_bytes": lambda run: run.traffic.response_bytes,
}
"""Counters of a measurement, which add up over launches."""


def measure_all(jobs: int, variants: int = 1) -> list[Measurement]:
    """Return all measurements of the first `variants` in order, from several processes."""
    numbers = range(variants)
    found = list(records.run_all(partial(measure, variants=numbers), list(cases()), jobs))
    return [one for number in numbers for of_case in found for one in of_case[number]]


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    return records.to_csv(Measurement, measurements)


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    return records.from_csv(Measurement, text)
