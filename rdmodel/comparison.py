"""`compare`: the model next to the simulator on the same trace and the same machine, with the error by cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rdmodel import presets
from rdmodel.calibration import calibrate
from rdmodel.config import GPU, CoreSched, LatencyConfig
from rdmodel.errors import ConfigError
from rdmodel.model import predict
from rdmodel.options import Definition, Sched
from rdmodel.result import MissCounts, Prediction, frame
from rdmodel.simulation import Simulation
from rdmodel.simulator import simulate
from rdmodel.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

DEFINITIONS: tuple[Definition, ...] = ("hardware", "paper")

SCHEDULERS: dict[CoreSched, Sched] = {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest"}
"""The model's warp choice that comes nearest to each of the machine's schedulers."""

SHARES = ("hits", "pending_hits", "misses", "compulsory", "capacity", "associativity")
"""What is compared, each as a share of the load transactions."""

Progress = Callable[[int, int], None]
"""Called with (blocks begun, blocks in all) of the simulation, often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One kernel: what the simulator counted, and what every definition of the model predicts."""

    simulation: Simulation
    predictions: Mapping[Definition, Prediction]
    latency: LatencyConfig = field(repr=False)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.simulation.kernel

    @property
    def simulated(self) -> dict[str, float]:
        """The simulator's `SHARES` of the load transactions, 0 to 1."""
        return _shares(self.simulation.hits, self.simulation.pending_hits, self.simulation.misses)

    def predicted(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return the model's `SHARES` of the transactions, 0 to 1."""
        prediction = self.predictions[definition]
        return _shares(prediction.hits, prediction.latency_misses, prediction.misses)

    def errors(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return predicted minus simulated, in points (percent of the transactions), for each of `SHARES`."""
        simulated = self.simulated
        return {name: 100 * (share - simulated[name]) for name, share in self.predicted(definition).items()}

    def error(self, definition: Definition = "hardware") -> float:
        """Return the error of the miss rate in points, signed."""
        return self.errors(definition)["misses"]

    def __str__(self) -> str:
        """Return the comparison in one line."""
        rates = ", ".join(
            f"{definition} {100 * prediction.miss_rate:.2f} ({self.error(definition):+.2f})"
            for definition, prediction in self.predictions.items()
        )
        return f"{self.kernel} on {self.simulation.gpu}: miss rate {100 * self.simulation.miss_rate:.2f} %, {rates}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain numbers, strings and dicts, ready for JSON."""
        return {
            "kernel": self.kernel,
            "gpu": self.simulation.gpu,
            "seed": self.simulation.seed,
            "latency": {"lat_min": self.latency.lat_min, "sigma": self.latency.sigma},
            "simulated": self.simulated,
            "predicted": {definition: self.predicted(definition) for definition in self.predictions},
            "errors": {definition: self.errors(definition) for definition in self.predictions},
            "simulation": self.simulation.to_dict(),
            "predictions": {name: prediction.to_dict() for name, prediction in self.predictions.items()},
        }

    def to_row(self) -> dict[str, Any]:
        """Return the comparison as one flat row, rates in percent and errors in points: for CSV and data frames."""
        row: dict[str, Any] = {
            "kernel": self.kernel,
            "gpu": self.simulation.gpu,
            "transactions": self.simulation.loads,
            "cycles": self.simulation.cycles,
        }
        row |= {f"simulated_{name}": 100 * share for name, share in self.simulated.items()}
        for definition in self.predictions:
            row |= {f"{definition}_{name}": 100 * share for name, share in self.predicted(definition).items()}
            row[f"{definition}_error"] = self.error(definition)
        seconds = {name: prediction.seconds for name, prediction in self.predictions.items()}
        return row | {"simulated_seconds": self.simulation.seconds} | {f"{k}_seconds": v for k, v in seconds.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the comparison as a data frame of one row; needs pandas (extra ``frame``)."""
        return frame([self.to_row()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How well one definition agrees with the simulator over several kernels; errors in points of the miss rate.

    `worst` holds (kernel, signed error), the largest first; `correlation` is Pearson's between predicted and
    simulated miss rates, None for fewer than two kernels or where one side does not vary.
    """

    definition: Definition
    kernels: int
    mean_absolute_error: float
    correlation: float | None
    worst: tuple[tuple[str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a plain dict."""
        return {
            "definition": self.definition,
            "kernels": self.kernels,
            "mean_absolute_error": self.mean_absolute_error,
            "correlation": self.correlation,
            "worst": [{"kernel": kernel, "error": error} for kernel, error in self.worst],
        }


def compare(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    seed: int = 0,
    sms: int | None = None,
    blocks: int | None = None,
    sched: CoreSched | None = None,
    latency: LatencyConfig | None = None,
    definitions: Sequence[Definition] = DEFINITIONS,
    check: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Run the simulator and the model on one trace, on all SMs and blocks, and put their counters side by side.

    The model is told about the machine what it has a word for: its scheduler, that a transaction which cannot be
    served holds up those behind it (``stall="head"``), that stores evict, and latencies: `latency`, else what the
    GPU's `calibrated` says, else what `calibrate` fits. `options` are further options of `predict` and go before
    these; an option of one definition only goes to that one. `sms`, `blocks` and `sched` are as in `simulate`.

    Raises what `predict` and `simulate` raise.
    """
    machine = presets.gpu(gpu)
    for definition in definitions:
        if definition not in DEFINITIONS:
            raise ConfigError(f"definitions={definition!r}: must be among {', '.join(DEFINITIONS)}")
    fitted = latency or machine.calibrated or calibrate(machine).latency
    simulation = simulate(
        trace, machine, seed=seed, sms=sms, blocks=blocks, sched=sched, check=check, progress=progress
    )
    common = {"seed": seed, "sms": sms, "blocks": blocks, "model_sms": "all", "threads": None, "histogram": False}
    predictions = {
        definition: predict(
            trace,
            machine,
            definition=definition,
            **{**common, **_matching(definition, machine, sched, fitted), **options},
        )
        for definition in definitions
    }
    return Comparison(simulation=simulation, predictions=predictions, latency=fitted)


def agreement(comparisons: Sequence[Comparison], definition: Definition = "hardware", worst: int = 5) -> Agreement:
    """Summarise one definition over several kernels; raise `ConfigError` for none."""
    if not comparisons:
        raise ConfigError("comparisons: there is nothing to summarise")
    errors = {one.kernel: one.error(definition) for one in comparisons}
    ordered = sorted(errors.items(), key=lambda item: -abs(item[1]))
    return Agreement(
        definition=definition,
        kernels=len(comparisons),
        mean_absolute_error=sum(abs(one.error(definition)) for one in comparisons) / len(comparisons),
        correlation=_correlation(
            [one.predictions[definition].miss_rate for one in comparisons],
            [one.simulation.miss_rate for one in comparisons],
        ),
        worst=tuple(ordered[:worst]),
    )


def _matching(definition: Definition, gpu: GPU, sched: CoreSched | None, latency: LatencyConfig) -> dict[str, Any]:
    """Return the options of the model that describe the simulated machine."""
    times = {"lat_min": latency.lat_min, "sigma": latency.sigma}
    if definition == "paper":
        return times
    return {
        **times,
        "hit_latency": gpu.core.hit_latency,
        "sched": SCHEDULERS[sched or gpu.core.sched],
        "stall": "head",
        "stores": "evict",
    }


def _shares(hits: float, pending_hits: float, misses: MissCounts) -> dict[str, float]:
    whole = hits + pending_hits + misses.total
    counts = (hits, pending_hits, misses.total, misses.compulsory, misses.capacity, misses.associativity)
    return {name: count / whole if whole else 0.0 for name, count in zip(SHARES, counts, strict=True)}


def _correlation(predicted: Sequence[float], simulated: Sequence[float]) -> float | None:
    if min(len(set(predicted)), len(set(simulated))) < 2:
        return None
    return float(np.corrcoef(predicted, simulated)[0, 1])
