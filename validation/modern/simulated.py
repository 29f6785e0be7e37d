"""Compare the model with the simulator on GPUs since Volta, as the presets are and with a linear set index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import tracegen
from rdmodel import predict, presets
from rdmodel.comparison.compare import compare
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.gpu.latency import unloaded_latency
from rdmodel.model.machine_options import LATENCY_SIGMA_STEPS, matching_options
from rdmodel.policies import Linear
from tracegen.kernel_library.suites import SUITES
from validation.common import records

FOLDER = Path(__file__).parent
ROWS = FOLDER / "simulated.csv"
RESULTS = FOLDER / "RESULTS-simulator.md"

GPUS = ("v100", "t4", "rtx2080ti", "rtx3070", "rtx3090", "a100-80g", "h100-sxm")
"""Presets that are compared."""

SMALLER: Mapping[str, Mapping[str, int]] = {
    "corr.corr": {"M": 512, "N": 64},
    "covar.covar": {"M": 512, "N": 64},
    "syr2k": {"N": 256, "M": 64},
    "syrk": {"N": 256, "M": 64},
}
"""Sizes of kernels that take most of the time in the sizes of the suite."""

KERNELS: Mapping[str, Mapping[str, Any]] = {**SUITES["polybench"], **SMALLER}
"""Sizes of the kernels by name."""

INDICES = ("preset", "linear")
"""Set indices of both sides: that of the preset, and the low bits of the line where the preset has another one."""

LATENCIES = ("own", "idle", "preset", "loaded")
"""Latencies of the model; the rows of the page have the errors with the first.

Those of the simulated kernel: at least those of the idle machine, with the spread that gives their mean. Those of the
idle machine, with the small spread that other comparisons take (`rdmodel.model.machine_options`). Those of the preset,
which are a GPU's. Those fitted to the loaded machine (`rdmodel calibrate`).
"""

DIGITS = 4
"""Decimal places of a recorded rate in percent."""

FAR = 3.0
"""Points of error beyond which a row is listed, and has its cause in docs/accuracy.md."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel on one GPU: miss rates by sector in percent, and the mean latency of a simulated miss in cycles.

    The last fields are rates of the model with each of `LATENCIES`.
    """

    gpu: str
    index: str
    kernel: str
    sectors: int
    cycles: int
    latency: float
    simulated: float
    own: float
    idle: float
    preset: float
    loaded: float

    def error(self, latencies: str = LATENCIES[0]) -> float:
        """Return the predicted minus the simulated miss rate, in points."""
        predicted: float = getattr(self, latencies)
        return predicted - self.simulated


def machine(name: str, index: str) -> GPU:
    """Return a preset with its own or a linear set index of its L1."""
    gpu = presets.gpu(name)
    return gpu if index == "preset" else gpu.replace(l1=replace(gpu.l1, index=Linear()))


def tasks(gpus: Sequence[str], kernels: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the (GPU, index, kernel) of all runs, in the order of the record."""
    chosen = [*kernels]
    return [(gpu, index, kernel) for gpu in gpus for index in _indices(gpu) for kernel in chosen]


def _indices(gpu: str) -> Sequence[str]:
    return INDICES[:1] if isinstance(presets.gpu(gpu).l1.index, Linear) else INDICES


def idle_latency(gpu: GPU) -> LatencyConfig:
    """Return the latencies of the simulated machine when it is idle."""
    return LatencyConfig(lat_min=unloaded_latency(gpu), sigma=LATENCY_SIGMA_STEPS, hit_latency=gpu.core.hit_latency)


def own_latency(gpu: GPU, mean: float) -> LatencyConfig:
    """Return latencies of at least those of the idle machine that have a mean, in cycles."""
    idle = idle_latency(gpu)
    return replace(idle, sigma=max(0.0, mean - idle.lat_min) * math.sqrt(math.pi / 2))


def run(task: tuple[str, str, str]) -> Row:
    """Run one kernel through both sides."""
    name, index, kernel = task
    gpu = machine(name, index)
    trace = tracegen.kernel(kernel, **KERNELS[kernel])
    compared = compare(trace, gpu, definitions=["hardware"], latency=idle_latency(gpu))
    simulation = compared.simulation
    mean = round(simulation.miss_latencies.to_dict()["mean"], 1)
    loaded = presets.gpu(name).calibrated
    assert loaded is not None
    others = {"own": own_latency(gpu, mean), "preset": gpu.latency, "loaded": loaded}
    rates = {
        latencies: predict(
            trace,
            gpu,
            model_sms="all",
            threads=None,
            histogram=False,
            lat_min=latency.lat_min,
            sigma=latency.sigma,
            hit_latency=latency.hit_latency,
            **matching_options(gpu),
        ).miss_rate
        for latencies, latency in others.items()
    }
    return Row(
        gpu=name,
        index=index,
        kernel=kernel,
        sectors=int(simulation.sectors),
        cycles=simulation.cycles,
        latency=mean,
        simulated=round(100 * simulation.miss_rate, DIGITS),
        idle=round(100 * compared.prediction().miss_rate, DIGITS),
        **{latencies: round(100 * rate, DIGITS) for latencies, rate in rates.items()},
    )


def mean_error(rows: Iterable[Row], latencies: str = LATENCIES[0]) -> float:
    """Return the mean absolute error in points."""
    return fmean(abs(row.error(latencies)) for row in rows)


def page(rows: Sequence[Row]) -> str:
    """Return the mean errors by GPU and index, and the rows that are far apart, in Markdown."""
    columns = [f"{index}, {latencies}" for index in INDICES for latencies in LATENCIES]
    lines = [f"| GPU | {' | '.join(columns)} | kernels |", "|---|" + "---:|" * (len(columns) + 1)]
    gpus = dict.fromkeys(row.gpu for row in rows)
    lines += [_means(gpu, [row for row in rows if row.gpu == gpu]) for gpu in gpus]
    lines.append(_means("all", rows))
    lines += [
        "",
        "| kernel | GPU | index | simulated | predicted | error |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: (INDICES.index(row.index), row.kernel)):
        if abs(row.error()) > FAR:
            rates = f"{row.simulated:.2f} % | {row.own:.2f} % | {row.error():+.2f}"
            lines.append(f"| {row.kernel} | {row.gpu} | {row.index} | {rates} |")
    return "\n".join(lines) + "\n"


def _means(name: str, rows: Sequence[Row]) -> str:
    groups = [[row for row in rows if row.index == index] for index in INDICES]
    means = " | ".join(
        f"{mean_error(group, latencies):.2f}" if group else "" for group in groups for latencies in LATENCIES
    )
    return f"| {name} | {means} | {len({row.kernel for row in rows})} |"


def results(rows: Sequence[Row]) -> str:
    """Return the committed page."""
    return (
        "# Model and simulator on GPUs since Volta\n\n"
        "Written by `python -m validation.modern --simulator --record`, with `simulated.csv`, which has all rows: the\n"
        "30 kernels of the suite `polybench`, four of them smaller, on all SMs. The first table has the mean absolute\n"
        "errors of the miss rate by sector in points. The model has the mean latency that the simulated misses of the\n"
        "kernel have (`own`), the latencies of the idle machine (`idle`), those of the preset, or those under load\n"
        f"(`rdmodel calibrate`). The second table has the rows of `own` with more than {FAR:g} points.\n\n"
        f"{page(rows)}"
    )


def write(rows: Sequence[Row]) -> None:
    """Write the committed record: all rows as CSV, and the page of tables."""
    ROWS.write_text(records.to_csv(Row, rows))
    RESULTS.write_text(results(rows))
