"""What runs the points of a sweep: called, asked before what it refuses, in other processes; and its results, kept."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.errors import RdmodelError
from rdmodel.estimation.estimate import estimate
from rdmodel.execution.processes import is_picklable, make_picklable
from rdmodel.gpu.config import GPU
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Options
from rdmodel.model.predict import predict
from rdmodel.results.describe import describe_trace
from rdmodel.results.prediction import Prediction
from rdmodel.results.serialization import from_record, to_record
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.simulate import simulate
from rdmodel.sweeps.values import Result
from rdmodel.trace import Trace, missing_block
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace


def call(engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress | None = None) -> Result:
    """Return the result of a point; raises what the engine raises."""
    if engine == "simulate":
        return simulate(trace, gpu, progress=progress, **options)
    if engine == "estimate":
        return estimate(trace, gpu, progress=progress, **options)
    return predict(trace, gpu, n_jobs=1, progress=progress, **{"histogram": False, **options})


def attempt(
    engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress | None = None
) -> Result | RdmodelError:
    """Return the result of a point, or why there is none."""
    try:
        return call(engine, trace, gpu, options, progress)
    except RdmodelError as error:
        return error


def _first(engine: str, options: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the calls that check the options of a point before anything is read."""
    if engine != "estimate":
        return [(engine, options)]
    # It looks at blocks before it looks at the options of the model.
    model = {name: value for name, value in options.items() if name != "work"}
    return [("predict", {**model, "model_sms": "all", "threads": None}), (engine, options)]


class Begun(Exception):  # noqa: N818, no error: nobody sees it
    """Raised where the first block is asked for."""


class Unread(Trace):
    """A trace of which no block can be read: what wants to has checked all else."""

    def __init__(self, trace: Trace) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks

    def block(self, block: int) -> Any:
        """Say that all checks are over."""
        raise Begun


def asked_blocks(engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any]) -> Sequence[int]:
    """Return the blocks that a point may ask for, ascending."""
    if engine != "predict":
        wanted = options.get("blocks")
        return range(trace.launch.blocks if wanted is None else min(wanted, trace.launch.blocks))
    names = {one.name for one in fields(Options)} - {"stores"}
    chosen = Options(**{name: value for name, value in options.items() if name in names}).resolve(gpu)
    if options.get("sample_sms") is not None:
        assert chosen.sms is not None
        chosen = replace(chosen, model_sms=chosen.sms)
    return modelled_blocks(trace.launch, chosen)


def _check_held(trace: Trace, blocks: Sequence[int]) -> None:
    """Raise `TraceError` unless the trace holds all of the blocks."""
    assert trace.blocks is not None
    if len(trace.blocks) == trace.launch.blocks:
        return
    held = trace.blocks if isinstance(trace.blocks, range) else frozenset(map(int, trace.blocks))
    for block in blocks:
        if block not in held:
            raise missing_block(trace, block)


def check(engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any]) -> Sequence[int]:
    """Begin to run a point, without a block: what the engine refuses, it refuses then.

    Return the blocks that it may ask for. Raises what the engine raises, and `TraceError` if the trace lacks one of
    them.
    """
    blocks = asked_blocks(engine, trace, gpu, options)
    _check_held(trace, blocks)
    for function, given in _first(engine, options):
        with suppress(Begun):
            call(function, Unread(trace), gpu, given)
    return blocks


# ---- other processes

_LAST: tuple[str, Trace] | None = None
"""In a process that works for another: the trace that it has read last, with the blocks of it that are kept."""


def is_once(trace: Trace) -> bool:
    """Tell whether a trace must be made once and for all: what it is depends on when, or it cannot be sent."""
    return not trace.stored and not (trace.any_order and is_picklable(trace))


def sent(trace: Trace) -> Trace | NDArray[np.uint8]:
    """Return a trace as other processes can have it; they keep its blocks themselves.

    Columns are mapped by all. Others go as bytes that are made once, and mapped as well if they are many.
    """
    if trace.stored:
        return make_picklable(trace)
    # As joblib sends all else: what a script declares goes with it.
    from joblib import wrap_non_picklable_objects

    whole = trace.original if isinstance(trace, CachedTrace) else trace
    return np.frombuffer(pickle.dumps(wrap_non_picklable_objects(whole, keep_wrapper=False)), np.uint8)


def run_one(
    at: int, token: str, given: Trace | NDArray[np.uint8], engine: str, gpu: GPU, options: Mapping[str, Any]
) -> tuple[int, Result | RdmodelError]:
    """Run a point of the trace that `token` stands for; return its number, and what `attempt` does."""
    global _LAST
    if _LAST is None or _LAST[0] != token:
        _LAST = token, given if isinstance(given, Trace) else _received(given)
    return at, attempt(engine, _LAST[1], gpu, options)


def _received(given: NDArray[np.uint8]) -> Trace:
    trace: Trace = pickle.loads(given.data)
    return trace if isinstance(trace, MaterialisedTrace) else CachedTrace(trace)


# ---- answers


def not_default(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that have their default: a larger grid may name them."""
    defaults = {one.name: one.default for one in fields(Options)}
    return {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}


def kept(result: Result, gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as it is kept: without what the question says already, which is most of it."""

    def short(one: Result) -> Any:
        told = {"trace": None} | ({"gpu": None} if one.config["gpu"] == gpu else {})
        return replace(one, config={**one.config, **told})

    if isinstance(result, Prediction):
        result = replace(result, runs=tuple(map(short, result.runs)))
    record: dict[str, Any] = to_record(short(result))
    return record


def revived(engine: str, record: Mapping[str, Any], gpu: Mapping[str, Any], trace: Trace) -> Result | None:
    """Return the result that `kept` was given, or None for what is no such result."""
    try:
        for one in (record, *record.get("runs", ())):
            one["config"]["trace"] = describe_trace(trace)
            if one["config"]["gpu"] is None:
                one["config"]["gpu"] = deepcopy(gpu)
        kind: Any = Simulation if engine == "simulate" else Prediction
        found: Result = from_record(kind, record)
    except (KeyError, TypeError, ValueError):
        return None
    return found
