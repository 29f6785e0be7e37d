"""Runs of the simulator under policies, and the record of their counters."""

from __future__ import annotations

import csv
import io
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.contests import combination
from rdmodel.overrides import override
from rdmodel.simulation import Simulation
from rdmodel.simulator import simulate

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "results.csv"

NONE = "none"
"""The combination without policies."""


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


TEXTS = ("machine", "group", "kernel", "policies")


@cache
def settings() -> dict[str, Any]:
    """Return the file of scenarios, as it is."""
    return tomllib.loads((FOLDER / "scenarios.toml").read_text())


def group(name: str) -> tuple[str, ...]:
    """Return the kernels of a group of the file."""
    return tuple(settings()["groups"][name])


def cases() -> dict[Case, list[str]]:
    """Return what is run: the policies of every case, each once, in the order of the file."""
    found: dict[Case, list[str]] = {}
    for one in settings()["run"]:
        for case in (Case(m, g, k) for m in one["machines"] for g in one["groups"] for k in group(g)):
            known = found.setdefault(case, [])
            known += [name for name in one["policies"] if name not in known]
    return found


def measure(case: Case, names: Sequence[str]) -> list[Measurement]:
    """Simulate a case under combinations of policies."""
    machine = settings()["machines"][case.machine]
    sizes = dict(settings()["groups"][case.group][case.kernel])
    options = {"blocks": sizes.pop("blocks", None), "sms": machine.get("sms"), "sched": machine.get("sched")}
    trace = tracegen.kernel(case.kernel, **sizes)
    # Every run asks for the same blocks, and to make them can take longer than the run.
    trace.block = cache(trace.block)  # type: ignore[method-assign]
    found = []
    for name in names:
        one = combination(name)
        overrides = {**machine.get("overrides", {}), "name": case.machine}
        if one.index is not None:
            overrides["l1.index"] = one.index.name
        gpu = override(presets.gpu(machine["preset"]), overrides)
        found.append(_measurement(case, name, simulate(trace, gpu, policies=one.policies, **options)))
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


def measure_all(wanted: Mapping[Case, Sequence[str]], jobs: int) -> Iterator[Measurement]:
    """Yield all measurements in order, from several processes; a person sees on stderr what is done."""
    if jobs == 1:
        done: Iterable[list[Measurement]] = map(measure, wanted, wanted.values())
        yield from (one for found in done for one in found)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for at, found in enumerate(pool.map(measure, wanted, wanted.values()), start=1):
            if sys.stderr.isatty():
                print(f"{at}/{len(wanted)} {found[0].kernel}", file=sys.stderr, flush=True)
            yield from found


READERS: Mapping[str, Callable[[str], Any]] = {f.name: str if f.name in TEXTS else int for f in fields(Measurement)}
"""How the fields of a measurement are made from texts."""


def to_csv(measurements: Iterable[Measurement]) -> str:
    """Return the measurements as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(READERS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in measurements)
    return text.getvalue()


def from_csv(text: str) -> list[Measurement]:
    """Return the measurements that `to_csv` wrote."""
    lines = csv.DictReader(io.StringIO(text))
    return [Measurement(**{name: read(line[name]) for name, read in READERS.items()}) for line in lines]
