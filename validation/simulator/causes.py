"""Experiments that show why the model differs from the simulator: one thing is taken away, and the error goes with it.

Each experiment of ``scenarios.toml`` changes the machine or what is simulated, and gives the model latencies that have
the mean and the standard deviation of those that the kernel then meets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import tracegen
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.machine_options import matching_options
from rdmodel.model.predict import predict
from rdmodel.results.simulation import MissLatencies
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace
from validation.common import records
from validation.simulator.scenarios import DIGITS, FOLDER, scenarios, settings, suite

CAUSES = FOLDER / "causes.csv"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Miss rates in percent of an experiment; the model was told that a miss takes `lat_min` + |N(0, `sigma`)|."""

    cause: str
    gpu: str
    kernel: str
    lat_min: int
    sigma: float
    simulated: float
    hardware: float


def experiments() -> list[tuple[str, str, str]]:
    """Return (cause, scenario, kernel) of every experiment of the file."""
    return [
        (one["cause"], gpu, kernel)
        for one in settings()["experiment"]
        for gpu, kernels in one["rows"].items()
        for kernel in kernels
    ]


def run(task: tuple[str, str, str]) -> Outcome:
    """Run an experiment."""
    cause, name, kernel = task
    one = next(each for each in settings()["experiment"] if each["cause"] == cause)
    gpu = override(scenarios()[name].gpu, one.get("overrides", {}))
    trace = tracegen.kernel(kernel, **suite()[kernel])
    options: Mapping[str, Any] = one.get("simulate", {})
    simulation = simulate(trace, gpu, **options)
    lat_min, sigma = matched(simulation.miss_latencies)
    hardware = _miss_rate(trace, gpu, lat_min, sigma)
    return Outcome(cause, name, kernel, lat_min, sigma, round(100 * simulation.miss_rate, DIGITS), hardware)


def matched(latencies: MissLatencies) -> tuple[int, float]:
    """Return `lat_min` and `sigma` of the half-normal distribution with the same mean and standard deviation."""
    mean = latencies.mean
    variance = float(latencies.counts @ (latencies.cycles - mean) ** 2) / int(latencies.counts.sum())
    sigma = sqrt(variance / (1 - 2 / pi))
    return max(0, round(mean - sigma * sqrt(2 / pi))), round(sigma, 1)


def _miss_rate(trace: Trace, gpu: GPU, lat_min: int, sigma: float) -> float:
    """Return the miss rate by `hardware`, in percent, with the options of `rdmodel.compare`."""
    prediction = predict(
        trace,
        gpu,
        seed=settings()["seed"],
        model_sms="all",
        threads=None,
        histogram=False,
        lat_min=lat_min,
        sigma=sigma,
        hit_latency=gpu.core.hit_latency,
        **matching_options(gpu),
    )
    return round(100 * prediction.miss_rate, DIGITS)


def to_csv(outcomes: Iterable[Outcome]) -> str:
    """Return the outcomes as CSV."""
    return records.to_csv(Outcome, outcomes)


def from_csv(text: str) -> list[Outcome]:
    """Return the outcomes that `to_csv` wrote."""
    return records.from_csv(Outcome, text)
