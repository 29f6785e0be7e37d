"""What tiles are ranked by: a number of a whole kernel, of which less is better (docs/tiles.md).

`roofline` is the objective ``"time"``: the cycles of the slowest of what a kernel keeps busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU
from rdmodel.gpu.latency import HEADER_BYTES, READ_BYTES, count_flits, dram_latency, unloaded_latency
from rdmodel.model.machine_options import matching_options
from rdmodel.results.prediction import L2Prediction, Prediction

JITTER = 10.0
"""Steps by which the latency of a miss varies: without any, warps stay in step longer than real ones."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and the bounds between which the exact one is meant to lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """Cycles of the SMs that a kernel takes, by what it keeps busy; the longest of them is the answer (docs/tiles.md).

    `sm` is the model's own time of the SM that ends last: instructions issue, transactions pass the L1's port one by
    one, and warps wait for their data, which takes as long as on an empty machine whose L2 holds everything; what is
    neither issue nor port of that time is longer by as much as the mean miss is where it has to go to DRAM for its
    share of lines. `l1`: transactions of loads and stores through the ports of the L1s. `crossbar`, `l2` and `dram`:
    what leaves the SMs, through the ports of the crossbar, the slices of the L2 and the buses of the DRAM, each evenly
    loaded.
    """

    sm: float
    l1: float
    crossbar: float
    l2: float
    dram: float

    @property
    def bound(self) -> str:
        """The name of what takes longest."""
        terms = asdict(self)
        return max(terms, key=lambda name: terms[name])

    @property
    def cycles(self) -> float:
        """How long that takes."""
        return max(self.sm, self.l1, self.crossbar, self.l2, self.dram)


def roofline(prediction: Prediction, gpu: GPU) -> Roofline:
    """Return the cycles of a kernel; `prediction` is of the whole grid, with an L2.

    Raises `ConfigError` for a prediction without one.
    """
    l2 = prediction.l2
    if l2 is None:
        raise ConfigError("prediction: has no L2 (l2=True), whose traffic the roofline needs")
    sms = prediction.config["options"]["sms"]
    port = (prediction.transactions + l2.writes) / sms
    down = l2.reads * count_flits(READ_BYTES, gpu) + l2.writes * count_flits(HEADER_BYTES + l2.line, gpu)
    up = l2.reads * count_flits(HEADER_BYTES + l2.line, gpu)
    ports = min(sms, gpu.l2.slices)
    return Roofline(
        sm=_with_dram(prediction, gpu, port, l2.miss_rate),
        l1=port,
        crossbar=max(down, up) / ports * gpu.clock / gpu.crossbar.clock,
        l2=(l2.reads + l2.writes) / gpu.l2.slices * gpu.clock / gpu.l2.clock,
        dram=l2.dram_bytes / (gpu.l2.slices * gpu.dram.width) * gpu.clock / gpu.dram.clock,
    )


def _with_dram(prediction: Prediction, gpu: GPU, port: float, share: float) -> float:
    """Return the time of the SM that ends last if that share of its misses goes to DRAM; `port`: cycles of its L1."""
    sms, latency = (int(prediction.config["options"][name]) for name in ("sms", "lat_min"))
    issue = (prediction.instructions or 0.0) / sms / gpu.core.schedulers
    waiting = max(0.0, prediction.steps - max(port, issue))
    return prediction.steps + waiting * share * dram_latency(gpu) / max(1, latency)


def told(gpu: GPU, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` of `predict`, and those that they leave out: they describe an idle machine of docs/machine.md.

    With the definition `paper` there is nothing to add.
    """
    if options.get("definition", "hardware") != "hardware":
        return dict(options)
    return {
        **matching_options(gpu),
        "gap": True,
        "lat_min": unloaded_latency(gpu),
        "sigma": JITTER,
        "hit_latency": gpu.core.hit_latency,
        **({"schedulers": 1} if options.get("sched") == "random" else {}),
        **options,
    }


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: its `name`, whether it needs an L2, and `of`, which makes a number of a prediction."""

    name: str
    l2: bool
    of: Callable[[Prediction, GPU], Value]

    def value(self, prediction: Prediction, gpu: GPU) -> Value:
        """Return the number and its bounds; raises `ConfigError` for what is no finite number."""
        return self.of(prediction, gpu)


def _doubt(prediction: Prediction, *names: str) -> tuple[float, float]:
    """Return how far below and above the estimates the exact numbers may be, as shares: the most of those named."""
    found = [one for one in map(prediction.estimates.get, names) if one is not None and one.value]
    down = max(((one.value - one.low) / one.value for one in found), default=0.0)
    return down, max(((one.high - one.value) / one.value for one in found), default=0.0)


def _bounded(value: float, doubt: tuple[float, float]) -> Value:
    size = abs(value)
    return Value(value, value - doubt[0] * size, value + doubt[1] * size)


def _l2(prediction: Prediction) -> L2Prediction:
    assert prediction.l2 is not None
    return prediction.l2


COUNTS: Mapping[str, tuple[bool, Callable[[Prediction], float]]] = {
    "dram_bytes": (True, lambda prediction: _l2(prediction).dram_bytes),
    "l2_bytes": (True, lambda prediction: _l2(prediction).bytes),
    "miss_rate": (False, lambda prediction: prediction.miss_rate),
    "misses": (False, lambda prediction: prediction.misses.total),
}
"""Objectives that are an estimate of the same name, whether they need an L2, and how they are read off."""

DOUBTS = {"sm": "steps", "l1": "transactions", "crossbar": "l2_bytes", "l2": "l2_bytes", "dram": "dram_bytes"}
"""The estimates that the terms of the roofline are as sure as."""


def _count(name: str, l2: bool, read: Callable[[Prediction], float]) -> Objective:
    def of(prediction: Prediction, _gpu: GPU) -> Value:
        value, one = float(read(prediction)), prediction.estimates.get(name)
        return Value(value, one.low, one.high) if one is not None else Value(value, value, value)

    return Objective(name, l2, of)


def _time(prediction: Prediction, gpu: GPU) -> Value:
    line = roofline(prediction, gpu)
    terms = [_bounded(cycles, _doubt(prediction, DOUBTS[term])) for term, cycles in asdict(line).items()]
    # What waiting for DRAM adds to the first term is as uncertain as the misses of the L2.
    added = max(0.0, line.sm - prediction.steps)
    less, more = _doubt(prediction, DOUBTS["dram"])
    terms[0] = Value(line.sm, terms[0].low - less * added, terms[0].high + more * added)
    return Value(line.cycles, max(term.low for term in terms), max(term.high for term in terms))


OBJECTIVES: Mapping[str, Objective] = {
    **{name: _count(name, *one) for name, one in COUNTS.items()},
    "time": Objective("time", True, _time),
}


def objective_named(objective: str | Callable[[Prediction], float]) -> Objective:
    """Return the objective of a name, or made of a function of a `Prediction`; raise `ConfigError` for neither.

    A function's number is taken to be as sure as the least sure of all estimates.
    """
    if callable(objective):
        function = objective

        def own(prediction: Prediction, _gpu: GPU) -> Value:
            value = _finite(name, function(prediction))
            return _bounded(value, _doubt(prediction, *prediction.estimates))

        name = getattr(objective, "__name__", type(objective).__name__)
        return Objective(name, True, own)
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise ConfigError(unknown("objective", objective, OBJECTIVES))
    return OBJECTIVES[objective]


def _finite(name: str, value: Any) -> float:
    """Return what a function made of a prediction as a float; numbers of NumPy are numbers."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"objective {name}: returned {_shown(value)}: must be a finite number")
    return number


def _shown(value: Any) -> str:
    # Python refuses to print a whole number of thousands of digits.
    return "a number beyond 10^308" if isinstance(value, int) and not isinstance(value, bool) else f"{value!r:.60}"
