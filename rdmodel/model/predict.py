"""Predict the L1 behaviour of a kernel launch with the analytical model (docs/model.md): the function `predict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from rdmodel import presets
from rdmodel.common.checks import MAX_SEEDS, check_int
from rdmodel.common.memory import require_room
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, unknown
from rdmodel.execution.memory_need import SET_BYTES
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU, replace
from rdmodel.model.options import Options
from rdmodel.model.shared_l2 import check_known_l2
from rdmodel.model.study import Case, Study
from rdmodel.model.work import Work, check_work
from rdmodel.policies import index_function
from rdmodel.results.prediction import Ablation, Prediction
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace

L1_OPTIONS = ("mshrs", "mshr_merge", "mshr_per_warp", "index", "carveout", "dlcm")
"""Options of `predict` that change a field of the GPU's L1."""

CALL_OPTIONS = (
    "seed",
    "seeds",
    "ablation",
    "breakdown",
    "histogram",
    "origins",
    "n_jobs",
    "sample_sms",
    "sample_blocks",
    "work",
)
"""Arguments of `predict` itself."""


def predict(
    trace: Trace,
    gpu: str | GPU | None = None,
    *,
    seed: int = 0,
    seeds: int = 1,
    ablation: bool = False,
    breakdown: Literal["paper"] | None = None,
    histogram: bool = True,
    origins: bool = False,
    n_jobs: int = -1,
    sample_sms: int | None = None,
    sample_blocks: float | None = None,
    work: Work = "auto",
    progress: Progress | None = None,
    **options: Any,
) -> Prediction:
    """Predict the L1 hits, misses and reuse distances of a kernel launch with the analytical model.

    The model is that of Nugteren et al., HPCA 2014, section 4; docs/model.md has both definitions of it. Time
    O(transactions), memory O(distinct lines + resident warps).

    Parameters
    ----------
    trace : Trace
        The launch and its memory instructions.
    gpu : str or GPU, optional
        Name of a preset, path of a ``.toml`` file, or a `GPU`; by default `presets.DEFAULT_GPU`, and
        `presets.PAPER_GPU` with ``definition="paper"``.
    seed : int
        Seed of the random latencies and warp choices, at least 0.
    seeds : int
        Number of runs, with the seeds `seed`, `seed` + 1, ... Counters are means over the runs.
    ablation : bool
        Run the model again with one component off at a time: `Prediction.ablation`.
    breakdown : "paper", optional
        Derive the five classes of figure 10 of the paper from such runs: `Prediction.breakdown`.
    histogram : bool
        Measure exact reuse distances; False saves their time.
    origins : bool
        Count by source line, array and instruction, too: `Prediction.by` (docs/origins.md).
    n_jobs : int
        Number of threads; -1: one per core. It does not change the result.
    sample_sms : int, optional
        Run this number of SMs, and estimate the counters of all SMs (docs/sampling.md).
    sample_blocks : float, optional
        Run about this share of the blocks of each modelled SM, above 0 and at most 1, and estimate the counters of
        all its blocks (docs/sampling.md).
    work : float, "auto" or None
        With ``l2=True`` and no choice of SMs (`model_sms`), the whole grid is modelled on all SMs. If it has more than
        about this number of transactions, it is sampled: all counters are estimates, with an interval each in
        `Prediction.estimates` (docs/sampling.md). "auto": 15,000,000, but everything is run where a sample would not
        save time. None: run everything.
    progress : callable, optional
        Called with (started blocks, blocks in all); it may raise to end the run.
    **options
        The fields of `Options`, where ``stores=True`` means "allocate", and fields of the GPU's L1: ``mshrs``,
        ``mshr_merge``, ``mshr_per_warp``, ``index``, ``carveout`` and ``dlcm``.

    Returns
    -------
    Prediction
        Counters, rates, reuse distances and the complete configuration.

    Raises
    ------
    ConfigError
        If an option is unknown, out of range, or cannot be combined with another one.
    LaunchError
        If a block of the launch cannot be resident on an SM of the GPU.
    TraceError
        If `trace` is not a trace, or lacks a block that is modelled.
    """
    check_trace(trace)
    options = plain_options(options)
    gpu = presets.gpu_or_default(gpu, [options.get("definition")])
    check_work(work, auto=True)
    samples_grid = False
    if options.get("l2") is True and sample_sms is None and sample_blocks is None and "model_sms" not in options:
        # From a few SMs, the L2's counters of the whole GPU would be wrong by an unknown factor.
        samples_grid = "threads" not in options
        options = {"threads": None, **options, "model_sms": "all"}
    gpu, resolved = resolve_machine(trace, gpu, options)
    check_int("seed", seed, 0, most=None)
    check_int("seeds", seeds, 1, MAX_SEEDS)
    if breakdown not in (None, "paper"):
        raise ConfigError(f"breakdown={breakdown!r}: must be None or 'paper'")
    check_jobs(n_jobs)
    if sample_sms is not None or sample_blocks is not None:
        from rdmodel.model.sample_sms import check_sampling

        check_sampling(sample_sms, sample_blocks)
        _check_can_sample(resolved, sample_sms, seeds=seeds, ablation=ablation, breakdown=breakdown)
        if origins and sample_blocks is not None:
            raise ConfigError("sample_blocks cannot be combined with origins: they need runs of everything")
    arguments = (trace, seed, seeds, n_jobs, progress)
    case = Case(gpu, resolved, histogram, origins)
    if sample_sms is not None or sample_blocks is not None or (samples_grid and work is not None):
        # Few calls need samples, and these need half of the modules of the model.
        from rdmodel.model.sampled_studies import SampledStudy

        sampled = SampledStudy(*arguments)
    if sample_sms is not None:
        return sampled.sample_sms(case, sample_sms)
    if sample_blocks is not None:
        return sampled.sample_blocks(case._replace(track=False), sample_blocks)
    if samples_grid and work is not None:
        others = {"seeds": seeds > 1, "ablation": ablation, "breakdown": breakdown is not None, "origins": origins}
        found = sampled.sample_grid(case._replace(track=False), work, _find_obstacle(trace, gpu, resolved, others))
        if found is not None:
            return found
    components = ABLATED_COMPONENTS if ablation else ("associativity", "mshrs") if breakdown == "paper" else ()
    result, *without = Study(*arguments).run([case, *(_without(component, case) for component in components)])
    rows = tuple(
        Ablation(component=component, misses=other.misses.total, difference=result.misses.total - other.misses.total)
        for component, other in zip(components, without, strict=True)
    )
    if ablation:
        result = dataclasses.replace(result, ablation=rows)
    if breakdown == "paper":
        result = dataclasses.replace(result, breakdown=_paper_breakdown(result, rows))
    return result


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with numbers of NumPy as numbers of Python."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


