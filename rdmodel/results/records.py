"""Convert results to and from the form in which answers files hold them: JSON without what the question contains."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from rdmodel.results.describe import describe_trace
from rdmodel.results.prediction import Prediction
from rdmodel.results.serialization import from_record, to_record
from rdmodel.results.simulation import Simulation
from rdmodel.trace import Trace

R = TypeVar("R", Prediction, Simulation)


def result_to_record(result: Prediction | Simulation, gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result in its cached form: JSON without the trace and the GPU, which the question contains."""

    def shorten(run: R) -> R:
        omitted = {"trace": None} | ({"gpu": None} if run.config["gpu"] == gpu else {})
        return replace(run, config={**run.config, **omitted})

    record: dict[str, Any]
    if isinstance(result, Prediction):
        record = to_record(shorten(replace(result, runs=tuple(map(shorten, result.runs)))))
    else:
        record = to_record(shorten(result))
    return record


def result_from_record(
    kind: type[R], record: Mapping[str, Any], gpu: Mapping[str, Any], trace: Trace | Mapping[str, Any]
) -> R | None:
    """Return the result that `result_to_record` converted, or None if the record is not one of a result.

    `trace` is the trace of the result, or its description (`describe_trace`).
    """
    described = describe_trace(trace) if isinstance(trace, Trace) else trace
    try:
        for run in (record, *record.get("runs", ())):
            run["config"]["trace"] = deepcopy(described)
            if run["config"]["gpu"] is None:
                run["config"]["gpu"] = deepcopy(gpu)
        return from_record(kind, record)
    except (KeyError, TypeError, ValueError):
        return None
