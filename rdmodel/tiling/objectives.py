"""Define the objectives of a ranking: numbers of a whole kernel that are to be minimised (docs/tiles.md).

The objective ``"time"`` is the time on a real GPU, in milliseconds (`rdmodel.timing`). The objective ``"cycles"`` is a
`roofline` of the simulated machine: the cycles of its busiest part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from numbers import Real
from typing import Any

from rdmodel import presets
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU
from rdmodel.gpu.latency import HEADER_BYTES, READ_BYTES, count_flits, dram_latency
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.timing.launch_time import CountedLaunch
from rdmodel.timing.traffic import traffic_of


@dataclass(frozen=True, slots=True)
class Value:
    """An estimate, and the bounds of the interval that is meant to contain the exact value."""

    value: float
    low: float
    high: float

    def per(self, units: float) -> Value:
        """Return the estimate for one of so many units of work."""
        return Value(self.value / units, self.low / units, self.high / units)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The time of a kernel, in cycles of the SMs, if it were bound by one part of the machine alone (docs/tiles.md).

    `sm` is the time at which the model's last SM ends. Instructions issue, transactions pass the port of the L1 one by
    one, and warps wait for their data. The model's waiting time is that of an idle machine whose L2 has every line.
    Here it is longer by the time that misses of the L2 spend in DRAM: with T steps of the model, of which P are the
    larger of port and issue time, a latency L of an L2 hit, an additional latency D of DRAM, and a share m of the L1
    misses that miss the L2, `sm` = T + (T - P) x m x D / L.

    `l1` is the time of the transactions of loads and stores in the ports of the L1s. `crossbar`, `l2` and `dram` are
    the times of the SMs' requests in the ports of the crossbar, the slices of the L2 and the buses of the DRAM, each
    evenly loaded.
    """

    sm: float
    l1: float
    crossbar: float
    l2: float
    dram: float

    @property
    def bound(self) -> str:
        """Name of the part that takes longest."""
        terms = asdict(self)
        return max(terms, key=lambda name: terms[name])

    @property
    def cycles(self) -> float:
        """Time of that part: the time of the kernel."""
        return max(self.sm, self.l1, self.crossbar, self.l2, self.dram)


def roofline(prediction: Prediction, gpu: GPU) -> Roofline:
    """Return the roofline of a kernel from a `prediction` for the whole grid with an L2.

    Raises `ConfigError` for a prediction without an L2.
    """
    l2 = prediction.l2
    if l2 is None:
        raise ConfigError("prediction: has no L2, whose traffic the roofline needs; predict with l2=True")
    sms = prediction.config["options"]["sms"]
    port = (prediction.transactions + (prediction.stores.transactions or l2.writes)) / gpu.l1.tags_per_step / sms
    down = l2.reads * count_flits(READ_BYTES, gpu) + l2.writes * count_flits(HEADER_BYTES + l2.sector, gpu)
    up = l2.reads * count_flits(HEADER_BYTES + l2.sector, gpu)
    ports = min(sms, gpu.l2.slices)
    return Roofline(
        sm=_with_dram(prediction, gpu, port, l2.miss_rate),
        l1=port,
        crossbar=max(down, up) / ports * gpu.clock / gpu.crossbar.clock,
        l2=(l2.reads + l2.writes) / gpu.l2.slices * gpu.clock / gpu.l2.clock,
        dram=l2.dram_bytes / (gpu.l2.slices * gpu.dram.width) * gpu.clock / gpu.dram.clock,
    )


