"""`compare`: the model next to the simulator on the same trace and the same machine, with the error by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rdmodel import presets
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.progress import Progress, stage
from rdmodel.comparison.calibrate import calibrate
from rdmodel.comparison.values import Comparison
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU, CoreSched, LatencyConfig
from rdmodel.model.machine_options import matching_options
from rdmodel.model.options import Definition, Options
from rdmodel.model.predict import L1_OPTIONS, predict
from rdmodel.simulator.options import SimulationOptions
from rdmodel.simulator.sectors import SectorCounter
from rdmodel.simulator.simulate import Observer, check_sectors, simulate
from rdmodel.trace import Trace

DEFINITIONS: tuple[Definition, ...] = ("hardware", "paper")

NAMED = ("definition", "sms", "blocks", "sched")
"""Fields of `Options` that `compare` has parameters of its own for."""

PARAMETERS = ("definitions", "sms", "blocks", "sched", "latency", "seed", "seeds", "check", "sectors", "observe")
LATENCIES = tuple(f.name for f in fields(LatencyConfig))


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
    observe: Observer | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Run the model and the simulator on one trace, on all SMs and blocks, and put their counters side by side.

    The model is told about the machine what it has a word for: its scheduler, that a transaction which cannot be
    served holds up those behind it (``stall="head"``), that stores evict, and latencies: `latency`, else those of
    `latency_for`. `options` are fields of `Options` and go before these; one that only one definition has goes to
    that one only. `seed` and `seeds` are the model's; `sms`, `blocks`, `sched` and `check` are as in `simulate`.
    `sectors` counts the simulated loads by 32-byte sector too; `observe` is as in `simulate`, and not together with
    `sectors`, which observes by itself. `progress` is called with (blocks begun, blocks in all),
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
    if sectors and observe is not None:
        raise ConfigError("observe: not together with sectors, which observes by itself")
    SimulationOptions(sms=sms, blocks=blocks, sched=sched)
    wanted = check_definitions(definitions)
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
        observe=observe if counter is None else counter,
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


# ---- what the model is told


def check_definitions(definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return the definitions in their order, each once; raise `ConfigError` for another, or for none."""
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
