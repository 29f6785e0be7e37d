"""Compare the model with the simulator on the same trace and the same GPU: the function `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rdmodel import presets
from rdmodel.common.checks import MAX_SEEDS, check_flag, check_int
from rdmodel.common.progress import Progress, stage
from rdmodel.comparison.calibrate import calibrate
from rdmodel.comparison.values import Comparison
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU, CoreSched, LatencyConfig
from rdmodel.model.machine_options import matching_options
from rdmodel.model.options import Definition, Options, check_known_definition
from rdmodel.model.predict import L1_OPTIONS, predict
from rdmodel.simulator.machine_run import Observer
from rdmodel.simulator.options import SimulationOptions
from rdmodel.simulator.sectors import SectorCounter
from rdmodel.simulator.simulate import check_sectors, simulate
from rdmodel.trace import Trace

DEFINITIONS: tuple[Definition, ...] = ("hardware", "paper")
"""Definitions of the model, in the order in which they are compared."""

FIELDS_WITH_PARAMETER = ("definition", "sms", "blocks", "sched")
"""Fields of `Options` for which `compare` has a parameter."""

COMPARE_PARAMETERS = (
    *("definitions", "sms", "blocks", "sched", "latency"),
    *("seed", "seeds", "check", "sectors", "observe"),
)
"""Parameters of `compare`, for suggestions where a name is misspelt."""

LATENCY_FIELDS = tuple(f.name for f in fields(LatencyConfig))
"""Options of the model that are latencies."""


def compare(
    trace: Trace,
    gpu: str | GPU | None = None,
    *,
    seed: int = 0,
    seeds: int = 1,
    sms: int | None = None,
    blocks: int | None = None,
    sched: CoreSched | None = None,
    latency: LatencyConfig | None = None,
    definitions: Sequence[Definition] | None = None,
    check: bool = False,
    sectors: bool = False,
    observe: Observer | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Run the model and the simulator on one trace, on all SMs and blocks, and compare their counters.

    The model is given all properties of the machine that its options can express: the scheduler, the latencies, that a
    transaction which cannot be served blocks those behind it (``stall="head"``), and that stores evict their lines. All
    options are checked before the first run.

    Parameters
    ----------
    trace : Trace
        The kernel launch. It must hold loads.
    gpu : str or GPU, optional
        Name of a preset, path of a ``.toml`` file, or a `GPU`; by default `presets.DEFAULT_GPU`, and
        `presets.PAPER_GPU` if "paper" is among the `definitions`.
    seed, seeds : int
        Seed of the model, and number of runs with consecutive seeds that are averaged.
    sms, blocks : int, optional
        Number of SMs, and of blocks from the beginning of the grid; by default those of the GPU and all.
    sched : str, optional
        Scheduler of the simulated machine, as in `simulate`; by default that of the GPU.
    latency : LatencyConfig, optional
        Latencies of the model; by default those of `latency_for`.
    definitions : sequence of str, optional
        Definitions of the model to compare: "hardware", "paper" or both; by default those that know the GPU: "paper"
        fetches whole lines.
    check : bool
        Whether the simulator checks its invariants.
    sectors : bool
        Whether the simulated loads are also counted by 32-byte sector.
    observe : callable, optional
        Called with the simulated accesses, as in `simulate`. Cannot be combined with `sectors`.
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all, over all runs of both engines.
    **options
        Fields of `Options`, which override the properties of the machine. An option of one definition goes to that one.

    Returns
    -------
    Comparison
        The simulation, the prediction of each definition, and the latencies that the model used.

    Raises
    ------
    ConfigError
        If an option is unknown, has a bad value, or is an option of none of the definitions.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If `trace` is not a `Trace`.
    """
    gpu = presets.gpu_or_default(gpu, () if definitions is None else check_definitions(definitions))
    check_int("seed", seed, 0)
    check_int("seeds", seeds, 1, MAX_SEEDS)
    check_flag("check", check)
    check_flag("sectors", sectors)
    if sectors:
        check_sectors(gpu)
    if sectors and observe is not None:
        raise ConfigError("observe cannot be combined with sectors: sectors=True observes the accesses itself")
    SimulationOptions(sms=sms, blocks=blocks, sched=sched)
    chosen_definitions = known_definitions(gpu) if definitions is None else check_definitions(definitions)
    for definition in chosen_definitions:
        check_known_definition(definition, gpu)
    given = _check_options(options)
    by_definition = _options_by_definition(given, chosen_definitions)
    chosen_latency = _choose_latency(gpu, sms, latency, given)
    extent = {"sms": sms, "blocks": blocks, "model_sms": "all", "threads": None}
    arguments = {
        name: {**extent, **_machine_options(name, gpu, sched, chosen_latency), **by_definition[name]}
        for name in chosen_definitions
    }
    for definition in chosen_definitions:
        Options(definition=definition, **arguments[definition]).resolve(gpu)
    parts = [stage(progress, i, len(chosen_definitions) + 1) for i in range(len(chosen_definitions) + 1)]
    # The model runs first: it takes less time.
    predictions = {
        definition: predict(
            trace,
            gpu,
            definition=definition,
            seed=seed,
            seeds=seeds,
            histogram=False,
            progress=part,
            **arguments[definition],
        )
        for definition, part in zip(chosen_definitions, parts[:-1], strict=True)
    }
    counter = SectorCounter() if sectors else None
    simulation = simulate(
        trace,
        gpu,
        seed=seed,
        sms=sms,
        blocks=blocks,
        sched=sched,
        check=check,
        observe=observe if counter is None else counter,
        sectors=sectors,
        progress=parts[-1],
    )
    counted = None if counter is None else counter.result()
    return Comparison(simulation=simulation, predictions=predictions, latency=chosen_latency, sectors=counted)


