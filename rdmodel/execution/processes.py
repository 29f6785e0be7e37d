"""Work that other processes do: traces that they can have, and runs that are shared out to them."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import numpy as np

from rdmodel.errors import SimulationError
from rdmodel.trace import Columns, Trace

R = TypeVar("R")

LOOK = 0.5
"""Seconds between two looks at whether the process that others work for is still there."""


def sendable(trace: Trace) -> Trace:
    """Return a trace that other processes can have; one that they cannot, as of an emulated program, is written out."""
    if trace.stored:
        columns = [getattr(trace.columns, field.name) for field in fields(Columns)]
        return trace if all(map(_has_name, columns)) else _copied(trace)
    if not can_be_sent(trace):
        written = Trace(trace.launch, trace.columns, trace.blocks, trusted=True)
        written.params = dict(trace.params)
        return written
    return trace


def can_be_sent(value: Any) -> bool:
    """Tell whether another process can have a value as it is."""
    try:
        pickle.dumps(value)
    except (AttributeError, TypeError, pickle.PicklingError):
        return False
    return True


def _has_name(column: Any) -> bool:
    """Tell whether other processes can have a column: joblib gives them maps by the name of the file."""
    return getattr(column.base, "filename", "") is not None


def _copied(trace: Trace) -> Trace:
    """Return a trace with its columns in memory."""
    columns = Columns(**{field.name: np.array(getattr(trace.columns, field.name)) for field in fields(Columns)})
    return Trace(trace.launch, columns, trace.blocks, trusted=True)


# ---- runs


def in_processes(run: Callable[..., R], runs: Sequence[tuple[Any, ...]], n_jobs: int) -> Generator[R, None, None]:
    """Yield what `run` returns for the arguments in `runs`, as they are finished, from `n_jobs` processes.

    -1: one process for each core; 1: none but this one. An error that is thrown into the generator ends the processes
    at once. Raises `SimulationError` where one of them was ended from outside.
    """
    # Fetched here: all that runs in one process does without.
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    with _deaf():
        results = parallel(delayed(_with_parent)(os.getpid(), run, *arguments) for arguments in runs)
    try:
        yield from results
    except BrokenExecutor:
        raise SimulationError("a process was ended from outside, perhaps for want of memory; try fewer jobs") from None


def _with_parent(parent: int, run: Callable[..., R], *arguments: Any) -> R:
    """Run something, and end this process when the one that it works for is gone."""
    if os.getpid() != parent:
        _watch(parent)
    return run(*arguments)


@cache
def _watch(parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # One that was killed told nobody; processes of joblib would wait for work for minutes.
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore interruptions, as processes do for good that begin meanwhile: this process is to answer, and ends them."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