def resolve_machine(trace: Trace, gpu: GPU, options: Mapping[str, Any]) -> tuple[GPU, Options]:
    """Return the GPU for a launch, with the options of its L1, and all other options, resolved."""
    rest = dict(options)
    gpu = fit_to_launch(with_l1_options(gpu, rest), trace.launch)
    resolved = make_options(rest).resolve(gpu)
    if resolved.l2:
        check_known_l2(gpu)
    _check_caches(gpu, resolved)
    return gpu, resolved


def _check_caches(gpu: GPU, options: Options) -> None:
    """Raise `TooLargeError` if the empty caches of the modelled SMs need more memory than is left."""
    assert options.sms is not None
    sms = options.sms if options.model_sms == "all" else min(options.model_sms, options.sms)
    sets = gpu.l1.sets
    require_room(sms * sets * SET_BYTES, f"l1: {sets} sets on {sms} modelled SMs", "use fewer sets or SMs")


def _check_can_sample(options: Options, sample_sms: int | None, **runs: Any) -> None:
    """Raise `ConfigError` for options that cannot be combined with a sample."""
    name = "sample_blocks" if sample_sms is None else "sample_sms"

    def refuse(other: str, why: str) -> ConfigError:
        return ConfigError(f"{name} cannot be combined with {other}: {why}")

    for other, value in runs.items():
        if value not in (None, False) and (other, value) != ("seeds", 1):
            raise refuse(other, "a sample is drawn for a single run")
    if options.l2:
        raise refuse("l2", "the L2 needs the requests of all modelled blocks")
    if sample_sms is not None and options.model_sms != 1:
        raise refuse("model_sms", "sample_sms chooses the SMs that are modelled")
    assert options.sms is not None
    if sample_sms is not None and sample_sms > options.sms:
        raise ConfigError(f"sample_sms={sample_sms}: must be at most {options.sms}, the number of SMs")
    if sample_sms is None and options.model_sms == "all" and options.definition == "hardware":
        raise refuse("model_sms='all'", "the dispatcher of all SMs needs all blocks; give a number of SMs")
    if sample_sms is None and options.first_touch_factor != 1:
        raise refuse("first_touch_factor", "a sampled stretch does not know which lines earlier blocks touched")


