"""Count the early and the late part of a run apart: `predict_parts`, for traces whose pcs tell the part."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.model._core import Core
from rdmodel.model.late_counts import LATE, LateCounts
from rdmodel.model.monitor import PartTimer
from rdmodel.model.run import ModelRun, PartResult
from rdmodel.model.shared_l2 import SharedL2
from rdmodel.model.single_runs import run_once
from rdmodel.model.sm import Sm
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


def predict_parts(trace: Trace, gpu: GPU, **options: Any) -> tuple[Prediction, LateCounts]:
    """Return the prediction of one run, without reuse distances, and the counters of its late part alone.

    The pcs of `trace` are `EARLY` and `LATE`. The arguments are those of `run_once`.
    """
    run, parts = run_once(DividedRun, trace, gpu, **options)
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
