"""Count the early and the late part of a run apart: `predict_parts`, for traces whose pcs tell the part."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.progress import Progress
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.model._core import Core
from rdmodel.model.late_counts import LATE, LateCounts
from rdmodel.model.monitor import PartTimer
from rdmodel.model.predict import plain_options, resolve_machine
from rdmodel.model.run import ModelRun, PartResult
from rdmodel.model.shared_l2 import SharedL2
from rdmodel.model.sm import Sm
from rdmodel.model.study import Case, Study
from rdmodel.results.counts import MissCounts
from rdmodel.results.origins import TALLIED_COUNTERS
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace


@dataclass(frozen=True, slots=True)
class DividedRun(ModelRun):
    """A run whose early and late part are counted apart."""

    def _begin_tally(self, core: Core) -> bool:
        core.tally_parts()
        return True

    def _part_result(self, sms: Sequence[Sm], timer: PartTimer, started: float) -> PartResult:
        result = ModelRun._part_result(self, sms, timer, started)
        return dataclasses.replace(result, late=_late_counts(sms))

    def _add_l2(self, result: PartResult, l2: SharedL2) -> PartResult:
        assert result.late is not None
        late = dataclasses.replace(result.late, l2=l2.counts(LATE))
        return dataclasses.replace(ModelRun._add_l2(self, result, l2), late=late)


def predict_parts(
    trace: Trace, gpu: GPU, *, seed: int, n_jobs: int = -1, progress: Progress | None = None, **options: Any
) -> tuple[Prediction, LateCounts]:
    """Return the prediction of one run, without reuse distances, and the counters of its late part alone.

    The pcs of `trace` are `EARLY` and `LATE`. Options are those of `predict` for the machine.
    """
    check_int("seed", seed, 0, most=None)
    check_jobs(n_jobs)
    gpu, resolved = resolve_machine(trace, gpu, plain_options(options))
    return DividedStudy(trace, seed, 1, n_jobs, progress).run_divided(Case(gpu, resolved, track=False))


class DividedStudy(Study):
    """A study of one run whose early and late part are counted apart."""

    __slots__ = ()

    def run_divided(self, case: Case) -> tuple[Prediction, LateCounts]:
        """Return the prediction of the run, and the counters of its late part."""
        [run] = self._runs(case, [self.seed], DividedRun)
        [parts] = self.results([run])
        return run.result(parts), _add_late([part.late for part in parts if part.late is not None])


def _late_counts(sms: Sequence[Sm]) -> LateCounts:
    counts = [sm.core.part_counts(LATE) for sm in sms]
    tallied: dict[str, float] = {name: sum(count[name] for count in counts) for name in TALLIED_COUNTERS}
    if not sms[0].core.sectored:
        # Such a core counts no absent lines: each miss is one.
        tallied["tag_misses"] = sum(tallied[cause] for cause in MissCounts.CAUSES)
    return LateCounts(tallied)


def _add_late(parts: Sequence[LateCounts]) -> LateCounts:
    """Return the counts of parts that run side by side, at most one of which has an L2."""
    tallied = {name: sum(part.tallied[name] for part in parts) for name in TALLIED_COUNTERS}
    return LateCounts(tallied, parts[0].l2)
