"""`predict`: the analytical model of docs/model.md, both definitions, on top of the compiled cores."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from threading import Event, Lock
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np

from rdmodel import presets, sharing
from rdmodel._model import (
    DONE,
    WANT_BLOCK,
    WANT_CHOICES,
    WANT_CHUNK,
    WANT_LATENCIES,
    Core,
    HardwareCore,
    PaperCore,
)
from rdmodel.coalescing import Chunk, StoreRule, WarpStream, open_block
from rdmodel.config import GPU, replace
from rdmodel.errors import ConfigError, TraceError, unknown
from rdmodel.launch import cap_blocks, deal, residency
from rdmodel.options import Options, Sched
from rdmodel.policies import Linear, index_function
from rdmodel.progress import Progress
from rdmodel.randomness import Draws
from rdmodel.result import Ablation, L2Prediction, MissCounts, Prediction, SmCounts, describe, mean_l2
from rdmodel.reuse import Histogram
from rdmodel.sampling import Group, check_sampling, choose_sms, estimates_of_sms, strata
from rdmodel.stretches import Plan, Sampled, Stretch, estimates_of_blocks, minus, plan
from rdmodel.threads import Stop, check_jobs, in_turn
from rdmodel.trace import Trace

DRAWS_PER_BATCH = 4096
FIRST_BATCH = 512
"""Random numbers that are drawn at a time, and at first: short runs need few. They are the same for any batches."""

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
    study = _Study(trace, seed, seeds, n_jobs, progress)
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


# ---- several runs: seeds, ablation, breakdown

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


Case = tuple[GPU, Options, bool]
"""A machine, how it runs, and whether reuse distances are wanted."""


@dataclass(frozen=True, slots=True)
class _Study:
    """All runs of one call: the same trace and seeds, different machines and options."""

    trace: Trace
    seed: int
    seeds: int
    n_jobs: int
    progress: Progress | None

    def run(self, cases: Sequence[Case]) -> list[Prediction]:
        """Return for each case the mean over the seeds."""
        runs = [_Run(self.trace, *case, seed) for case in cases for seed in range(self.seed, self.seed + self.seeds)]
        found = self._all(runs)
        groups = (found[at : at + self.seeds] for at in range(0, len(found), self.seeds))
        return [_average(group) if self.seeds > 1 else group[0] for group in groups]

    def sample_sms(self, gpu: GPU, options: Options, histogram: bool, size: int) -> Prediction:
        """Return what some of the SMs counted, and what that says of all."""
        assert options.sms is not None
        per_sm = deal(self.trace.launch, dataclasses.replace(options, model_sms=options.sms))
        groups = strata({sm: len(blocks) for sm, blocks in enumerate(per_sm)})
        chosen = choose_sms(groups, size, self.seed)
        sms = sorted(sm for group in chosen for sm in group)
        [result] = self._all([_SmsRun(self.trace, gpu, options, histogram, self.seed, tuple(sms))])
        found = {sm.sm: sm for sm in result.per_sm}
        estimates = estimates_of_sms(
            [
                Group([found[sm] for sm in some], len(group), sum(len(per_sm[sm]) for sm in group))
                for some, group in zip(chosen, groups, strict=True)
            ]
        )
        return dataclasses.replace(result, estimates=estimates, config={**result.config, "sample_sms": sms})

    def sample_blocks(self, gpu: GPU, options: Options, share: float) -> Prediction:
        """Return what some stretches of the SMs' blocks say of all of them."""
        resident = residency(self.trace.launch, gpu).blocks
        dealt = deal(self.trace.launch, options)
        plans = tuple(plan(len(blocks), resident, share, self.seed, sm) for sm, blocks in enumerate(dealt))
        [result] = self._all([_BlocksRun(self.trace, gpu, options, False, self.seed, plans)])
        return dataclasses.replace(result, config={**result.config, "sample_blocks": share})

    def _all(self, runs: Sequence[_Run]) -> list[Prediction]:
        """Return the result of each run; their parts are shared out to the threads."""
        n_jobs = self.n_jobs if self.trace.any_order else 1
        watch = _Watch(sum(run.blocks for run in runs), self.progress)
        parts = [partial(part, watch.clock()) for run in runs for part in run.parts()]
        watch.in_threads = n_jobs != 1 and len(parts) > 1
        found: list[Prediction] = []
        with closing(in_turn(parts, n_jobs, watch.stop, watch.look)) as results:
            for run in runs:
                found.append(run.result([next(results) for _ in run.parts()]))  # noqa: PERF401, errors come in turn
        watch.look()
        return found


