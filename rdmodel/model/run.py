"""Run one case with one seed, as independent parts: all SMs, or a sample of SMs or blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypasses_l1
from rdmodel.model import shared_l2
from rdmodel.model.averages import combine_counters, sum_histograms
from rdmodel.model.cores import make_core
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.dealing import cap_blocks
from rdmodel.model.grid_pilot import Pilot
from rdmodel.model.grid_schedule import GridSchedule
from rdmodel.model.grid_windows import GridWindow, WindowResult, WindowRunner
from rdmodel.model.monitor import PartTimer, RunMonitor
from rdmodel.model.options import Options
from rdmodel.model.origins import begin_tally, collect_tally
from rdmodel.model.sample_blocks import SampledSm, StretchPlan, estimate_from_stretches
from rdmodel.model.sample_grid import GridPlan, GridSample
from rdmodel.model.sm import Sm, dispatch
from rdmodel.results.counts import SmCounts
from rdmodel.results.describe import describe
from rdmodel.results.origins import Origins, add_origins
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.reuse.histogram import Histogram
from rdmodel.trace import Trace


@dataclass(frozen=True, slots=True)
class PartResult:
    """Counters and times of one part: of one SM, or of several SMs that share a dispatcher or an L2."""

    counts: list[SmCounts]
    histograms: list[Histogram]
    trace_seconds: float
    seconds: float
    l2: L2Prediction | None = None
    window: WindowResult | None = None
    origins: tuple[Origins, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRun:
    """One run: a case and a seed.

    `origins` says that transactions are counted by origin, too. `dealt` has the number of each modelled SM and the ids
    of its blocks; `resident` blocks fit on an SM at a time.
    """

    trace: Trace
    gpu: GPU
    options: Options
    track: bool
    origins: bool
    seed: int
    dealt: tuple[tuple[int, Sequence[int]], ...]
    resident: int

    @property
    def blocks(self) -> int:
        """Number of blocks that are run, over all SMs."""
        return sum(len(blocks) for _, blocks in self.dealt)

    @property
    def _dispatched(self) -> bool:
        return self.options.model_sms == "all" and self.options.definition == "hardware"

    def parts(self) -> list[Callable[[PartTimer], PartResult]]:
        """Return the parts of the run; they do not depend on each other."""
        if self._dispatched or self.options.l2:
            return [self._run_together]
        return [partial(self._run_alone, sm, blocks) for sm, blocks in self.dealt]

    def _run_alone(self, number: int, blocks: Sequence[int], timer: PartTimer) -> PartResult:
        started = perf_counter()
        sm = self._sm(number, timer)
        sm.run(iter(blocks))
        return self._part_result([sm], timer, started)

    def _run_together(self, timer: PartTimer) -> PartResult:
        started = perf_counter()
        sms = [self._sm(number, timer) for number, _ in self.dealt]
        cap = cap_blocks(self.trace.launch, self.options)
        queue = iter(range(self.blocks))
        if not self.options.l2:
            dispatch(sms, queue, cap)
            return self._part_result(sms, timer, started)
        l2 = shared_l2.SharedL2(self.gpu, len(sms))
        supplies = [queue if self._dispatched else iter(blocks) for _, blocks in self.dealt]
        shared_l2.run_side_by_side(sms, supplies, cap, l2)
        return dataclasses.replace(self._part_result(sms, timer, started), l2=l2.prediction())

    def _sm(self, number: int, timer: PartTimer) -> Sm:
        core = make_core(
            self.gpu,
            self.options,
            self.resident,
            self.trace.launch.block_warps,
            self.track,
            bypasses_l1(self.gpu.l1, self.trace),
        )
        if self.origins:
            begin_tally(core, self.trace.launch, self.gpu)
        return Sm(self.trace, core, self.gpu, self.options, self.seed, number, timer, origins=self.origins)

    def _part_result(self, sms: Sequence[Sm], timer: PartTimer, started: float) -> PartResult:
        histograms = [sm.histogram() for sm in sms] if self.track else []
        origins = tuple(collect_tally(sm.core, self.trace, self.gpu) for sm in sms) if self.origins else ()
        counts, seconds = [sm.counts() for sm in sms], _model_seconds(timer, started)
        return PartResult(counts, histograms, timer.trace_seconds, seconds, origins=origins)

    def result(self, parts: Sequence[PartResult]) -> Prediction:
        """Combine the results of all parts."""
        counts = [sm for part in parts for sm in part.counts]
        # SMs run side by side: their counts add up, their time does not.
        totals = {**combine_counters(sum, counts), "steps": max(sm.steps for sm in counts)}
        histograms = [histogram for part in parts for histogram in part.histograms]
        origins = [tallied for part in parts for tallied in part.origins]
        return Prediction(
            kernel=self.trace.launch.kernel,
            gpu=self.gpu.name,
            definition=self.options.definition,
            seed=self.seed,
            sms_modelled=len(counts),
            **totals,
            histogram=sum_histograms(histograms) if self.track else None,
            l2=parts[0].l2,
            origins=add_origins(origins) if origins else None,
            trace_seconds=sum(part.trace_seconds for part in parts),
            seconds=sum(part.seconds for part in parts),
            config={**describe(self.trace, self.gpu, self.options, self.seed), "seeds": 1},
            per_sm=tuple(counts),
        )


@dataclass(frozen=True, slots=True)
class SampledBlocksRun(ModelRun):
    """A run of some stretches of the SMs' blocks, with one plan per modelled SM."""

    plans: tuple[StretchPlan, ...]

    @property
    def blocks(self) -> int:
        """Number of blocks that are run, over all SMs, those before a stretch included."""
        return sum(plan.blocks_run for plan in self.plans)

    def parts(self) -> list[Callable[[PartTimer], PartResult]]:
        """Return one part per SM: the stretches of an SM follow each other."""
        return [
            partial(self._run_stretches, number, blocks, plan)
            for (number, blocks), plan in zip(self.dealt, self.plans, strict=True)
        ]

    def _run_stretches(self, number: int, blocks: Sequence[int], plan: StretchPlan, timer: PartTimer) -> PartResult:
        started = perf_counter()
        counts = self._sm(number, timer).run_stretches(blocks, plan.parts, self.resident)
        return PartResult(counts, [], timer.trace_seconds, _model_seconds(timer, started))

    def result(self, parts: Sequence[PartResult]) -> Prediction:
        """Estimate the counters of all blocks of the SMs from those of the stretches."""
        sms = [
            SampledSm(plan, tuple(part.counts[::2]), tuple(part.counts[1::2]))
            for plan, part in zip(self.plans, parts, strict=True)
        ]
        totals = PartResult(
            [sm.total() for sm in sms],
            [],
            trace_seconds=sum(part.trace_seconds for part in parts),
            seconds=sum(part.seconds for part in parts),
        )
        return dataclasses.replace(ModelRun.result(self, [totals]), estimates=estimate_from_stretches(sms))


