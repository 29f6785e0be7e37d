"""Add the work of the modelled blocks to predictions that are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.results.metrics import work_metrics
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace, Work
from rdmodel.trace.counting import SAMPLED_BLOCKS, sample_work


@dataclass(frozen=True, slots=True)
class ExecutedWork:
    """The `work` of the modelled blocks of a prediction, from `counted` of them."""

    work: Work
    counted: int

    def to_dict(self) -> dict[str, Any]:
        """Return the key of the prediction in JSON."""
        return {"work": {**self.work.to_dict(), "counted_blocks": self.counted}}

    def metrics(self) -> Mapping[str, float]:
        """Return the counters by the names of Nsight Compute."""
        return work_metrics(self.work)


def count_executed(trace: Trace, gpu: GPU, prediction: Prediction) -> ExecutedWork:
    """Count the work of as many blocks as a prediction modelled, from a few that are spread over the trace."""
    assert trace.blocks is not None
    modelled = sum(sm.blocks for sm in prediction.per_sm) or len(trace.blocks)
    l1 = gpu.l1
    counted = sample_work(trace, trace.blocks, line=l1.line, sector=l1.sector_bytes, request_bytes=l1.request_bytes)
    return ExecutedWork(counted.scaled(modelled), min(len(trace.blocks), SAMPLED_BLOCKS))
