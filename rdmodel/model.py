"""`predict`: the analytical model of docs/model.md, both definitions, on top of the compiled cores."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
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
from rdmodel.result import Ablation, MissCounts, Prediction, SmCounts, describe, mean_l2
from rdmodel.reuse import Histogram
from rdmodel.trace import Trace

DRAWS_PER_BATCH = 4096

L1_OPTIONS = ("mshrs", "mshr_merge", "mshr_per_warp", "index")
"""Options of `predict` that change a field of the GPU's L1."""


def predict(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    seed: int = 0,
    seeds: int = 1,
    ablation: bool = False,
    breakdown: Literal["paper"] | None = None,
    histogram: bool = True,
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
    study = _Study(trace, seed, seeds, progress)
    result = study.run(machine, resolved, histogram)
    if ablation:
        rows = study.ablate(machine, resolved, result, ABLATIONS)
        result = dataclasses.replace(result, ablation=rows)
    if breakdown == "paper":
        rows = result.ablation or study.ablate(machine, resolved, result, ("associativity", "mshrs"))
        result = dataclasses.replace(result, breakdown=_paper_breakdown(result, rows))
    return result


def _make_options(options: Mapping[str, Any]) -> Options:
    known = [f.name for f in dataclasses.fields(Options)]
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *L1_OPTIONS, "seed", "seeds", "ablation", "breakdown"]))
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


@dataclass(frozen=True, slots=True)
class _Study:
    """All runs of one call: the same trace and seeds, different machines and options."""

    trace: Trace
    seed: int
    seeds: int
    progress: Progress | None

    def run(self, gpu: GPU, options: Options, histogram: bool) -> Prediction:
        runs = [
            _run_once(self.trace, gpu, options, seed, histogram, self.progress)
            for seed in range(self.seed, self.seed + self.seeds)
        ]
        return runs[0] if self.seeds == 1 else _average(runs)

    def ablate(self, gpu: GPU, options: Options, full: Prediction, components: Sequence[str]) -> tuple[Ablation, ...]:
        rows = []
        options = dataclasses.replace(options, l2=False)
        for component in components:
            misses = self.run(*_without(component, gpu, options), histogram=False).misses.total
            rows.append(Ablation(component=component, misses=misses, difference=full.misses.total - misses))
        return tuple(rows)


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
    counts: dict[int, int] = {}
    for histogram in histograms:
        for distance, count in histogram.items():
            counts[distance] = counts.get(distance, 0) + count
    return _histogram_of(counts)


def _histogram_of(counts: Mapping[int, int]) -> Histogram:
    finite = sorted(distance for distance in counts if distance >= 0)
    return Histogram(np.array(finite, np.int64), np.array([counts[d] for d in finite], np.int64), counts.get(-1, 0))


# ---- one run


def _run_once(
    trace: Trace, gpu: GPU, options: Options, seed: int, track: bool, progress: Progress | None
) -> Prediction:
    slots = residency(trace.launch, gpu).blocks
    per_sm = deal(trace.launch, options)
    total = sum(map(len, per_sm))
    clock = _Clock(total, progress)
    sms = [
        _Sm(trace, _make_core(gpu, options, slots, trace.launch.block_warps, track), gpu, options, seed, sm, clock)
        for sm in range(len(per_sm))
    ]
    started = perf_counter()
    dispatched = options.model_sms == "all" and options.definition == "hardware"
    l2 = sharing.SharedL2(gpu, len(sms)) if options.l2 else None
    if l2 is not None:
        supplies = [iter(range(total))] * len(sms) if dispatched else [iter(blocks) for blocks in per_sm]
        sharing.run_side_by_side(sms, supplies, cap_blocks(trace.launch, options), l2)
    elif dispatched:
        _dispatch(sms, iter(range(total)), cap_blocks(trace.launch, options))
    else:
        for sm, blocks in zip(sms, per_sm, strict=True):
            sm.run(iter(blocks))
    seconds = perf_counter() - started - clock.trace_seconds
    counts = [sm.counts() for sm in sms]
    if not any(sm.transactions for sm in counts):
        raise TraceError(
            f"the modelled blocks of {trace.launch.kernel} hold no loads"
            + ("" if options.stores == "allocate" else " (stores are not modelled; option stores)")
        )
    # SMs run side by side: their counts add up, their time does not.
    totals = {**_each_counter(sum, counts), "steps": max(sm.steps for sm in counts)}
    return Prediction(
        kernel=trace.launch.kernel,
        gpu=gpu.name,
        definition=options.definition,
        seed=seed,
        sms_modelled=len(sms),
        **totals,
        histogram=_sum_histograms([sm.histogram() for sm in sms]) if track else None,
        l2=None if l2 is None else l2.prediction(),
        trace_seconds=clock.trace_seconds,
        seconds=seconds,
        config={**describe(trace, gpu, options, seed), "seeds": 1},
        per_sm=tuple(counts),
    )


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


class _Clock:
    """Time spent on traces, and progress, over all SMs of a run."""

    def __init__(self, blocks: int, progress: Progress | None) -> None:
        self.trace_seconds = 0.0
        self._blocks = blocks
        self._begun = 0
        self._progress = progress

    def begin_block(self) -> None:
        self._begun += 1

    def tick(self) -> None:
        if self._progress is not None:
            self._progress(self._begun, self._blocks)


class _Sm:
    """One SM: a core, and what feeds it."""

    def __init__(self, trace: Trace, core: Core, gpu: GPU, options: Options, seed: int, sm: int, clock: _Clock) -> None:
        assert options.sigma is not None
        self.sm = sm
        self.core = core
        self.begun = 0
        self._trace = trace
        self._line = gpu.l1.line
        self._rule = store_rule(options)
        self._draws = Draws(seed, sm, options.sigma)
        self._left = np.empty(0, np.int64)
        self._streams: dict[int, WarpStream] = {}
        self._chunk = Chunk()
        self._clock = clock

    def run(self, blocks: Iterator[int]) -> None:
        """Run the SM to its end, with its blocks in order."""
        while self.run_to_block():
            self.give(next(blocks, None))

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
        elif wanted == WANT_LATENCIES:
            left = self._left[len(self._left) - self.core.latencies_left() :]
            self._left = np.concatenate([left, self._draws.latencies(DRAWS_PER_BATCH)])
            self.core.put_latencies(self._left)
        else:
            assert wanted == WANT_CHOICES and isinstance(self.core, HardwareCore)
            self.core.put_choices(self._draws.choices(DRAWS_PER_BATCH))

    def give(self, block: int | None) -> None:
        """Answer the request for a block."""
        slot = self.core.subject
        if block is None:
            self.core.decline_block(slot)
            return
        started = perf_counter()
        self.begun += 1
        self._clock.begin_block()
        streams = open_block(self._trace, block, self._line, self._rule)
        self._clock.trace_seconds += perf_counter() - started
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
        return _histogram_of({**dict(self.core.histogram()), -1: self.core.infinite})


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