def latency_for(
    gpu: str | GPU = presets.DEFAULT_GPU, sms: int | None = None, progress: Progress | None = None
) -> LatencyConfig:
    """Return the model's latencies that describe a simulated machine: the GPU's, with `sms` SMs.

    They are the GPU's `calibrated`. If it has none, or for another number of SMs, whose load on the memory differs,
    they are fitted by `calibrate`, which takes seconds.
    """
    gpu = presets.gpu(gpu)
    if gpu.calibrated is not None and sms in (None, gpu.sms):
        return gpu.calibrated
    return calibrate(gpu if sms is None else gpu.replace(sms=sms), progress=progress).latency


# ---- options of the model


def known_definitions(gpu: GPU) -> tuple[Definition, ...]:
    """Return the definitions that can model a GPU, in order."""
    known = []
    for definition in DEFINITIONS:
        with suppress(ConfigError):
            check_known_definition(definition, gpu)
            known.append(definition)
    return tuple(known)


def check_definitions(definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return the definitions in order, without repetitions; raise `ConfigError` for an unknown one, or for none."""
    if isinstance(definitions, str) or not definitions:
        known = " and ".join(DEFINITIONS)
        raise ConfigError(f"definitions={definitions!r}: must be a list of {known}, or of one of them")
    for definition in definitions:
        if definition not in DEFINITIONS:
            raise ConfigError(unknown("definition", definition, DEFINITIONS))
    return tuple(dict.fromkeys(definitions))


def _check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by their names in `Options`, as plain values; raise `ConfigError` for an unknown name."""
    known = [f.name for f in fields(Options) if f.name not in FIELDS_WITH_PARAMETER]
    given = {}
    for name, value in options.items():
        if name in L1_OPTIONS:
            raise ConfigError(f"{name}={value!r}: is a field of the GPU's l1 here, since the simulator needs it too")
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *COMPARE_PARAMETERS]))
        given[name] = value.item() if isinstance(value, np.generic) else value
    if isinstance(given.get("stores"), bool):
        given["stores"] = "allocate" if given["stores"] else "free"
    # A latency of None is not given.
    return {name: value for name, value in given.items() if value is not None or name not in LATENCY_FIELDS}


def _options_by_definition(
    given: Mapping[str, Any], definitions: Sequence[Definition]
) -> dict[Definition, dict[str, Any]]:
    """Return for each definition the options that it has; raise `ConfigError` for one that no definition accepts."""
    by_definition: dict[Definition, dict[str, Any]] = {definition: {} for definition in definitions}
    for name, value in given.items():
        refusals = []
        for definition in definitions:
            # A definition refuses an option that only the other one has; both refuse an invalid value.
            try:
                Options(definition=definition, **{name: value})
            except ConfigError as error:
                refusals.append(error)
            else:
                by_definition[definition][name] = value
        if len(refusals) == len(definitions):
            raise refusals[0]
    return by_definition


def _choose_latency(
    gpu: GPU, sms: int | None, latency: LatencyConfig | None, given: Mapping[str, Any]
) -> LatencyConfig:
    """Return the model's latencies: each number that is given, else that of `latency` or of `latency_for`."""
    if latency is not None and not isinstance(latency, LatencyConfig):
        raise ConfigError(f"latency={latency!r}: must be a LatencyConfig")
    numbers = {name: given[name] for name in LATENCY_FIELDS if name in given}
    if len(numbers) == len(LATENCY_FIELDS):
        return LatencyConfig(**numbers)
    return replace(latency or latency_for(gpu, sms), **numbers)


def _machine_options(
    definition: Definition, gpu: GPU, sched: CoreSched | None, latency: LatencyConfig
) -> dict[str, Any]:
    """Return the options of the model that describe the simulated machine."""
    times = {"lat_min": latency.lat_min, "sigma": latency.sigma}
    if definition == "paper":
        return times
    return {**times, "hit_latency": latency.hit_latency, **matching_options(gpu, sched)}