def _with_dram(prediction: Prediction, gpu: GPU, port: float, share: float) -> float:
    """Return the time of the last SM if `share` of its L1 misses go to DRAM; `port` is the time of its L1's port."""
    sms, latency = (int(prediction.config["options"][name]) for name in ("sms", "lat_min"))
    issue = (prediction.instructions or 0.0) / sms / gpu.core.schedulers
    waiting = max(0.0, prediction.steps - max(port, issue))
    return prediction.steps + waiting * share * dram_latency(gpu) / max(1, latency)


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: its `name`, whether it needs an L2, and the function that computes it from a prediction."""

    name: str
    l2: bool
    of: Callable[[Prediction, GPU], Value]
    of_launch: Callable[[Prediction, CountedLaunch], Value] | None = None

    @property
    def times(self) -> bool:
        """Whether the number is a time on the real GPU, where registers limit the blocks of an SM."""
        return self.of_launch is not None

    def value(self, prediction: Prediction, gpu: GPU, launch: CountedLaunch | None = None) -> Value:
        """Return the number and its bounds; raises `ConfigError` if it is not finite.

        Objectives with `of_launch` need the `launch` of the prediction.
        """
        if self.of_launch is None:
            return self.of(prediction, gpu)
        assert launch is not None
        return self.of_launch(prediction, launch)

    def check_gpu(self, gpu: GPU) -> None:
        """Raise `ConfigError` if the objective needs rates, and those of the GPU are unknown."""
        if self.times:
            presets.rates_of(gpu)


def _relative_bounds(prediction: Prediction, *names: str) -> tuple[float, float]:
    """Return the relative distances of the lower and upper bounds from the estimates: the largest of those named."""
    estimates = [count for count in map(prediction.estimates.get, names) if count is not None and count.value]
    below = max(((count.value - count.low) / count.value for count in estimates), default=0.0)
    return below, max(((count.high - count.value) / count.value for count in estimates), default=0.0)


def _bounded(value: float, bounds: tuple[float, float]) -> Value:
    size = abs(value)
    return Value(value, value - bounds[0] * size, value + bounds[1] * size)


def _l2(prediction: Prediction) -> L2Prediction:
    assert prediction.l2 is not None
    return prediction.l2


COUNT_OBJECTIVES: Mapping[str, tuple[bool, Callable[[Prediction], float]]] = {
    "dram_bytes": (True, lambda prediction: _l2(prediction).dram_bytes),
    "l2_bytes": (True, lambda prediction: _l2(prediction).bytes),
    # Without loads, all tiles are equal.
    "miss_rate": (False, lambda prediction: prediction.miss_rate if prediction.transactions else 0.0),
    "misses": (False, lambda prediction: prediction.misses.total),
}
"""Objectives that are an estimate of the same name: whether they need an L2, and the number in a prediction."""

TERM_ESTIMATES = {"sm": "steps", "l1": "transactions", "crossbar": "l2_bytes", "l2": "l2_bytes", "dram": "dram_bytes"}
"""The estimate that determines the relative bounds of each term of the roofline."""


def _count_objective(name: str, l2: bool, read: Callable[[Prediction], float]) -> Objective:
    def of(prediction: Prediction, _gpu: GPU) -> Value:
        value, count = float(read(prediction)), prediction.estimates.get(name)
        return Value(value, count.low, count.high) if count is not None else Value(value, value, value)

    return Objective(name, l2, of)


def _cycles_value(prediction: Prediction, gpu: GPU) -> Value:
    line = roofline(prediction, gpu)
    terms = [
        _bounded(cycles, _relative_bounds(prediction, TERM_ESTIMATES[term])) for term, cycles in asdict(line).items()
    ]
    # The DRAM part of the first term is as uncertain as the misses of the L2.
    added = max(0.0, line.sm - prediction.steps)
    less, more = _relative_bounds(prediction, TERM_ESTIMATES["dram"])
    terms[0] = Value(line.sm, terms[0].low - less * added, terms[0].high + more * added)
    return Value(line.cycles, max(term.low for term in terms), max(term.high for term in terms))


def _no_value(_prediction: Prediction, _gpu: GPU) -> Value:
    raise AssertionError("needs a trace")


def _time_value(prediction: Prediction, launch: CountedLaunch) -> Value:
    """Return the milliseconds of a launch; its bounds are those with the bounds of the traffic."""
    traffic = traffic_of(prediction)
    bounds = {name: _relative_bounds(prediction, name) for name in ("misses", "l2_bytes", "dram_bytes")}

    def milliseconds(side: int, sign: int) -> float:
        misses, l2, dram = (1 + sign * bounds[name][side] for name in ("misses", "l2_bytes", "dram_bytes"))
        moved = replace(
            traffic,
            missing_share=min(1.0, traffic.missing_share * max(0.0, misses)),
            fetching_share=min(1.0, traffic.fetching_share * max(0.0, misses)),
            l2_read_bytes=traffic.l2_read_bytes * max(0.0, l2),
            l2_write_bytes=traffic.l2_write_bytes * max(0.0, l2),
            dram_bytes=traffic.dram_bytes * max(0.0, dram),
        )
        return launch.time(moved).milliseconds

    value = launch.time(traffic).milliseconds
    if not any(max(pair) for pair in bounds.values()):
        return Value(value, value, value)
    return Value(value, min(value, milliseconds(0, -1)), max(value, milliseconds(1, 1)))


OBJECTIVES: Mapping[str, Objective] = {
    **{name: _count_objective(name, *entry) for name, entry in COUNT_OBJECTIVES.items()},
    "cycles": Objective("cycles", True, _cycles_value),
    "time": Objective("time", True, _no_value, _time_value),
}


def objective_named(objective: str | Callable[[Prediction], float]) -> Objective:
    """Return the objective of a name or of a function of a `Prediction`; raise `ConfigError` for anything else.

    The bounds of a function's value are as wide, relatively, as those of the least certain estimate.
    """
    if callable(objective):
        function = objective

        def evaluate(prediction: Prediction, _gpu: GPU) -> Value:
            value = _finite(name, function(prediction))
            return _bounded(value, _relative_bounds(prediction, *prediction.estimates))

        name = getattr(objective, "__name__", type(objective).__name__)
        return Objective(name, True, evaluate)
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise ConfigError(unknown("objective", objective, OBJECTIVES))
    return OBJECTIVES[objective]


def _finite(name: str, value: Any) -> float:
    """Return the value of a function as a float; NumPy numbers are accepted."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"objective {name}: returned {_printable(value)}: must be a finite number")
    return number


def _printable(value: Any) -> str:
    # Python does not print whole numbers of thousands of digits.
    return "a number beyond 10^308" if isinstance(value, int) and not isinstance(value, bool) else f"{value!r:.60}"