COUNTERS = ("transactions", "hits", "latency_misses", "stalls_mshr", "stalls_ways", "bypassed", "steps")
CAUSES = ("compulsory", "capacity", "associativity")


def _average(runs: Sequence[Prediction]) -> Prediction:
    """Return the mean of runs over seeds; times are summed, the histogram holds all runs."""
    histograms = [run.histogram for run in runs if run.histogram is not None]
    return dataclasses.replace(
        runs[0],
        **_means(runs),
        histogram=_sum_histograms(histograms) if histograms else None,
        l2=mean_l2([run.l2 for run in runs if run.l2 is not None]) if runs[0].l2 is not None else None,
        trace_seconds=sum(run.trace_seconds for run in runs),
        seconds=sum(run.seconds for run in runs),
        config={**runs[0].config, "seeds": len(runs)},
        per_sm=tuple(
            dataclasses.replace(sms[0], **_means(sms)) for sms in zip(*(run.per_sm for run in runs), strict=True)
        ),
        runs=tuple(runs),
    )


def _means(counts: Sequence[Prediction] | Sequence[SmCounts]) -> dict[str, Any]:
    """Return the mean of every counter."""
    return _each_counter(lambda values: float(sum(values) / len(values)), counts)


def _each_counter(
    combine: Callable[[Sequence[float]], float], counts: Sequence[Prediction] | Sequence[SmCounts]
) -> dict[str, Any]:
    """Return what `combine` makes of the values of every counter, by the counter's name."""

    def combined(name: str) -> float:
        return combine([attrgetter(name)(one) for one in counts])

    misses = MissCounts(*(combined(f"misses.{cause}") for cause in CAUSES))
    return {"misses": misses, **{name: combined(name) for name in COUNTERS}}


def _sum_histograms(histograms: Sequence[Histogram]) -> Histogram:
    if len(histograms) == 1:
        return histograms[0]
    ends = [int(histogram.distances[-1]) + 1 for histogram in histograms if len(histogram.distances)]
    counts = np.zeros(max(ends, default=0), np.int64)
    for histogram in histograms:
        counts[histogram.distances] += histogram.counts
    return Histogram.from_dense(counts, sum(histogram.infinite for histogram in histograms))


# ---- one run


