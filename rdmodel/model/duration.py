"""Predict how long the modelled SMs take, without the rest of a `Prediction`: the function `predict_steps`."""

from __future__ import annotations

from typing import Any

from rdmodel.common.progress import Progress
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import plain_options, resolve_machine
from rdmodel.model.study import Case, Study
from rdmodel.trace import Trace


def predict_steps(
    trace: Trace, gpu: GPU, *, seed: int, n_jobs: int = -1, progress: Progress | None = None, **options: Any
) -> float:
    """Return `Prediction.steps` of one run; options are those of `predict` for the machine."""
    gpu, resolved = resolve_machine(trace, gpu, plain_options(options))
    return Study(trace, seed, 1, n_jobs, progress).steps(Case(gpu, resolved, track=False))
