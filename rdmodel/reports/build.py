"""Run the model and the simulator on kernels, and collect the results in a `Report`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rdmodel import presets
from rdmodel.common.checks import check_flag
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.progress import Progress, stage
from rdmodel.common.text import size_text
from rdmodel.comparison.compare import check_definitions, compare
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.cache import MAX_TAG_WAYS
from rdmodel.gpu.config import GPU, CacheConfig, replace
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.locality_analysis._locality import Accesses
from rdmodel.locality_analysis.classify import locality_of
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import FOREIGN_OPTIONS, PAPER_STORES, Definition, Options
from rdmodel.model.predict import predict
from rdmodel.model.round_robin import round_robin_setup
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.report import Report
from rdmodel.results.origins import Origins
from rdmodel.results.prediction import Prediction
from rdmodel.timing.launch_time import time
from rdmodel.timing.values import TimeEstimate
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace
from rdmodel.trace.summary import summarise

MODEL_EXTENT = ("sms", "model_sms", "threads", "blocks")
"""Options that choose the modelled SMs and blocks; all runs of the model share them."""

SIMULATION_EXTENT = ("sms", "blocks")
"""Options that choose the simulated SMs and blocks."""


def report(
    traces: Trace | Iterable[Trace],
    gpu: str | GPU | None = None,
    *,
    definitions: Sequence[Definition] = ("hardware",),
    seed: int = 0,
    seeds: int = 1,
    l2: bool = False,
    ablation: bool = True,
    what_ifs: Mapping[str, GPU] | None = None,
    simulate: bool = False,
    all_blocks: bool = False,
    n_jobs: int = -1,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Analyse the cache behaviour of kernels: predictions, reuse distances, changed GPUs, and a simulation.

    Parameters
    ----------
    traces
        One trace or several.
    gpu
        Name of a preset, or a `GPU`. None means `presets.DEFAULT_GPU`, and `presets.PAPER_GPU` if ``"paper"`` is among
        the `definitions`.
    definitions
        Definitions of the model. The first one also predicts the changed GPUs.
    seed
        Seed of the random draws of the model.
    seeds
        Number of runs of the model with consecutive seeds. Several runs give means and 95 % intervals.
    l2
        Model the shared L2 as well.
    ablation
        Run again with each component of the model switched off in turn.
    what_ifs
        Changed GPUs by name. None means `usual_what_ifs`.
    simulate
        Simulate the whole grid once, for a `Comparison` with the model and for the `Locality`.
    all_blocks
        Summarise all blocks of a trace instead of the modelled ones.
    n_jobs
        Number of threads. -1 means one per core.
    progress
        Called with the number of finished steps and the number of steps in all, over all runs of a kernel.
    options
        Further options of `predict`. With several definitions, an option that only one of them has goes to that one.

    Returns
    -------
    Report
        The results of every kernel.

    Raises
    ------
    ConfigError
        For an option that is unknown or out of range, or if there are no traces.
    TraceError
        For a value that is not a `Trace`, or a trace that cannot be modelled.
    RdmodelError
        Any other error of `predict`, `compare` or `locality`.
    """
    chosen_definitions = check_definitions(definitions)
    gpu = presets.gpu_or_default(gpu, chosen_definitions)
    for name, value in (("l2", l2), ("ablation", ablation), ("simulate", simulate), ("all_blocks", all_blocks)):
        check_flag(name, value)
    plan = _Plan(
        gpu=gpu,
        definitions=chosen_definitions,
        what_ifs=usual_what_ifs(gpu) if what_ifs is None else _check_what_ifs(what_ifs),
        common={"seed": seed, "seeds": seeds, "l2": l2, "n_jobs": n_jobs, "histogram": False},
        ablation=ablation,
        simulate=simulate,
        all_blocks=all_blocks,
        options=options,
    )
    kernels = tuple(plan.run(trace, progress) for trace in ([traces] if isinstance(traces, Trace) else traces))
    if not kernels:
        raise ConfigError("traces: there is nothing to report on; give at least one trace")
    return Report(gpu=gpu, kernels=kernels)


