"""`predict`: the analytical model of docs/model.md, both definitions, on top of the compiled cores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from rdmodel import presets
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, TraceError, unknown
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU, replace
from rdmodel.model.options import Options
from rdmodel.model.sample_sms import check_sampling
from rdmodel.model.study import Study
from rdmodel.policies import Linear, index_function
from rdmodel.results.prediction import Ablation, Prediction
from rdmodel.trace import Trace

L1_OPTIONS = ("mshrs", "mshr_merge", "mshr_per_warp", "index")
"""Options of `predict` that change a field of the GPU's L1."""

CALL_OPTIONS = ("seed", "seeds", "ablation", "breakdown", "histogram", "n_jobs", "sample_sms", "sample_blocks")
"""Arguments of `predict` itself."""


def predict(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    seed: int = 0,
    seeds: int = 1,
    ablation: bool = False,
    breakdown: Literal["paper"] | None = None,
    histogram: bool = True,
    n_jobs: int = -1,
    sample_sms: int | None = None,
    sample_blocks: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Prediction:
    """Predict what the L1 data cache does with a kernel launch.

    `gpu` is a preset's name, the path of a ``.toml`` file or a `GPU`. `options` are the fields of `Options` (of both
    definitions; ``stores=True`` means "allocate") and ``mshrs``, ``mshr_merge``, ``mshr_per_warp`` and ``index`` of
    the L1. `seeds` runs are made with the seeds `seed`, `seed` + 1, ... and averaged. With ``ablation=True`` the
    model is run again with one component off at a time; ``breakdown="paper"`` derives the five classes of figure 10
    from such runs. ``histogram=False`` saves the time for exact reuse distances.

    Raises `ConfigError`, `LaunchError` or `TraceError`. Time O(transactions), memory O(distinct lines + resident
    warps). Nugteren et al., HPCA 2014, section 4; definitions in docs/model.md.
    """
    if not isinstance(trace, Trace):
        raise TraceError(f"trace={trace!r}: must be a Trace (tracegen.kernel, rdmodel.load)")
    options = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    machine = _with_l1_options(presets.gpu(gpu), options)
    resolved = _make_options(options).resolve(machine)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"seed={seed!r}: must be a whole number of at least 0")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ConfigError(f"seeds={seeds!r}: must be a whole number of at least 1")
    if breakdown not in (None, "paper"):
        raise ConfigError(f"breakdown={breakdown!r}: must be None or 'paper'")
    check_jobs(n_jobs)
    if sample_sms is not None or sample_blocks is not None:
        check_sampling(sample_sms, sample_blocks)
        _check_one_run(resolved, sample_sms, seeds=seeds, ablation=ablation, breakdown=breakdown)
    study = Study(trace, seed, seeds, n_jobs, progress)
    if sample_sms is not None:
        return study.sample_sms(machine, resolved, histogram, sample_sms)
    if sample_blocks is not None:
        return study.sample_blocks(machine, resolved, sample_blocks)
    components = ABLATIONS if ablation else ("associativity", "mshrs") if breakdown == "paper" else ()
    plain = dataclasses.replace(resolved, l2=False)
    cases = [(machine, resolved, histogram), *((*_without(one, machine, plain), False) for one in components)]
    result, *others = study.run(cases)
    rows = tuple(
        Ablation(component=one, misses=other.misses.total, difference=result.misses.total - other.misses.total)
        for one, other in zip(components, others, strict=True)
    )
    if ablation:
        result = dataclasses.replace(result, ablation=rows)
    if breakdown == "paper":
        result = dataclasses.replace(result, breakdown=_paper_breakdown(result, rows))
    return result


def _check_one_run(options: Options, sample_sms: int | None, **runs: Any) -> None:
    """Raise `ConfigError` for what cannot be had of a sample."""
    name = "sample_blocks" if sample_sms is None else "sample_sms"
    for other, value in runs.items():
        if value not in (None, False) and (other, value) != ("seeds", 1):
            raise ConfigError(f"{name}: not together with {other}, a sample is of one run")
    if options.l2:
        raise ConfigError(f"{name}: not together with l2, which the requests of all modelled blocks go through")
    if sample_sms is not None and options.model_sms != 1:
        raise ConfigError(f"sample_sms={sample_sms}: not together with model_sms, it says which SMs are modelled")
    assert options.sms is not None
    if sample_sms is not None and sample_sms > options.sms:
        raise ConfigError(f"sample_sms={sample_sms}: there are {options.sms} SMs")
    if sample_sms is None and options.model_sms == "all" and options.definition == "hardware":
        raise ConfigError("sample_blocks: not together with model_sms='all', where one dispatcher needs all blocks")
    if sample_sms is None and options.first_touch_factor != 1:
        raise ConfigError(
            "sample_blocks: not together with first_touch_factor, a stretch does not know what was touched"
        )


def _make_options(options: Mapping[str, Any]) -> Options:
    known = [f.name for f in dataclasses.fields(Options)]
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *L1_OPTIONS, *CALL_OPTIONS]))
    stores = options.get("stores", "free")
    if isinstance(stores, bool):
        stores = "allocate" if stores else "free"
    return Options(**{**options, "stores": stores})


def _with_l1_options(gpu: GPU, options: dict[str, Any]) -> GPU:
    changes = {name: options.pop(name) for name in L1_OPTIONS if name in options}
    if isinstance(changes.get("index"), str):
        changes["index"] = index_function(changes["index"])
    changes = {k: None if v == float("inf") else v for k, v in changes.items()}
    return gpu.replace(l1=replace(gpu.l1, **changes)) if changes else gpu


# ---- ablation, breakdown

ABLATIONS = ("associativity", "latency", "mshrs", "divergence", "cta")


def _without(component: str, gpu: GPU, options: Options) -> tuple[GPU, Options]:
    """Return the machine and options with one component of the model switched off (Nugteren et al., 6.1)."""
    if component == "associativity":
        return gpu.replace(l1=replace(gpu.l1, ways=gpu.l1.lines, index=Linear())), options
    if component == "mshrs":
        return gpu.replace(l1=replace(gpu.l1, mshrs=None, mshr_merge=None, mshr_per_warp=None)), options
    if component == "latency":
        return gpu, dataclasses.replace(options, lat_min=0, sigma=0.0, hit_latency=0)
    if component == "divergence":
        return gpu, dataclasses.replace(options, divergence=False)
    assert component == "cta"
    return gpu, dataclasses.replace(options, cta="waves" if options.cta == "replace" else "replace")


def _paper_breakdown(result: Prediction, rows: Sequence[Ablation]) -> dict[str, float]:
    """Return the five classes of figure 10; associativity, mshr and so capacity are signed differences of runs."""
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
