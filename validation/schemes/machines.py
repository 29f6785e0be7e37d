"""Run the contests of all schemes on parts of GPUs, and record their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.answers.store import Answers
from rdmodel.common.progress import Progress
from rdmodel.contests.contest import Contest, contest
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from tracegen.kernel_library.suites import SUITES
from validation.common import records

FOLDER = Path(__file__).parent
SUITE = "sensitive"

SMS = 4
"""Modelled SMs of each GPU."""

VARIANTS = 3
"""Variants of every run, with other latencies and addresses (`rdmodel.simulator.jitter`)."""

GREEDY = "sched=gto"
"""Name of the runs without policies, but with the scheduler `gto`."""

SLICES = {"gtx480-khairy": 2, "a100-80g": 4, "h100": 4}
"""Slices of the L2 by GPU: at least the share of the modelled SMs, and equally many in each partition."""

EARLIER = ("a100-80g", "h100")
"""GPUs whose runs were recorded before their presets had pools and protected lines in the L1 (docs/schemes.md)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One simulated run: its cycles, and the share of the loads that the L1 answered (`Simulation.hit_rate`)."""

    gpu: str
    kernel: str
    policies: str
    variant: int
    cycles: int
    hit_rate: float


def record_of(gpu: str) -> Path:
    """Return the file with the runs of a GPU."""
    return FOLDER / f"{gpu}.csv"


def part_of(gpu: str) -> GPU:
    """Return a preset with the slices of the modelled SMs."""
    return override(presets.gpu(gpu), {"l2.slices": SLICES[gpu]})


def run_contest(gpu: str, jobs: int, answers: Answers | None, progress: Progress | None = None) -> Contest:
    """Run the suite under all combinations of policies, with the scheduler of the preset."""
    return _run(gpu, None, jobs, answers, progress)


def run_greedy(gpu: str, jobs: int, answers: Answers | None, progress: Progress | None = None) -> Contest:
    """Run the suite without policies, with the scheduler `gto`."""
    return _run(gpu, [], jobs, answers, progress, sched="gto")


def _run(
    gpu: str,
    policies: list[str] | None,
    jobs: int,
    answers: Answers | None,
    progress: Progress | None,
    **options: Any,
) -> Contest:
    sizes: Mapping[str, Mapping[str, Any]] = SUITES[SUITE]
    traces = [tracegen.kernel(kernel, **own) for kernel, own in sizes.items()]
    shared: dict[str, Any] = {"jitter": VARIANTS, "n_jobs": jobs, "answers": answers, "progress": progress}
    return contest(traces, policies, part_of(gpu), sms=SMS, **shared, **options)


def all_runs(gpu: str, result: Contest, greedy: Contest) -> list[Run]:
    """Return the runs of a contest and, as those of `GREEDY`, the ones without policies but with another scheduler."""
    return [*runs_of(gpu, result), *(replace(run, policies=GREEDY) for run in runs_of(gpu, greedy))]


def runs_of(gpu: str, result: Contest) -> Iterator[Run]:
    """Yield the runs of a contest: by kernel, combination and variant."""
    for kernel, alone, varied in zip(result.kernels, result.simulations, result.variants, strict=True):
        for name in result.names:
            for variant, run in sorted({0: alone[name], **varied[name]}.items()):
                yield Run(gpu, kernel, name, variant, run.cycles, round(run.hit_rate, 6))


def write(gpu: str, result: Contest, greedy: Contest) -> None:
    """Renew the record of a GPU."""
    record_of(gpu).write_text(records.to_csv(Run, all_runs(gpu, result, greedy)))


def recorded(gpus: Iterable[str] = SLICES) -> list[Run]:
    """Return the committed runs of some GPUs."""
    return [run for gpu in gpus for run in records.from_csv(Run, record_of(gpu).read_text())]
