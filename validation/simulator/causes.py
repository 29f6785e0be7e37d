"""Explain large errors of the model: remove one feature of the machine and see whether the error goes with it.

Each experiment of ``scenarios.toml`` changes the machine or the simulation. The model then gets latencies with the mean
and the standard deviation of those that the kernel meets in the simulation.
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
    """Miss rates of an experiment in percent. In the model a miss takes `lat_min` + |N(0, `sigma`)| steps."""

    cause: str
    gpu: str
    kernel: str
    lat_min: int
    sigma: float
    simulated: float
    hardware: float


def experiments() -> list[tuple[str, str, str]]:
    """Return (cause, scenario, kernel) of every experiment of ``scenarios.toml``."""
    return [
        (one["cause"], gpu, kernel)
        for one in settings()["experiment"]
        for gpu, kernels in one["rows"].items()
        for kernel in kernels
    ]


def run(task: tuple[str, str, str]) -> Outcome:
    """Run the experiment (cause, scenario, kernel)."""
    cause, name, kernel = task
    one = next(each for each in settings()["experiment"] if each["cause"] == cause)
    gpu = override(scenarios()[name].gpu, one.get("overrides", {}))
    trace = tracegen.kernel(kernel, **suite()[kernel])
    options: Mapping[str, Any] = one.get("simulate", {})
    simulation = simulate(trace, gpu, **options)
    lat_min, sigma = fit_half_normal(simulation.miss_latencies)
    hardware = _miss_rate(trace, gpu, lat_min, sigma)
    return Outcome(cause, name, kernel, lat_min, sigma, round(100 * simulation.miss_rate, DIGITS), hardware)


def fit_half_normal(latencies: MissLatencies) -> tuple[int, float]:
    """Return `lat_min` and `sigma` of the half-normal latency with the same mean and standard deviation."""
    mean = latencies.mean
    variance = float(latencies.counts @ (latencies.cycles - mean) ** 2) / int(latencies.counts.sum())
    sigma = sqrt(variance / (1 - 2 / pi))
    return max(0, round(mean - sigma * sqrt(2 / pi))), round(sigma, 1)


def _miss_rate(trace: Trace, gpu: GPU, lat_min: int, sigma: float) -> float:
    """Return the miss rate of `hardware` in percent, with the options of `rdmodel.compare`."""
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
