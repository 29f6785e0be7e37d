"""Run one point of a sweep, here or in a worker process.

A point is validated before any block is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.progress import Progress
from rdmodel.errors import RdmodelError
from rdmodel.estimation.estimate import estimate
from rdmodel.execution.processes import is_picklable
from rdmodel.execution.shipping import Shipment, open_shipment
from rdmodel.gpu.config import GPU
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Options
from rdmodel.model.predict import predict
from rdmodel.simulator.simulate import simulate
from rdmodel.sweeps.values import Result
from rdmodel.trace import Trace, missing_block


def run_point(
    engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress | None = None
) -> Result:
    """Return the result of a point; raises the errors of the engine."""
    if engine == "simulate":
        return simulate(trace, gpu, progress=progress, **options)
    if engine == "estimate":
        return estimate(trace, gpu, progress=progress, **options)
    return predict(trace, gpu, n_jobs=1, progress=progress, **{"histogram": False, **options})


def try_point(
    engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress | None = None
) -> Result | RdmodelError:
    """Return the result of a point, or the error that prevents it."""
    try:
        return run_point(engine, trace, gpu, options, progress)
    except RdmodelError as error:
        return error


def _validating_calls(engine: str, options: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the calls that check all options of a point before they read a block."""
    if engine != "estimate":
        return [(engine, options)]
    # `estimate` reads blocks before it checks the options of the model.
    model = {name: value for name, value in options.items() if name != "work"}
    return [("predict", {**model, "model_sms": "all", "threads": None}), (engine, options)]


class BlockRequested(Cancelled):
    """Raised when an engine asks for its first block: all its checks have passed."""


class UnreadableTrace(Trace):
    """A trace whose blocks cannot be read: an engine that requests one has passed all its checks."""

    def __init__(self, trace: Trace) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks

    def block(self, block: int) -> Any:
        """Raise `BlockRequested`."""
        raise BlockRequested


def needed_blocks(engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any]) -> Sequence[int]:
    """Return the blocks that a point may read, ascending."""
    if engine != "predict":
        blocks = options.get("blocks")
        return range(trace.launch.blocks if blocks is None else min(blocks, trace.launch.blocks))
    names = {option.name for option in fields(Options)} - {"stores"}
    chosen = Options(**{name: value for name, value in options.items() if name in names}).resolve(gpu)
    if options.get("sample_sms") is not None:
        assert chosen.sms is not None
        chosen = replace(chosen, model_sms=chosen.sms)
    return modelled_blocks(trace.launch, chosen)


def _check_blocks_present(trace: Trace, blocks: Sequence[int]) -> None:
    """Raise `TraceError` unless the trace holds all of the blocks."""
    assert trace.blocks is not None
    if len(trace.blocks) == trace.launch.blocks:
        return
    present = trace.blocks if isinstance(trace.blocks, range) else frozenset(map(int, trace.blocks))
    for block in blocks:
        if block not in present:
            raise missing_block(trace, block)


def check_point(engine: str, trace: Trace, gpu: GPU, options: Mapping[str, Any]) -> Sequence[int]:
    """Validate a point without reading a block, and return the blocks that it may read.

    The engine is started and stopped at the first block that it requests. Raises the errors of the engine, and
    `TraceError` if the trace lacks one of the blocks.
    """
    blocks = needed_blocks(engine, trace, gpu, options)
    _check_blocks_present(trace, blocks)
    for function, arguments in _validating_calls(engine, options):
        with suppress(BlockRequested):
            run_point(function, UnreadableTrace(trace), gpu, arguments)
    return blocks


# ---- Worker processes


def must_materialise(trace: Trace) -> bool:
    """Return whether the blocks must be made once, here: they depend on the order of reading or cannot be pickled."""
    return not trace.stored and not (trace.any_order and is_picklable(trace))


def run_in_worker(
    number: int, token: str, packed: Shipment, engine: str, gpu: GPU, options: Mapping[str, Any]
) -> tuple[int, Result | RdmodelError]:
    """Run a point of the packed trace that `token` identifies; return the point's number and its result or error."""
    return number, try_point(engine, open_shipment(token, packed), gpu, options)


# ---- questions


def non_default_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, so that naming a default in a grid changes no question."""
    defaults = {option.name: option.default for option in fields(Options)}
    return {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