def usual_what_ifs(gpu: GPU) -> dict[str, GPU]:
    """Return GPUs with other L1s by name: half, twice and four times as large, and fully associative.

    The size changes by the number of ways: the sets, and the index function that maps lines to them, stay the same. An
    L1 whose data belong to no set has at most `MAX_TAG_WAYS` tags in a set, and no larger one by this rule.
    """
    l1 = gpu.l1
    ways = [l1.ways // 2] if l1.ways % 2 == 0 else []
    most = MAX_TAG_WAYS if l1.tag_sets else 4 * l1.ways
    sizes = {n: l1.size // l1.ways * n for n in (*ways, 2 * l1.ways, 4 * l1.ways) if n <= most}
    gpus = {f"L1 of {size_text(size)}, {n} ways": _own_l1(l1, size, n) for n, size in sizes.items()}
    if l1.sets > 1:
        size = "the same size" if l1.unified else size_text(l1.size)
        gpus[f"L1 of {size}, fully associative"] = l1.fully_associative()
    return {name: gpu.replace(l1=changed) for name, changed in gpus.items()}


def _own_l1(l1: CacheConfig, size: int, ways: int) -> CacheConfig:
    """Return an L1 of another size, with memory of its own, so that it has this size in every launch."""
    resized: CacheConfig = replace(l1, size=size, ways=ways, unified=0, carveouts=(), carveout="auto")
    return resized


# ---- one kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The runs of a report, which are the same for every kernel."""

    gpu: GPU
    definitions: tuple[Definition, ...]
    what_ifs: Mapping[str, GPU]
    common: Mapping[str, Any]
    ablation: bool
    simulate: bool
    all_blocks: bool
    options: Mapping[str, Any]

    def run(self, trace: Trace, progress: Progress | None) -> KernelReport:
        """Return the results of all runs; the model runs first, because it checks the options."""
        check_trace(trace, "traces")
        runs = len(self.definitions) + len(self.what_ifs) + 1 + self.common["l2"] + self.simulate
        stages = (stage(progress, number, runs) for number in range(runs))
        predictions = self._predictions(trace, stages)
        results: dict[str, Any] = {"origins": self._origins(trace, predictions[self.definitions[0]], stages)}
        results["predictions"] = {name: _without_origins(run) for name, run in predictions.items()}
        results["what_ifs"] = self._what_ifs(trace, stages)
        turning, turns = round_robin_setup(self.gpu)
        turns |= {"seed": self.common["seed"], "n_jobs": self.common["n_jobs"], **self._chosen(MODEL_EXTENT)}
        results["reuse"] = predict(trace, turning, progress=next(stages), **turns)
        if self.simulate:
            results |= self._simulation(trace, next(stages))
        summary = summarise(trace, self.gpu.l1.line, self._blocks(trace))
        occupancy = compute_occupancy(trace.launch, self.gpu)
        timed = self._time(trace)
        return KernelReport(source=trace.launch.kernel, summary=summary, occupancy=occupancy, timed=timed, **results)

    def _time(self, trace: Trace) -> TimeEstimate | None:
        """Return the time of the launch; None for a GPU without rates, and for a trace that lacks blocks."""
        try:
            return time(trace, self.gpu, seed=self.common["seed"])
        except (ConfigError, TraceError):
            return None

    def _predictions(self, trace: Trace, stages: Iterator[Progress | None]) -> dict[Definition, Prediction]:
        """Return a prediction per definition; the first one counts by origin unless its grid might be sampled."""
        return {
            definition: predict(
                trace,
                self.gpu,
                ablation=self.ablation,
                origins=definition == self.definitions[0] and not self.common["l2"],
                progress=next(stages),
                **self.common,
                **self._options_of(definition),
            )
            for definition in self.definitions
        }

    def _origins(self, trace: Trace, first: Prediction, stages: Iterator[Progress | None]) -> Origins | None:
        """Return the counters by origin of the first prediction, or of a run without the L2 if it has none."""
        if first.origins is not None:
            return first.origins
        options = {**self.common, **self._options_of(self.definitions[0]), "l2": False, "origins": True}
        return predict(trace, self.gpu, progress=next(stages), **options).origins

    def _what_ifs(self, trace: Trace, stages: Iterator[Progress | None]) -> dict[str, Any]:
        options = self._options_of(self.definitions[0])
        return {
            name: predict(trace, gpu, progress=next(stages), **self.common, **options)
            for name, gpu in self.what_ifs.items()
        }

    def _simulation(self, trace: Trace, progress: Progress | None) -> dict[str, Any]:
        """Return the comparison and the locality of one simulation."""
        accesses = Accesses(self._chosen(SIMULATION_EXTENT).get("sms") or self.gpu.sms)
        comparison = compare(
            trace,
            self.gpu,
            definitions=self.definitions,
            seed=self.common["seed"],
            observe=accesses.feed,
            progress=progress,
            **self._chosen(SIMULATION_EXTENT),
        )
        if not comparison.simulation.loads:
            return {"comparison": comparison}
        locality = locality_of(accesses, comparison.simulation, trace, self.gpu.l1)
        return {"comparison": comparison, "locality": locality}

    def _blocks(self, trace: Trace) -> Sequence[int] | None:
        """Return the ids of the blocks to summarise, or None for all."""
        if self.all_blocks:
            return None
        assert trace.blocks is not None
        stored = trace.blocks if isinstance(trace.blocks, range) else frozenset(trace.blocks)
        modelled = modelled_blocks(trace.launch, Options(**self._chosen(MODEL_EXTENT)).resolve(self.gpu))
        return [block for block in modelled if block in stored]

    def _options_of(self, definition: Definition) -> dict[str, Any]:
        """Return the options of one definition, without options that only the other one of several has."""
        foreign = FOREIGN_OPTIONS[definition] if len(self.definitions) > 1 else ()
        options = {name: value for name, value in self.options.items() if name not in foreign}
        if foreign and definition == "paper" and options.get("stores") not in (None, False, True, *PAPER_STORES):
            del options["stores"]
        return {"definition": definition, **options}

    def _chosen(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.options[name] for name in names if name in self.options}


def _without_origins(prediction: Prediction) -> Prediction:
    """Return a prediction as it is without the counters by origin, which stand beside it in a report."""
    runs = tuple(dataclasses.replace(run, origins=None) for run in prediction.runs)
    return dataclasses.replace(prediction, origins=None, runs=runs)


# ---- what if


def _check_what_ifs(what_ifs: Mapping[str, GPU]) -> dict[str, GPU]:
    if not isinstance(what_ifs, Mapping):
        raise ConfigError(f"what_ifs={what_ifs!r}: must be a mapping from names to GPUs")
    return {str(name): presets.gpu(gpu) for name, gpu in what_ifs.items()}