@dataclass(frozen=True, slots=True)
class _Part:
    """What one SM, or several that share a dispatcher, came to."""

    counts: list[SmCounts]
    histograms: list[Histogram]
    trace_seconds: float
    seconds: float
    l2: L2Prediction | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: a case and a seed."""

    trace: Trace
    gpu: GPU
    options: Options
    track: bool
    seed: int

    @property
    def blocks(self) -> int:
        """How many blocks are run, over all SMs."""
        return sum(len(blocks) for _, blocks in self._dealt)

    @property
    def _dealt(self) -> list[tuple[int, Sequence[int]]]:
        return list(enumerate(deal(self.trace.launch, self.options)))

    @property
    def _dispatched(self) -> bool:
        return self.options.model_sms == "all" and self.options.definition == "hardware"

    def parts(self) -> list[Callable[[_Clock], _Part]]:
        """Return the parts of the run that do not wait for each other."""
        if self._dispatched or self.options.l2:
            return [self._run_together]
        return [partial(self._run_alone, sm, blocks) for sm, blocks in self._dealt]

    def _run_alone(self, sm: int, blocks: Sequence[int], clock: _Clock) -> _Part:
        started = perf_counter()
        one = self._sm(sm, clock)
        one.run(iter(blocks))
        return self._part([one], clock, started)

    def _run_together(self, clock: _Clock) -> _Part:
        started = perf_counter()
        dealt = self._dealt
        sms = [self._sm(sm, clock) for sm, _ in dealt]
        cap = cap_blocks(self.trace.launch, self.options)
        shared = iter(range(self.blocks))
        if not self.options.l2:
            _dispatch(sms, shared, cap)
            return self._part(sms, clock, started)
        l2 = sharing.SharedL2(self.gpu, len(sms))
        supplies = [shared if self._dispatched else iter(blocks) for _, blocks in dealt]
        sharing.run_side_by_side(sms, supplies, cap, l2)
        return dataclasses.replace(self._part(sms, clock, started), l2=l2.prediction())

    def _sm(self, sm: int, clock: _Clock) -> _Sm:
        launch = self.trace.launch
        core = _make_core(self.gpu, self.options, residency(launch, self.gpu).blocks, launch.block_warps, self.track)
        return _Sm(self.trace, core, self.gpu, self.options, self.seed, sm, clock)

    def _part(self, sms: Sequence[_Sm], clock: _Clock, started: float) -> _Part:
        seconds = perf_counter() - started - clock.trace_seconds - clock.waited
        histograms = [sm.histogram() for sm in sms] if self.track else []
        return _Part([sm.counts() for sm in sms], histograms, clock.trace_seconds, seconds)

    def result(self, parts: Sequence[_Part]) -> Prediction:
        """Return what all parts say together."""
        counts = [sm for part in parts for sm in part.counts]
        if not any(sm.transactions for sm in counts):
            raise TraceError(
                f"the modelled blocks of {self.trace.launch.kernel} hold no loads"
                + ("" if self.options.stores == "allocate" else " (stores are not modelled; option stores)")
            )
        # SMs run side by side: their counts add up, their time does not.
        totals = {**_each_counter(sum, counts), "steps": max(sm.steps for sm in counts)}
        histograms = [histogram for part in parts for histogram in part.histograms]
        return Prediction(
            kernel=self.trace.launch.kernel,
            gpu=self.gpu.name,
            definition=self.options.definition,
            seed=self.seed,
            sms_modelled=len(counts),
            **totals,
            histogram=_sum_histograms(histograms) if self.track else None,
            l2=parts[0].l2,
            trace_seconds=sum(part.trace_seconds for part in parts),
            seconds=sum(part.seconds for part in parts),
            config={**describe(self.trace, self.gpu, self.options, self.seed), "seeds": 1},
            per_sm=tuple(counts),
        )


@dataclass(frozen=True, slots=True)
class _SmsRun(_Run):
    """A run of some of the SMs."""

    sms: tuple[int, ...]

    @property
    def _dealt(self) -> list[tuple[int, Sequence[int]]]:
        assert self.options.sms is not None
        per_sm = deal(self.trace.launch, dataclasses.replace(self.options, model_sms=self.options.sms))
        return [(sm, per_sm[sm]) for sm in self.sms]


@dataclass(frozen=True, slots=True)
class _BlocksRun(_Run):
    """A run of some stretches of the SMs' blocks; `plans` has one plan per modelled SM."""

    plans: tuple[Plan, ...]

    @property
    def blocks(self) -> int:
        """How many blocks are run, over all SMs; those before a stretch too."""
        return sum(one.run for one in self.plans)

    def parts(self) -> list[Callable[[_Clock], _Part]]:
        """Return the SMs: the stretches of one follow each other on it."""
        return [
            partial(self._run_stretches, sm, blocks, one)
            for (sm, blocks), one in zip(self._dealt, self.plans, strict=True)
        ]

    def _run_stretches(self, sm: int, blocks: Sequence[int], one: Plan, clock: _Clock) -> _Part:
        started = perf_counter()
        counts = self._sm(sm, clock).run_stretches(blocks, one.parts, residency(self.trace.launch, self.gpu).blocks)
        return _Part(counts, [], clock.trace_seconds, perf_counter() - started - clock.trace_seconds - clock.waited)

    def result(self, parts: Sequence[_Part]) -> Prediction:
        """Return what the stretches say of all blocks of their SMs."""
        sms = [
            Sampled(one, tuple(part.counts[::2]), tuple(part.counts[1::2]))
            for one, part in zip(self.plans, parts, strict=True)
        ]
        part = _Part([sm.total() for sm in sms], [], sum(p.trace_seconds for p in parts), sum(p.seconds for p in parts))
        return dataclasses.replace(_Run.result(self, [part]), estimates=estimates_of_blocks(sms))