@dataclass(frozen=True, slots=True)
class SampledGridRun(ModelRun):
    """A run of some windows of the grid, each with all SMs; `counted` has the counts of its blocks."""

    plan: GridPlan
    counted: BlockCounts
    schedule: GridSchedule
    pilot: Pilot

    @property
    def blocks(self) -> int:
        """Number of blocks that are opened, about."""
        return sum(map(self.blocks_of, range(len(self.plan.windows))))

    def parts(self) -> list[Callable[[PartTimer], PartResult]]:
        """Return one part per window."""
        shared = self.trace, self.gpu, self.options, self.seed, self.resident, self.schedule, self.pilot
        runner = WindowRunner(*shared, self.counted.rows, self.counted.work)
        return [partial(self._run_window, runner, window) for window in self.plan.windows]

    def run_part(self, number: int) -> PartResult:
        """Run a window in a process of its own."""
        return self.parts()[number](RunMonitor(self.blocks, None).new_timer())

    def blocks_of(self, number: int) -> int:
        """Return the number of blocks that are opened in a window, about."""
        return min(self.schedule.slots, self.plan.blocks) + round(self.plan.windows[number].ends[-1])

    def _run_window(self, runner: WindowRunner, window: GridWindow, timer: PartTimer) -> PartResult:
        started = perf_counter()
        found = runner.run(window, timer)
        return PartResult([], [], timer.trace_seconds, _model_seconds(timer, started), window=found)

    def result(self, parts: Sequence[PartResult]) -> Prediction:
        """Estimate the counters of the whole grid from those of the windows."""
        assert self.options.sms is not None
        windows = [part.window for part in parts if part.window is not None]
        sample = GridSample(self.plan, windows, self.counted, self.gpu.l2_dirty_sectors, self.schedule.slots)
        total = SmCounts(sm=0, blocks=self.plan.blocks, **sample.totals(self.options.sms))
        seconds = {name: sum(getattr(part, name) for part in parts) for name in ("trace_seconds", "seconds")}
        result = ModelRun.result(self, [PartResult([total], [], **seconds, l2=sample.l2(self.gpu, self.options.sms))])
        return dataclasses.replace(result, sms_modelled=self.options.sms, per_sm=(), estimates=sample.estimate())


def run_numbered_part(run: SampledGridRun, number: int) -> tuple[int, PartResult]:
    """Return the number of a window, and its result."""
    return number, run.run_part(number)


def _model_seconds(timer: PartTimer, started: float) -> float:
    """Return the seconds since `started` that were not spent on the trace."""
    return perf_counter() - started - timer.trace_seconds - timer.wait_seconds
