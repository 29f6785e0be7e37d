"""Hold comparisons of the model with the simulator as frozen values, and summarise several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rdmodel.common.axes import draw_groups, given_or_new, literal, nothing_to_draw
from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.rates import plain_rate, plain_rates, rate_of
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import LatencyConfig
from rdmodel.model.options import Definition
from rdmodel.results.counts import MissCounts
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.sectors import SectorCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Unit = Literal["line", "sector"]
"""Unit in which hit rates are counted."""

SHARES = ("hits", "pending_hits", "misses", "compulsory", "capacity", "associativity")
"""Outcomes and causes that are compared, each as a share of the load transactions."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Presented):
    """One kernel as counted by the simulator, and as predicted by each definition of the model.

    `latency` holds the latencies that the model used; `paper` has its own hit latency. `sectors` counts the 32-byte
    sectors of the simulated loads, if that was requested. Methods that take a `definition` raise `ConfigError` for one
    that was not compared.
    """

    simulation: Simulation
    predictions: Mapping[Definition, Prediction]
    latency: LatencyConfig = field(repr=False)
    sectors: SectorCounts | None = None

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.simulation.kernel

    @property
    def has_loads(self) -> bool:
        """Whether the kernel has loads; without any, there are no rates to compare."""
        return bool(self.simulation.loads)

    @property
    def simulated(self) -> dict[str, float]:
        """The simulator's `SHARES` of the load transactions, 0 to 1; NaN without loads."""
        return _shares(self.simulation.hits, self.simulation.pending_hits, self.simulation.misses)

    def prediction(self, definition: Definition = "hardware") -> Prediction:
        """Return the prediction of one definition."""
        if definition not in self.predictions:
            raise ConfigError(f"definition={definition!r}: was not compared; must be {' or '.join(self.predictions)}")
        return self.predictions[definition]

    def predicted(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return the model's `SHARES` of the transactions, 0 to 1; NaN without loads."""
        prediction = self.prediction(definition)
        return _shares(prediction.hits, prediction.latency_misses, prediction.misses)

    def errors(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return predicted minus simulated `SHARES`, in points (percent of the transactions)."""
        simulated = self.simulated
        return {name: 100 * (share - simulated[name]) for name, share in self.predicted(definition).items()}

    def error(self, definition: Definition = "hardware") -> float:
        """Return the signed error of the miss rate, in points."""
        return self.errors(definition)["misses"]

    def hit_rates(self, unit: Unit = "line") -> dict[str, float]:
        """Return the hit rates, 0 to 1, of the simulator ("simulated") and of every definition; pending hits are hits.

        By line, they are one minus the miss rates. By sector, those of the simulator are counted
        (`rdmodel.simulator.sectors`). For the model they are estimated: each line that it misses counts as many sectors
        as a missed line in the simulator. Raises `ConfigError` if sectors were not counted.
        """
        check_choice("unit", unit, Unit)
        if unit == "line":
            rates = {"simulated": self.simulation.miss_rate}
            rates |= {name: prediction.miss_rate for name, prediction in self.predictions.items()}
            return {name: 1 - rate for name, rate in rates.items()}
        if self.sectors is None:
            raise ConfigError("unit='sector': sectors were not counted; compare(..., sectors=True) counts them")
        miss_sectors = self.sectors.per_line_miss / max(self.sectors.sectors, 1)
        estimates = {name: prediction.misses.total * miss_sectors for name, prediction in self.predictions.items()}
        return {"simulated": self.sectors.hit_rate} | {name: max(0.0, 1 - rate) for name, rate in estimates.items()}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulated and predicted hits, pending hits and misses, in percent of the transactions; return the axes.

        They are new ones by default; needs matplotlib (extra ``plot``). Raises `ConfigError` without loads.
        """
        if not self.has_loads:
            raise nothing_to_draw(self, "the kernel has no loads")
        ax = given_or_new(ax)
        sides: dict[str, dict[str, float]] = {"simulated": self.simulated}
        sides |= {name: self.predicted(name) for name in self.predictions}
        series = {name: [100 * share for share in shares.values()] for name, shares in sides.items()}
        draw_groups(ax, [name.replace("_", " ") for name in self.simulated], series, "% of the load transactions")
        ax.set_title(literal(f"{self.kernel} on {self.simulation.gpu}"))
        return ax

    def __str__(self) -> str:
        """Return the comparison in one line."""
        if not self.has_loads:
            return f"{self.kernel} on {self.simulation.gpu}: no loads"
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
            "latency": asdict(self.latency),
            "simulated": plain_rates(self.simulated),
            "predicted": {definition: plain_rates(self.predicted(definition)) for definition in self.predictions},
            "errors": {definition: plain_rates(self.errors(definition)) for definition in self.predictions},
            **({} if self.sectors is None else {"sectors": self.sectors.to_dict()}),
            "simulation": self.simulation.to_dict(),
            "predictions": {name: prediction.to_dict() for name, prediction in self.predictions.items()},
        }

    def to_row(self) -> dict[str, Any]:
        """Return the comparison as one flat row, rates in percent and errors in points: for CSV and data frames."""
        row: dict[str, Any] = {
            "kernel": self.kernel,
            "gpu": self.simulation.gpu,
            "seed": self.simulation.seed,
            "lat_min": self.latency.lat_min,
            "sigma": self.latency.sigma,
            "transactions": self.simulation.loads,
            "cycles": self.simulation.cycles,
        }
        row |= {f"simulated_{name}": plain_rate(100 * share) for name, share in self.simulated.items()}
        for definition in self.predictions:
            shares = self.predicted(definition)
            row |= {f"{definition}_{name}": plain_rate(100 * share) for name, share in shares.items()}
            row[f"{definition}_error"] = plain_rate(self.error(definition))
        seconds = {name: prediction.seconds for name, prediction in self.predictions.items()}
        return row | {"simulated_seconds": self.simulation.seconds} | {f"{k}_seconds": v for k, v in seconds.items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return one row for the simulator and one for every definition: shares in percent, and the error in points."""
        rows: list[dict[str, Any]] = [{"engine": "simulate", **_in_percent(self.simulated)}]
        for definition in self.predictions:
            shares = _in_percent(self.predicted(definition))
            rows.append({"engine": f"predict ({definition})", **shares, "error (points)": self.error(definition)})
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of one definition with the simulator over several kernels; errors are in points of the miss rate.

    Kernels without loads are left out. `worst` holds (kernel, signed error), the largest error first. `correlation` is
    Pearson's, between predicted and simulated miss rates; it is None for fewer than three kernels, or if one side does
    not vary. `mean_absolute_error` is NaN if no kernel has loads.
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
            "mean_absolute_error": plain_rate(self.mean_absolute_error),
            "correlation": self.correlation,
            "worst": [{"kernel": kernel, "error": error} for kernel, error in self.worst],
        }


def agreement(comparisons: Iterable[Comparison], definition: Definition = "hardware", worst: int = 5) -> Agreement:
    """Summarise the errors of one definition over several kernels.

    Parameters
    ----------
    comparisons : iterable of Comparison
        One comparison for each kernel.
    definition : str
        Definition of the model, "hardware" or "paper".
    worst : int
        Number of kernels with the largest errors to list.

    Returns
    -------
    Agreement
        Mean absolute error, correlation and the worst kernels.

    Raises
    ------
    ConfigError
        If there are no comparisons, or if the definition was not compared.
    """
    check_int("worst", worst, 0)
    kernels = list(comparisons)
    if not kernels:
        raise ConfigError("comparisons: must hold at least one comparison")
    kernels[0].prediction(definition)
    kernels = [comparison for comparison in kernels if comparison.has_loads]
    errors = [(comparison.kernel, comparison.error(definition)) for comparison in kernels]
    ordered = sorted(errors, key=lambda item: -abs(item[1]))
    return Agreement(
        definition=definition,
        kernels=len(kernels),
        mean_absolute_error=rate_of(sum(abs(error) for _, error in errors), len(errors)),
        correlation=_correlation(
            [comparison.prediction(definition).miss_rate for comparison in kernels],
            [comparison.simulation.miss_rate for comparison in kernels],
        ),
        worst=tuple(ordered[:worst]),
    )


# ---- numbers


def _in_percent(shares: Mapping[str, float]) -> dict[str, float]:
    return {f"{name.replace('_', ' ')} (%)": 100 * share for name, share in shares.items()}


def _shares(hits: float, pending_hits: float, misses: MissCounts) -> dict[str, float]:
    whole = hits + pending_hits + misses.total
    counts = (hits, pending_hits, misses.total, misses.compulsory, misses.capacity, misses.associativity)
    return {name: rate_of(count, whole) for name, count in zip(SHARES, counts, strict=True)}


def _correlation(predicted: Sequence[float], simulated: Sequence[float]) -> float | None:
    if len(predicted) < 3 or min(len(set(predicted)), len(set(simulated))) < 2:
        return None
    return float(np.corrcoef(predicted, simulated)[0, 1])