SCHEDULERS = get_args(Sched)
STORE_MODES = {"free": 0, "step": 1, "evict": 2, "allocate": 0}


def _make_core(gpu: GPU, options: Options, slots: int, block_warps: int, track: bool) -> Core:
    l1 = gpu.l1

    def limit(value: int | None) -> int:
        return -1 if value is None else value

    assert options.lat_min is not None and options.hit_latency is not None
    common: dict[str, Any] = {
        "sets": l1.sets,
        "ways": l1.ways,
        "index": l1.index_code(),
        "mshrs": limit(l1.mshrs),
        "mshr_merge": limit(l1.mshr_merge),
        "mshr_per_warp": limit(l1.mshr_per_warp),
        "slots": slots,
        "block_warps": block_warps,
        "waves": options.cta == "waves",
        "lat_min": options.lat_min,
        "hit_latency": options.hit_latency,
        "divergence": options.divergence,
        "track": track,
        "log_full": sharing.LOG_FULL if options.l2 else 0,
    }
    if options.definition == "paper":
        return PaperCore(before=options.effects == "before", clip=options.clip, **common)
    return HardwareCore(
        sched=SCHEDULERS.index(options.sched),
        schedulers=options.schedulers,
        stores=STORE_MODES[options.stores],
        stagger=options.stagger,
        head=options.stall == "head",
        bypass=options.full_set == "bypass",
        whole=options.step == "instruction",
        gaps=options.gap,
        first_touch_factor=float(options.first_touch_factor),
        **common,
    )


def store_rule(options: Options) -> StoreRule:
    """Return what the model wants to see of stores under the given options."""
    if options.stores == "allocate":
        return StoreRule.AS_LOAD
    if options.l2 or options.stores == "evict":
        return StoreRule.LINES
    return StoreRule.DROP if options.definition == "paper" else StoreRule.KEEP


class _Watch:
    """What the parts of a study share: progress, the end of patience, and who may ask the trace for a block."""

    def __init__(self, blocks: int, progress: Progress | None) -> None:
        self.stop = Event()
        self.asking = Lock()
        self.in_threads = False
        self._blocks = blocks
        self._progress = progress
        self._clocks: list[_Clock] = []

    def clock(self) -> _Clock:
        """Return the clock of one more part."""
        self._clocks.append(_Clock(self))
        return self._clocks[-1]

    def look(self) -> None:
        """Tell how many blocks were begun; only ever called in the thread that began."""
        if self._progress is not None and (begun := sum(clock.begun for clock in self._clocks)):
            self._progress(begun, self._blocks)

    def tick(self) -> None:
        """Take note, in any thread, that work goes on."""
        if self.stop.is_set():
            raise Stop
        if not self.in_threads:
            self.look()


class _Clock:
    """Time that one part spent on traces and on waiting for others that did, and the blocks that it has begun."""

    def __init__(self, watch: _Watch) -> None:
        self.trace_seconds = 0.0
        self.waited = 0.0
        self.begun = 0
        self._watch = watch
        self.tick = watch.tick

    def open(self, trace: Trace, block: int, line: int, rule: StoreRule) -> list[WarpStream]:
        """Return the streams of a block; one thread at a time asks, whoever makes the trace."""
        came = perf_counter()
        with self._watch.asking:
            started = perf_counter()
            streams = open_block(trace, block, line, rule)
        self.waited += started - came
        self.trace_seconds += perf_counter() - started
        self.begun += 1
        return streams


