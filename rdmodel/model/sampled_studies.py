"""Estimate counters from samples of SMs, of blocks, or of a whole grid, for one call of `predict`."""

from __future__ import annotations

import dataclasses
from threading import current_thread, main_thread

from rdmodel.errors import ConfigError
from rdmodel.execution.processes import can_be_shared, run_in_processes
from rdmodel.execution.threads import available_cores
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.count_blocks import OPENING_COST, count_blocks
from rdmodel.model.dealing import deal
from rdmodel.model.grid_pilot import Pilot, run_pilot
from rdmodel.model.grid_schedule import GridSchedule, Spread
from rdmodel.model.monitor import RunMonitor
from rdmodel.model.options import STORES_IN_PLACE
from rdmodel.model.run import ModelRun, PartResult
from rdmodel.model.sample_blocks import plan_stretches
from rdmodel.model.sample_grid import LATENCIES_PER_WINDOW, plan_windows
from rdmodel.model.sample_sms import Stratum, choose_sms, estimate_from_sms, make_strata
from rdmodel.model.sampled_runs import SampledBlocksRun, SampledGridRun, run_numbered_part
from rdmodel.model.study import Case, Study
from rdmodel.model.work import AUTO_WORK, Work
from rdmodel.results.prediction import Prediction

WORK_FOR_PROCESSES = 4_000_000
"""Transactions of a sample from which on its windows run in processes; these take a second or two to start."""


class SampledStudy(Study):
    """A study that runs a part of the grid, and estimates the counters of the rest."""

    __slots__ = ()

    def sample_sms(self, case: Case, size: int) -> Prediction:
        """Return the counters of `size` SMs, with estimates for all SMs."""
        gpu, options = case.gpu, case.options
        assert options.sms is not None
        per_sm = deal(self.trace.launch, dataclasses.replace(options, model_sms=options.sms))
        strata = make_strata({sm: len(blocks) for sm, blocks in enumerate(per_sm)})
        chosen = choose_sms(strata, size, self.seed)
        sms = sorted(sm for stratum in chosen for sm in stratum)
        resident = compute_occupancy(self.trace.launch, gpu).blocks
        dealt = tuple((sm, per_sm[sm]) for sm in sms)
        [result] = self.run_all([ModelRun(self.trace, *case, self.seed, dealt, resident)])
        counts = {sm.sm: sm for sm in result.per_sm}
        estimates = estimate_from_sms(
            [
                Stratum([counts[sm] for sm in sample], len(stratum), sum(len(per_sm[sm]) for sm in stratum))
                for sample, stratum in zip(chosen, strata, strict=True)
            ]
        )
        return dataclasses.replace(result, estimates=estimates, config={**result.config, "sample_sms": sms})

    def sample_blocks(self, case: Case, share: float) -> Prediction:
        """Return the counters of all blocks of the modelled SMs, estimated from stretches of their blocks."""
        resident = compute_occupancy(self.trace.launch, case.gpu).blocks
        dealt = tuple(enumerate(deal(self.trace.launch, case.options)))
        plans = tuple(plan_stretches(len(blocks), resident, share, self.seed, sm) for sm, blocks in dealt)
        [result] = self.run_all([SampledBlocksRun(self.trace, *case, self.seed, dealt, resident, plans)])
        return dataclasses.replace(result, config={**result.config, "sample_blocks": share})

    def sample_grid(self, case: Case, work: Work, refused: str | None = None) -> Prediction | None:
        """Return estimates for the whole grid from windows of about `work` transactions; None if no more is needed.

        Everything should be run in that case; with "auto", also if a sample would not save time. Raises `ConfigError`
        if the grid has more transactions and `refused` says why there can be no sample, or if the error of a sample
        would be unknown.
        """
        options, launch = case.options, self.trace.launch
        assert options.sms is not None and work is not None
        saves_time, work = work == "auto", AUTO_WORK if work == "auto" else float(work)
        blocks = min(options.blocks or launch.blocks, launch.blocks)
        counted = count_blocks(self.trace, case.gpu, options, blocks, work, self.seed)
        opening = OPENING_COST * launch.block_warps
        cost = counted.cost + opening
        resident = compute_occupancy(launch, case.gpu).blocks
        assert options.lat_min is not None
        least = LATENCIES_PER_WINDOW * options.lat_min * options.sms / max(1.0, counted.cost)
        plan = plan_windows(blocks, options.sms * resident, cost, opening, work, self.seed, least)
        if plan is None or (saves_time and plan.cost >= 1):
            return None
        if not counted.means["loads"] and (not counted.work or options.stores not in STORES_IN_PLACE):
            refused = "its blocks have no loads and no stores that the L1 serves"
        pilot = Pilot(Spread(), ())
        if refused is None:
            pilot = run_pilot(self.trace, case.gpu, options, resident, counted, work, self.seed)
        if not pilot.knows_lives:
            refused = "the warps of a block drift apart, and a block is too long to show how far"
        if refused is not None:
            raise ConfigError(
                f"l2=True: the grid has about {cost * blocks:.2g} transactions, more than work={work:g}, and cannot be "
                f"sampled: {refused}; choose a larger work, or work=None (--work all) to run everything"
            )
        schedule = GridSchedule(blocks, options.sms, resident, pilot.spread, self.seed)
        run = SampledGridRun(self.trace, *case, self.seed, (), resident, plan, counted, schedule, pilot)
        # Most of the time of a window is spent between the compiled cores, where threads wait for each other.
        # Another thread than the main one, such as a server's, must be able to cancel a run within a window.
        in_processes = (
            work >= WORK_FOR_PROCESSES
            and self._cores > 1
            and current_thread() is main_thread()
            and can_be_shared(self.trace)
        )
        [result] = [self._run_in_processes(run)] if in_processes else self.run_all([run])
        return dataclasses.replace(result, config={**result.config, "work": work})

    @property
    def _cores(self) -> int:
        """Number of cores that the study may use."""
        return min(available_cores(), available_cores() if self.n_jobs == -1 else self.n_jobs)

    def _run_in_processes(self, run: SampledGridRun) -> Prediction:
        """Return the result of a sample, whose windows are divided among processes; the result is the same."""
        numbers = range(len(run.plan.windows))
        monitor = RunMonitor(run.blocks, self.progress)
        timer = monitor.new_timer()
        parts: dict[int, PartResult] = {}
        finished = run_in_processes(run_numbered_part, [(run, number) for number in numbers], self._cores)
        try:
            for number, part in finished:
                parts[number] = part
                timer.blocks_started += run.blocks_of(number)
                monitor.report_progress()
        except BaseException as error:
            # Throwing the error into the generator lets joblib stop its processes at once and without a warning.
            finished.throw(error)
        return run.result([parts[number] for number in numbers])