def _find_obstacle(trace: Trace, gpu: GPU, options: Options, others: Mapping[str, bool]) -> str | None:
    """Return why the grid cannot be sampled, or None."""
    for name, given in others.items():
        if given:
            return f"{name} needs runs of everything"
    if not trace.any_order:
        return "its blocks depend on earlier blocks"
    if options.definition != "hardware":
        return f"definition={options.definition!r} deals blocks without regard to time"
    if options.first_touch_factor != 1:
        return "first_touch_factor needs the lines of all earlier blocks"
    return None


def make_options(options: Mapping[str, Any]) -> Options:
    """Return the fields of `Options` among the options of `predict`; raise `ConfigError` if one is unknown."""
    known = Options.__dataclass_fields__
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *L1_OPTIONS, *CALL_OPTIONS]))
    stores = options.get("stores")
    if isinstance(stores, bool):
        stores = "allocate" if stores else "free"
    return Options(**{**options, "stores": stores})


def with_l1_options(gpu: GPU, options: dict[str, Any]) -> GPU:
    """Return a GPU with the fields of its L1 among `options`, and remove these there."""
    changes = {name: options.pop(name) for name in L1_OPTIONS if name in options}
    if isinstance(changes.get("index"), str):
        changes["index"] = index_function(changes["index"])
    changes = {k: None if v == float("inf") else v for k, v in changes.items()}
    l1 = gpu.l1.with_carveout(changes.pop("carveout")) if "carveout" in changes else gpu.l1
    return gpu.replace(l1=replace(l1, **changes)) if changes or l1 is not gpu.l1 else gpu


# ---- ablation, breakdown

ABLATED_COMPONENTS = ("associativity", "latency", "mshrs", "divergence", "cta")
"""Components of the model, in the order in which `ablation` switches them off."""


def _without(component: str, case: Case) -> Case:
    """Return the case with one component of the model switched off (Nugteren et al., 6.1), without L2 and distances."""
    l1, options = case.gpu.l1, dataclasses.replace(case.options, l2=False)
    if component == "associativity":
        l1 = l1.fully_associative()
    elif component == "mshrs":
        l1 = replace(l1, mshrs=None, mshr_merge=None, mshr_per_warp=None)
    elif component == "latency":
        options = dataclasses.replace(options, lat_min=0, sigma=0.0, hit_latency=0)
    elif component == "divergence":
        options = dataclasses.replace(options, divergence=False)
    else:
        assert component == "cta"
        options = dataclasses.replace(options, cta="waves" if options.cta == "replace" else "replace")
    return Case(case.gpu if l1 is case.gpu.l1 else case.gpu.replace(l1=l1), options, track=False)


def _paper_breakdown(result: Prediction, rows: Sequence[Ablation]) -> dict[str, float]:
    """Return the five classes of figure 10 of the paper.

    `associativity` and `mshr` are signed differences of runs, and `capacity` is the rest; all three can be negative.
    """
    difference = {row.component: row.difference for row in rows}
    associativity, mshr = difference["associativity"], difference["mshrs"]
    compulsory = result.misses.compulsory
    return {
        "compulsory": compulsory,
        "capacity": result.misses.total - compulsory - associativity - mshr,
        "associativity": associativity,
        "mshr": mshr,
        "latency": result.latency_misses,
    }