class _Sm:
    """One SM: a core, and what feeds it."""

    def __init__(
        self,
        trace: Trace,
        core: Core,
        gpu: GPU,
        options: Options,
        seed: int,
        sm: int,
        clock: _Clock,
    ) -> None:
        assert options.sigma is not None
        self.sm = sm
        self.core = core
        self.begun = 0
        self._trace = trace
        self._line = gpu.l1.line
        self._rule = store_rule(options)
        self._make_draws = partial(Draws, seed, sm, options.sigma)
        self._batch = FIRST_BATCH
        self._left = np.empty(0, np.int64)
        self._streams: dict[int, WarpStream] = {}
        self._chunk = Chunk()
        self._clock = clock

    def run(self, blocks: Iterator[int]) -> None:
        """Run the SM to its end, with its blocks in order."""
        while self.run_to_block():
            self.give(next(blocks, None))

    def run_stretches(self, blocks: Sequence[int], parts: Sequence[Stretch], resident: int) -> list[SmCounts]:
        """Run the SM through parts of its blocks, in order, without emptying it in between.

        Returns for each part two counts: of the blocks that are counted, and of the wave before them.
        """
        found: list[SmCounts] = []
        asks = self.run_to_block()
        for part in parts:
            earlier = before = self.counts()
            for at in range(part.begin, part.last):
                if at == part.first - resident:
                    earlier = self.counts()
                if at == part.first:
                    before = self.counts()
                self.give(blocks[at])
                asks = self.run_to_block()
            while asks and part is parts[-1]:
                self.give(None)
                asks = self.run_to_block()
            found += [minus(self.counts(), before), minus(before, earlier)]
        return found

    def run_to_block(self) -> bool:
        """Run until a slot is free and asks for a block (``core.now`` says when); False: the SM is done."""
        while (wanted := self.core.run()) != DONE:
            if wanted == WANT_BLOCK:
                return True
            self.serve(wanted)
        return False

    def serve(self, wanted: int) -> None:
        """Give the core what it wants, other than a block."""
        if wanted == WANT_CHUNK:
            self._feed(self.core.subject)
            return
        self._batch = min(2 * self._batch, DRAWS_PER_BATCH)
        if wanted == WANT_LATENCIES:
            left = self._left[len(self._left) - self.core.latencies_left() :]
            self._left = np.concatenate([left, self._draws.latencies(self._batch)])
            self.core.put_latencies(self._left)
        else:
            assert wanted == WANT_CHOICES and isinstance(self.core, HardwareCore)
            self.core.put_choices(self._draws.choices(self._batch))

    def give(self, block: int | None) -> None:
        """Answer the request for a block."""
        slot = self.core.subject
        if block is None:
            self.core.decline_block(slot)
            return
        self.begun += 1
        streams = self._clock.open(self._trace, block, self._line, self._rule)
        self.core.begin_block(slot)
        for warp, stream in enumerate(streams, slot * len(streams)):
            self._streams[warp] = stream
            self._feed(warp)
            while not self.core.primed(warp):
                self._feed(warp)
        self.core.start_block(slot)

    def _feed(self, warp: int) -> None:
        self._clock.tick()
        started = perf_counter()
        chunk = self._chunk
        more = self._streams[warp].fill(chunk)
        self._clock.trace_seconds += perf_counter() - started
        self.core.put_chunk(warp, chunk.op, chunk.needs, chunk.gap, chunk.count, chunk.lines, chunk.n, chunk.used, more)

    @cached_property
    def _draws(self) -> Draws:
        # Made when they are needed: an SM without blocks draws nothing.
        return self._make_draws()

    def counts(self) -> SmCounts:
        core = self.core
        return SmCounts(
            sm=self.sm,
            blocks=self.begun,
            transactions=core.transactions,
            hits=core.hits,
            latency_misses=core.latency_misses,
            misses=MissCounts(core.compulsory, core.capacity, core.associativity),
            stalls_mshr=core.stalls_mshr,
            stalls_ways=core.stalls_ways,
            bypassed=core.bypassed,
            steps=core.now,
        )

    def histogram(self) -> Histogram:
        return Histogram.from_dense(self.core.histogram(), self.core.infinite)


def _dispatch(sms: Sequence[_Sm], blocks: Iterator[int], cap: int) -> None:
    """Run all SMs with one dispatcher: the SM whose slot is free first gets the next block.

    At time 0 all slots are free, and the blocks go round the SMs, also where a block is empty and its slot is free
    again at once. SMs meet nowhere else, so each runs on alone until it asks, and the earliest request is served first.
    """
    served = [0] * len(sms)
    requests: list[tuple[int, int, int]] = []

    def run_on(sm: _Sm) -> None:
        if sm.run_to_block():
            now = sm.core.now
            heapq.heappush(requests, (now, served[sm.sm] if now == 0 else 0, sm.sm))

    for sm in sms:
        run_on(sm)
    while requests:
        sm = sms[heapq.heappop(requests)[-1]]
        served[sm.sm] += 1
        sm.give(next(blocks, None) if sm.begun < cap else None)
        run_on(sm)
