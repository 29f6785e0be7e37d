"""Run the model once, without what `predict` adds to it: parts of a run that are not combined, and its time."""

from __future__ import annotations

from typing import Any

from rdmodel.common.checks import check_int
from rdmodel.common.progress import Progress
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import plain_options, resolve_machine
from rdmodel.model.run import ModelRun, PartResult
from rdmodel.model.study import Case, Study
from rdmodel.trace import Trace


def run_once(
    kind: type[ModelRun],
    trace: Trace,
    gpu: GPU,
    *,
    seed: int,
    n_jobs: int = -1,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[ModelRun, list[PartResult]]:
    """Return a run of some kind, without reuse distances, and the results of its parts.

    Options are those of `predict` for the machine.
    """
    check_int("seed", seed, 0, most=None)
    check_jobs(n_jobs)
    gpu, resolved = resolve_machine(trace, gpu, plain_options(options))
    return Study(trace, seed, 1, n_jobs, progress).run_once(Case(gpu, resolved, track=False), kind)


def predict_steps(trace: Trace, gpu: GPU, **options: Any) -> float:
    """Return `Prediction.steps` of one run; the arguments are those of `run_once`."""
    _, parts = run_once(ModelRun, trace, gpu, **options)
    return max(sm.steps for part in parts for sm in part.counts)
