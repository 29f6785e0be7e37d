"""All runs of one call of `predict`: seeds, cases and samples, their parts shared out to threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from rdmodel.common.progress import Progress
from rdmodel.execution.threads import run_in_order
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.averages import average
from rdmodel.model.dealing import deal
from rdmodel.model.monitor import Watch
from rdmodel.model.options import Options
from rdmodel.model.run import BlocksRun, Run, SmsRun
from rdmodel.model.sample_blocks import plan
from rdmodel.model.sample_sms import Group, choose_sms, estimates_of_sms, strata
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace

Case = tuple[GPU, Options, bool]
"""A machine, how it runs, and whether reuse distances are wanted."""


@dataclass(frozen=True, slots=True)
class Study:
    """All runs of one call: the same trace and seeds, different machines and options."""

    trace: Trace
    seed: int
    seeds: int
    n_jobs: int
    progress: Progress | None

    def run(self, cases: Sequence[Case]) -> list[Prediction]:
        """Return for each case the mean over the seeds."""
        runs = [Run(self.trace, *case, seed) for case in cases for seed in range(self.seed, self.seed + self.seeds)]
        found = self._all(runs)
        groups = (found[at : at + self.seeds] for at in range(0, len(found), self.seeds))
        return [average(group) if self.seeds > 1 else group[0] for group in groups]

    def sample_sms(self, gpu: GPU, options: Options, histogram: bool, size: int) -> Prediction:
        """Return what some of the SMs counted, and what that says of all."""
        assert options.sms is not None
        per_sm = deal(self.trace.launch, dataclasses.replace(options, model_sms=options.sms))
        groups = strata({sm: len(blocks) for sm, blocks in enumerate(per_sm)})
        chosen = choose_sms(groups, size, self.seed)
        sms = sorted(sm for group in chosen for sm in group)
        [result] = self._all([SmsRun(self.trace, gpu, options, histogram, self.seed, tuple(sms))])
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
        resident = compute_occupancy(self.trace.launch, gpu).blocks
        dealt = deal(self.trace.launch, options)
        plans = tuple(plan(len(blocks), resident, share, self.seed, sm) for sm, blocks in enumerate(dealt))
        [result] = self._all([BlocksRun(self.trace, gpu, options, False, self.seed, plans)])
        return dataclasses.replace(result, config={**result.config, "sample_blocks": share})

    def _all(self, runs: Sequence[Run]) -> list[Prediction]:
        """Return the result of each run; their parts are shared out to the threads."""
        n_jobs = self.n_jobs if self.trace.any_order else 1
        watch = Watch(sum(run.blocks for run in runs), self.progress)
        parts = [partial(part, watch.clock()) for run in runs for part in run.parts()]
        watch.in_threads = n_jobs != 1 and len(parts) > 1
        found: list[Prediction] = []
        with closing(run_in_order(parts, n_jobs, watch.stop, watch.look)) as results:
            for run in runs:
                found.append(run.result([next(results) for _ in run.parts()]))  # noqa: PERF401, errors come in turn
        watch.look()
        return found
