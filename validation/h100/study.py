"""Predict the counters of the measured launches, and read those that were measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rdmodel as rd
from rdmodel import presets
from validation.common import records
from validation.counters.study import COUNTERS, by_words
from validation.h100.cases import FOLDER, GPU, Case

LOOKUPS = ("", "_lookup_hit", "_lookup_miss")

CARVEOUT = "launch__shared_mem_config_size"
"""The memory of an SM that the driver has given to shared memory, in bytes."""

METRICS = (
    *(f"l1tex__t_{each}_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st") for each in ("requests", "sectors")),
    *(metric for metric in COUNTERS.values() if metric.startswith(("l1tex", "dram"))),
    *(f"lts__t_sectors_srcunit_tex_op_{op}{end}.sum" for op in ("read", "write") for end in LOOKUPS),
    *(f"l1tex__data_{each}.sum" for each in ("pipe_lsu_wavefronts", "pipe_lsu_wavefronts_mem_shared")),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__inst_executed.sum",
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    CARVEOUT,
)
"""The metrics that are measured: the value of the profiler's option ``--metrics``, with commas."""

MEASURED, PREDICTED = FOLDER / "measured.csv", FOLDER / "predicted.csv"


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured metric of a case, by its name in Nsight Compute."""

    case: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted counter of a case, by the words of `validation.counters`."""

    case: str
    counter: str
    value: float


def read_measured() -> dict[str, dict[str, float]]:
    """Return the measured metrics of each case."""
    found: dict[str, dict[str, float]] = {}
    for row in records.from_csv(Measured, MEASURED.read_text()):
        found.setdefault(row.case, {})[row.metric] = row.value
    return found


def read_predicted() -> list[Predicted]:
    """Return the recorded predictions."""
    return records.from_csv(Predicted, PREDICTED.read_text())


def read_profile(report: Path, cases: list[str]) -> list[Measured]:
    """Return the metrics of a report of Nsight Compute, whose launches are these cases, in order."""
    found = rd.read_ncu(report)
    if len(found) != len(cases):
        raise rd.ConfigError(f"{report}: has {len(found)} launches, and the plan has {len(cases)}")
    return [
        Measured(case, metric, value)
        for case, launch in zip(cases, found, strict=True)
        for metric in METRICS
        if (value := launch.metrics.get(metric)) is not None
    ]


def gpu_of(case: Case) -> rd.GPU:
    """Return the GPU with the carve-out that was measured in a case."""
    gpu = presets.gpu(GPU)
    return gpu.replace(l1=gpu.l1.with_carveout(int(read_measured()[case.name][CARVEOUT])))


def predict(case: Case) -> list[Predicted]:
    """Return the counters that the model predicts for the whole grid of a case."""
    found = rd.predict(case.trace(), gpu_of(case), model_sms="all", threads=None, histogram=False, l2=True)
    words = by_words(found.metrics())
    return [Predicted(case.name, counter, float(words[counter])) for counter in COUNTERS]
