"""`compare`: the model next to the simulator on the same trace and the same machine, with the error by cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rdmodel import presets
from rdmodel.calibration import calibrate
from rdmodel.checks import check_choice, check_flag, check_int
from rdmodel.config import GPU, CoreSched, LatencyConfig
from rdmodel.errors import ConfigError, unknown
from rdmodel.matching import matching_options
from rdmodel.model import L1_OPTIONS, predict
from rdmodel.options import Definition, Options, SimulationOptions
from rdmodel.progress import Progress, stage
from rdmodel.result import MissCounts, Prediction, frame
from rdmodel.sectors import SectorCounter, SectorCounts
from rdmodel.simulation import Simulation
from rdmodel.simulator import check_sectors, simulate
from rdmodel.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

Unit = Literal["line", "sector"]
"""What hit rates are counted in."""

DEFINITIONS: tuple[Definition, ...] = ("hardware", "paper")

SHARES = ("hits", "pending_hits", "misses", "compulsory", "capacity", "associativity")
"""What is compared, each as a share of the load transactions."""

NAMED = ("definition", "sms", "blocks", "sched")
"""Fields of `Options` that `compare` has parameters of its own for."""

PARAMETERS = ("definitions", "sms", "blocks", "sched", "latency", "seed", "seeds", "check", "sectors")
LATENCIES = tuple(f.name for f in fields(LatencyConfig))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One kernel: what the simulator counted, and what every definition of the model predicts.

    `latency` is what the model was told of misses (and `hardware` of hits). `sectors` are the 32-byte sectors of the
    simulated loads, if they were asked for. Methods that take a `definition` raise `ConfigError` for one that was not
    compared.
    """

    simulation: Simulation
    predictions: Mapping[Definition, Prediction]
    latency: LatencyConfig = field(repr=False)
    sectors: SectorCounts | None = None

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.simulation.kernel

    @property
    def simulated(self) -> dict[str, float]:
        """The simulator's `SHARES` of the load transactions, 0 to 1."""
        return _shares(self.simulation.hits, self.simulation.pending_hits, self.simulation.misses)

    def prediction(self, definition: Definition = "hardware") -> Prediction:
        """Return what one definition predicts."""
        if definition not in self.predictions:
            raise ConfigError(f"definition={definition!r}: was not compared; {', '.join(self.predictions)} was")
        return self.predictions[definition]

    def predicted(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return the model's `SHARES` of the transactions, 0 to 1."""
        prediction = self.prediction(definition)
        return _shares(prediction.hits, prediction.latency_misses, prediction.misses)

    def errors(self, definition: Definition = "hardware") -> dict[str, float]:
        """Return predicted minus simulated, in points (percent of the transactions), for each of `SHARES`."""
        simulated = self.simulated
        return {name: 100 * (share - simulated[name]) for name, share in self.predicted(definition).items()}

    def error(self, definition: Definition = "hardware") -> float:
        """Return the error of the miss rate in points, signed."""
        return self.errors(definition)["misses"]

    def hit_rates(self, unit: Unit = "line") -> dict[str, float]:
        """Return the hit rates, 0 to 1, of the simulator ("simulated") and of every definition; pending hits are hits.

        By line, they are one minus the miss rates. By sector, the simulator's are counted (`rdmodel.sectors`); each
        line that the model misses costs as many sectors as one costs in the simulator, which is an estimate. Raises
        `ConfigError` for sectors that were not asked for.
        """
        check_choice("unit", unit, Unit)
        if unit == "line":
            rates = {"simulated": self.simulation.miss_rate}
            rates |= {name: prediction.miss_rate for name, prediction in self.predictions.items()}
            return {name: 1 - rate for name, rate in rates.items()}
        if self.sectors is None:
            raise ConfigError("unit='sector': sectors were not counted; compare(..., sectors=True) counts them")
        each = self.sectors.per_line_miss / max(self.sectors.sectors, 1)
        estimates = {name: one.misses.total * each for name, one in self.predictions.items()}
        return {"simulated": self.sectors.hit_rate} | {name: max(0.0, 1 - rate) for name, rate in estimates.items()}

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
            "latency": asdict(self.latency),
            "simulated": self.simulated,
            "predicted": {definition: self.predicted(definition) for definition in self.predictions},
            "errors": {definition: self.errors(definition) for definition in self.predictions},
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
    simulated miss rates, None for fewer than three kernels or where one side does not vary.
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
    seeds: int = 1,
    sms: int | None = None,
    blocks: int | None = None,
    sched: CoreSched | None = None,
    latency: LatencyConfig | None = None,
    definitions: Sequence[Definition] = DEFINITIONS,
    check: bool = False,
    sectors: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Run the model and the simulator on one trace, on all SMs and blocks, and put their counters side by side.

    The model is told about the machine what it has a word for: its scheduler, that a transaction which cannot be
    served holds up those behind it (``stall="head"``), that stores evict, and latencies: `latency`, else those of
    `latency_for`. `options` are fields of `Options` and go before these; one that only one definition has goes to
    that one only. `seed` and `seeds` are the model's; `sms`, `blocks`, `sched` and `check` are as in `simulate`.
    `sectors` counts the simulated loads by 32-byte sector too. `progress` is called with (blocks begun, blocks in all),
    the runs of the model and of the simulator together.

    All options are checked before the first run. Raises what `predict` and `simulate` raise; a kernel without loads
    is a `TraceError`.
    """
    machine = presets.gpu(gpu)
    check_int("seed", seed, 0)
    check_int("seeds", seeds, 1)
    check_flag("check", check)
    check_flag("sectors", sectors)
    if sectors:
        check_sectors(machine)
    SimulationOptions(sms=sms, blocks=blocks, sched=sched)
    wanted = _definitions(definitions)
    given = _given(options)
    own = _own_options(given, wanted)
    told = _latency(machine, sms, latency, given)
    extent = {"sms": sms, "blocks": blocks, "model_sms": "all", "threads": None}
    arguments = {name: {**extent, **_matching(name, machine, sched, told), **own[name]} for name in wanted}
    for definition in wanted:
        Options(definition=definition, **arguments[definition]).resolve(machine)
    parts = [stage(progress, i, len(wanted) + 1) for i in range(len(wanted) + 1)]
    # The model first: it is the one to refuse a trace, as one without loads, and it takes less time.
    predictions = {
        definition: predict(
            trace,
            machine,
            definition=definition,
            seed=seed,
            seeds=seeds,
            histogram=False,
            progress=part,
            **arguments[definition],
        )
        for definition, part in zip(wanted, parts[:-1], strict=True)
    }
    counter = SectorCounter() if sectors else None
    simulation = simulate(
        trace,
        machine,
        seed=seed,
        sms=sms,
        blocks=blocks,
        sched=sched,
        check=check,
        observe=counter,
        sectors=sectors,
        progress=parts[-1],
    )
    counted = None if counter is None else counter.result()
    return Comparison(simulation=simulation, predictions=predictions, latency=told, sectors=counted)


def latency_for(
    gpu: str | GPU = "gtx470-16k", sms: int | None = None, progress: Progress | None = None
) -> LatencyConfig:
    """Return the latencies that describe a simulated machine to the model, the GPU's with `sms` SMs.

    They are what the GPU's `calibrated` says. Where it says nothing, or with another number of SMs, which load the
    memory less or more, they are what `calibrate` fits, which takes seconds.
    """
    machine = presets.gpu(gpu)
    if machine.calibrated is not None and sms in (None, machine.sms):
        return machine.calibrated
    return calibrate(machine if sms is None else machine.replace(sms=sms), progress=progress).latency


def agreement(comparisons: Iterable[Comparison], definition: Definition = "hardware", worst: int = 5) -> Agreement:
    """Summarise one definition over several kernels, with the `worst` so many of them.

    Raises `ConfigError` for no kernels at all, or for a definition that was not compared.
    """
    check_int("worst", worst, 0)
    kernels = list(comparisons)
    if not kernels:
        raise ConfigError("comparisons: there is nothing to summarise")
    errors = [(one.kernel, one.error(definition)) for one in kernels]
    ordered = sorted(errors, key=lambda item: -abs(item[1]))
    return Agreement(
        definition=definition,
        kernels=len(kernels),
        mean_absolute_error=sum(abs(error) for _, error in errors) / len(errors),
        correlation=_correlation(
            [one.prediction(definition).miss_rate for one in kernels], [one.simulation.miss_rate for one in kernels]
        ),
        worst=tuple(ordered[:worst]),
    )


# ---- what the model is told


def _definitions(definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return the definitions in their order, each once."""
    if isinstance(definitions, str) or not definitions:
        raise ConfigError(f"definitions={definitions!r}: must be a list of {' and '.join(DEFINITIONS)}, or one of them")
    for definition in definitions:
        if definition not in DEFINITIONS:
            raise ConfigError(unknown("definition", definition, DEFINITIONS))
    return tuple(dict.fromkeys(definitions))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names in `Options`, as plain values; raise `ConfigError` for an unknown one."""
    known = [f.name for f in fields(Options) if f.name not in NAMED]
    given = {}
    for name, value in options.items():
        if name in L1_OPTIONS:
            raise ConfigError(f"{name}={value!r}: is a field of the GPU's l1 here; the simulator needs it too")
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *PARAMETERS]))
        given[name] = value.item() if isinstance(value, np.generic) else value
    if isinstance(given.get("stores"), bool):
        given["stores"] = "allocate" if given["stores"] else "free"
    # None means for these that nothing is given.
    return {name: value for name, value in given.items() if value is not None or name not in LATENCIES}


def _own_options(given: Mapping[str, Any], definitions: Sequence[Definition]) -> dict[Definition, dict[str, Any]]:
    """Return for each definition those options that it has; raise `ConfigError` for one that none of them takes."""
    own: dict[Definition, dict[str, Any]] = {definition: {} for definition in definitions}
    for name, value in given.items():
        refusals = []
        for definition in definitions:
            # A definition refuses what only the other one has, and both refuse what has no meaning.
            try:
                Options(definition=definition, **{name: value})
            except ConfigError as error:
                refusals.append(error)
            else:
                own[definition][name] = value
        if len(refusals) == len(definitions):
            raise refusals[0]
    return own


def _latency(gpu: GPU, sms: int | None, latency: LatencyConfig | None, given: Mapping[str, Any]) -> LatencyConfig:
    """Return the latencies that the model is told: each number that is given, else what `latency_for` says."""
    if latency is not None and not isinstance(latency, LatencyConfig):
        raise ConfigError(f"latency={latency!r}: must be a LatencyConfig")
    numbers = {name: given[name] for name in LATENCIES if name in given}
    if len(numbers) == len(LATENCIES):
        return LatencyConfig(**numbers)
    return replace(latency or latency_for(gpu, sms), **numbers)


def _matching(definition: Definition, gpu: GPU, sched: CoreSched | None, latency: LatencyConfig) -> dict[str, Any]:
    """Return the options of the model that describe the simulated machine."""
    times = {"lat_min": latency.lat_min, "sigma": latency.sigma}
    if definition == "paper":
        return times
    return {**times, "hit_latency": latency.hit_latency, **matching_options(gpu, sched)}


# ---- numbers


def _shares(hits: float, pending_hits: float, misses: MissCounts) -> dict[str, float]:
    whole = hits + pending_hits + misses.total
    counts = (hits, pending_hits, misses.total, misses.compulsory, misses.capacity, misses.associativity)
    return {name: count / whole if whole else 0.0 for name, count in zip(SHARES, counts, strict=True)}


def _correlation(predicted: Sequence[float], simulated: Sequence[float]) -> float | None:
    if len(predicted) < 3 or min(len(set(predicted)), len(set(simulated))) < 2:
        return None
    return float(np.corrcoef(predicted, simulated)[0, 1])
