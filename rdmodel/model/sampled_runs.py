"""Run stretches of the blocks of SMs, or windows of a grid, in place of everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from rdmodel.common.late_dataclass import dataclass
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.grid_pilot import Pilot
from rdmodel.model.grid_schedule import GridSchedule
from rdmodel.model.grid_windows import GridWindow, WindowRunner
from rdmodel.model.monitor import PartTimer, RunMonitor
from rdmodel.model.run import ModelRun, PartResult, all_constants, model_seconds
from rdmodel.model.sample_blocks import SampledSm, StretchPlan, estimate_from_stretches
from rdmodel.model.sample_grid import GridPlan, GridSample
from rdmodel.results.counts import SmCounts
from rdmodel.results.prediction import Prediction


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
        return PartResult(counts, [], timer.trace_seconds, model_seconds(timer, started))

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
        constants = self._collect_constants(timer)
        found = runner.run(window, timer)
        seconds = timer.trace_seconds, model_seconds(timer, started)
        return PartResult([], [], *seconds, window=found, constants=constants.numbers)

    def result(self, parts: Sequence[PartResult]) -> Prediction:
        """Estimate the counters of the whole grid from those of the windows."""
        assert self.options.sms is not None
        windows = [part.window for part in parts if part.window is not None]
        sample = GridSample(self.plan, windows, self.counted, self.gpu.l2_dirty_sectors, self.schedule.slots)
        total = SmCounts(sm=0, blocks=self.plan.blocks, **sample.totals(self.options.sms))
        seconds = {name: sum(getattr(part, name) for part in parts) for name in ("trace_seconds", "seconds")}
        l2 = sample.l2(self.gpu, self.options.sms)
        result = ModelRun.result(self, [PartResult([total], [], **seconds, l2=l2, constants=all_constants(parts))])
        assert result.l2 is not None
        estimates = sample.estimate()
        estimates["dram_read_sectors"] = estimates["dram_read_sectors"].plus(result.l2.constant_sectors)
        return dataclasses.replace(result, sms_modelled=self.options.sms, per_sm=(), estimates=estimates)


def run_numbered_part(run: SampledGridRun, number: int) -> tuple[int, PartResult]:
    """Return the number of a window, and its result."""
    return number, run.run_part(number)
