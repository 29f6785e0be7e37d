"""Run everything that one call of `predict` asks for: seeds, cases and samples, divided among threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import NamedTuple

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.progress import Progress
from rdmodel.execution.threads import run_in_order
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.averages import average
from rdmodel.model.dealing import deal
from rdmodel.model.monitor import RunMonitor
from rdmodel.model.options import Options
from rdmodel.model.run import ModelRun, PartResult
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace


class Case(NamedTuple):
    """A GPU and resolved options; `track`: measure reuse distances; `origins`: count by origin, too."""

    gpu: GPU
    options: Options
    track: bool
    origins: bool = False


@dataclass(frozen=True, slots=True)
class Study:
    """All runs of one call: one trace and its seeds, with several GPUs and options."""

    trace: Trace
    seed: int
    seeds: int
    n_jobs: int
    progress: Progress | None

    def run(self, cases: Sequence[Case]) -> list[Prediction]:
        """Return, for each case, the mean over the seeds."""
        seeds = range(self.seed, self.seed + self.seeds)
        runs = [run for case in cases for run in self._runs(case, seeds)]
        results = self.run_all(runs)
        by_case = (results[first : first + self.seeds] for first in range(0, len(results), self.seeds))
        return [average(group) if self.seeds > 1 else group[0] for group in by_case]

    def run_once(self, case: Case, kind: type[ModelRun]) -> tuple[ModelRun, list[PartResult]]:
        """Return a run of some kind with the first seed, and the results of its parts."""
        [run] = self._runs(case, [self.seed], kind)
        [parts] = self.results([run])
        return run, parts

    def _runs(self, case: Case, seeds: Sequence[int], kind: type[ModelRun] = ModelRun) -> list[ModelRun]:
        """Return the runs of a case, which differ in their seed only."""
        dealt = tuple(enumerate(deal(self.trace.launch, case.options)))
        resident = compute_occupancy(self.trace.launch, case.gpu).blocks
        return [kind(self.trace, *case, seed, dealt, resident) for seed in seeds]

    def run_all(self, runs: Sequence[ModelRun]) -> list[Prediction]:
        """Return the result of each run."""
        return [run.result(parts) for run, parts in zip(runs, self.results(runs), strict=True)]

    def results(self, runs: Sequence[ModelRun]) -> Iterator[list[PartResult]]:
        """Yield the results of the parts of each run; the parts of all runs are divided among the threads."""
        n_jobs = self.n_jobs if self.trace.any_order else 1
        monitor = RunMonitor(sum(run.blocks for run in runs), self.progress)
        parts = [run.parts() for run in runs]
        work = [partial(part, monitor.new_timer()) for parts_of_run in parts for part in parts_of_run]
        monitor.in_threads = n_jobs != 1 and len(work) > 1
        with closing(run_in_order(work, n_jobs, monitor.stop, monitor.report_progress)) as results:
            # One run after the other, so that the first error is the one that a single thread would meet.
            for parts_of_run in parts:
                yield list(islice(results, len(parts_of_run)))
        monitor.report_progress()
