"""`report`: everything that a page tells of a kernel, run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmodel import presets
from rdmodel.common.checks import check_flag
from rdmodel.common.progress import Progress, stage
from rdmodel.common.text import size_text
from rdmodel.comparison.compare import check_definitions, compare
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU, replace
from rdmodel.locality_analysis._locality import Accesses
from rdmodel.locality_analysis.classify import locality_of
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import FOREIGN, Definition, Options
from rdmodel.model.predict import predict
from rdmodel.model.round_robin import in_turns
from rdmodel.policies import Linear
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.report import Report
from rdmodel.trace import Trace
from rdmodel.trace.summary import summarise

EXTENT = ("sms", "model_sms", "threads", "blocks")
"""Options that say which SMs and blocks are looked at; all runs of the model share them."""

GRID = ("sms", "blocks")
"""Those of them that a simulation has."""


def report(
    traces: Trace | Iterable[Trace],
    gpu: str | GPU = "gtx470-16k",
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
    """Run everything that tells what the caches do with a kernel, or several, and why.

    Each kernel is predicted with every one of `definitions` (`l2` and `ablation` as in `predict`) and, with the first,
    for each machine of `what_ifs` (None: `usual_what_ifs`); its reuse distances are counted with warps that take
    turns; and it is summarised, with `all_blocks` all of it that the trace holds, else what is modelled. `simulate`
    runs the simulator on the whole grid, once, for a `Comparison` with the model and for the `Locality`. `options` are
    further ones of `predict`; one that only one of several definitions has goes to that one. `seed` and `seeds` are
    the model's. `progress` is called with the runs of a kernel together.

    Raises what `predict`, `compare` and `locality` raise.
    """
    machine = presets.gpu(gpu)
    for name, value in (("l2", l2), ("ablation", ablation), ("simulate", simulate), ("all_blocks", all_blocks)):
        check_flag(name, value)
    plan = _Plan(
        machine=machine,
        definitions=check_definitions(definitions),
        what_ifs=usual_what_ifs(machine) if what_ifs is None else _machines(what_ifs),
        common={"seed": seed, "seeds": seeds, "l2": l2, "n_jobs": n_jobs, "histogram": False},
        ablation=ablation,
        simulate=simulate,
        all_blocks=all_blocks,
        options=options,
    )
    kernels = tuple(plan.run(trace, progress) for trace in ([traces] if isinstance(traces, Trace) else traces))
    if not kernels:
        raise ConfigError("traces: there is nothing to report")
    return Report(gpu=machine, kernels=kernels)


def usual_what_ifs(gpu: GPU) -> dict[str, GPU]:
    """Return machines that differ in their L1, by what differs.

    Half, two and four times its size, by ways, so that the sets and what the index function makes of addresses stay
    the same; and its size, fully associative.
    """
    l1 = gpu.l1
    ways = [l1.ways // 2] if l1.ways % 2 == 0 else []
    sizes = {n: l1.size // l1.ways * n for n in (*ways, 2 * l1.ways, 4 * l1.ways)}
    found = {f"L1 of {size_text(size)}, {n} ways": replace(l1, size=size, ways=n) for n, size in sizes.items()}
    if l1.sets > 1:
        found[f"L1 of {size_text(l1.size)}, fully associative"] = replace(l1, ways=l1.lines, index=Linear())
    return {name: gpu.replace(l1=changed) for name, changed in found.items()}


# ---- one kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is run of every kernel."""

    machine: GPU
    definitions: tuple[Definition, ...]
    what_ifs: Mapping[str, GPU]
    common: Mapping[str, Any]
    ablation: bool
    simulate: bool
    all_blocks: bool
    options: Mapping[str, Any]

    def run(self, trace: Trace, progress: Progress | None) -> KernelReport:
        """Run it all; the model first, which refuses what cannot be run."""
        if not isinstance(trace, Trace):
            raise TraceError(f"traces: {trace!r} must be a Trace (tracegen.kernel, rdmodel.load)")
        runs = len(self.definitions) + len(self.what_ifs) + 1 + self.simulate
        stages = (stage(progress, number, runs) for number in range(runs))
        known: dict[str, Any] = {"predictions": self._predictions(trace, stages)}
        known["what_ifs"] = self._what_ifs(trace, stages)
        turning, turns = in_turns(self.machine)
        turns |= {"seed": self.common["seed"], "n_jobs": self.common["n_jobs"], **self._chosen(EXTENT)}
        known["reuse"] = predict(trace, turning, progress=next(stages), **turns)
        if self.simulate:
            known |= self._simulation(trace, next(stages))
        summary = summarise(trace, self.machine.l1.line, self._blocks(trace))
        return KernelReport(source=trace.launch.kernel, summary=summary, **known)

    def _predictions(self, trace: Trace, stages: Iterator[Progress | None]) -> dict[Definition, Any]:
        return {
            one: predict(
                trace,
                self.machine,
                ablation=self.ablation,
                progress=next(stages),
                **self.common,
                **self._own(one),
            )
            for one in self.definitions
        }

    def _what_ifs(self, trace: Trace, stages: Iterator[Progress | None]) -> dict[str, Any]:
        own = self._own(self.definitions[0])
        return {
            name: predict(trace, machine, progress=next(stages), **self.common, **own)
            for name, machine in self.what_ifs.items()
        }

    def _simulation(self, trace: Trace, progress: Progress | None) -> dict[str, Any]:
        """Return the comparison and the locality of one and the same simulation."""
        accesses = Accesses(self._chosen(GRID).get("sms") or self.machine.sms)
        comparison = compare(
            trace,
            self.machine,
            definitions=self.definitions,
            seed=self.common["seed"],
            observe=accesses.feed,
            progress=progress,
            **self._chosen(GRID),
        )
        locality = locality_of(accesses, comparison.simulation, trace, self.machine.l1)
        return {"comparison": comparison, "locality": locality}

    def _blocks(self, trace: Trace) -> Sequence[int] | None:
        """Return the ids of the blocks to be summarised; None: all."""
        if self.all_blocks:
            return None
        assert trace.blocks is not None
        held = trace.blocks if isinstance(trace.blocks, range) else frozenset(trace.blocks)
        modelled = modelled_blocks(trace.launch, Options(**self._chosen(EXTENT)).resolve(self.machine))
        return [block for block in modelled if block in held]

    def _own(self, definition: Definition) -> dict[str, Any]:
        """Return the options for one definition: where there are several, without those that only others have."""
        foreign = FOREIGN[definition] if len(self.definitions) > 1 else ()
        options = {name: value for name, value in self.options.items() if name not in foreign}
        if foreign and definition == "paper" and options.get("stores") in ("step", "evict"):
            del options["stores"]
        return {"definition": definition, **options}

    def _chosen(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.options[name] for name in names if name in self.options}


# ---- what is asked for


def _machines(what_ifs: Mapping[str, GPU]) -> dict[str, GPU]:
    if not isinstance(what_ifs, Mapping):
        raise ConfigError(f"what_ifs={what_ifs!r}: must be machines by what was changed")
    return {str(name): presets.gpu(machine) for name, machine in what_ifs.items()}
