"""Run calls in worker processes, and make traces picklable for them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rdmodel.common.memory import limit_worker, room_bytes
from rdmodel.errors import SimulationError
from rdmodel.execution.threads import available_cores
from rdmodel.trace import Columns, Trace, _truncation

R = TypeVar("R")

Place = tuple[str | None, str | None]
"""The working folder of a process, and its folder of caches; None: unknown, and the user's."""

CACHE_VARIABLE = "RDMODEL_CACHE"
"""The environment variable that names a folder of caches (`rdmodel.answers`, `tracegen.cuda`)."""

SINGLE_PROCESS_SECONDS = 1.0
"""Seconds for which a process works alone before it starts workers: they take longer to start."""

PARENT_POLL_SECONDS = 0.5
"""Seconds between two checks of a worker whether its parent process still exists."""

WORKER_REPLACEMENTS = 2
"""Killed workers that are replaced in one call of `run_in_processes`; a run that needs too much memory kills each."""

SLICE_SECONDS = 10.0
"""The longest time that finished runs wait for others, on workers that do not return results one by one."""


def make_picklable(trace: Trace) -> Trace:
    """Return a trace that can be pickled: the trace itself, or a copy with its instructions in memory.

    Traces of emulated programs, for example, cannot be pickled; their blocks are made and stored.
    """
    if trace.stored:
        return trace if _can_be_mapped(trace) else _copy_to_memory(trace)
    if not is_picklable(trace):
        copy = Trace(trace.launch, trace.columns, trace.blocks, trusted=True)
        copy.params, copy.number = dict(trace.params), trace.number
        return copy
    return trace


def can_be_shared(trace: Trace) -> bool:
    """Return whether other processes can get a trace without a copy of its instructions in memory."""
    return _can_be_mapped(trace) and has_own_processes() if trace.stored else is_picklable(trace)


def is_picklable(value: Any) -> bool:
    """Return whether a value can be pickled."""
    try:
        pickle.dumps(value)
    except (AttributeError, TypeError, pickle.PicklingError):
        return False
    return True


def _can_be_mapped(trace: Trace) -> bool:
    """Return whether joblib can pass on all columns that a stored trace has: it passes mapped arrays by file name."""
    columns = [getattr(trace.columns, field.name) for field in fields(Columns)]
    return all(column is None or getattr(column.base, "filename", "") is not None for column in columns)


def _copy_to_memory(trace: Trace) -> Trace:
    """Return a copy of a trace with its columns in memory."""
    values = {field.name: getattr(trace.columns, field.name) for field in fields(Columns)}
    columns = Columns(**{name: np.array(value) for name, value in values.items() if value is not None})
    return Trace(trace.launch, columns, trace.blocks, trusted=True)


# ---- runs


def has_own_processes() -> bool:
    """Return whether runs get processes of this one: `joblib.parallel_config` names no other backend."""
    if "joblib" not in sys.modules:
        return True  # nobody has named a backend, and importing joblib takes long
    from joblib.parallel import BACKENDS, get_active_backend

    return isinstance(get_active_backend()[0], BACKENDS["loky"])


def count_workers(n_jobs: int) -> int:
    """Return the number of workers that `n_jobs` stands for; -1: one for each core, or all of joblib's backend."""
    if n_jobs == 1:
        return 1
    if has_own_processes():
        return available_cores() if n_jobs == -1 else n_jobs
    from joblib import effective_n_jobs

    return max(1, int(effective_n_jobs(n_jobs)))


def run_in_processes(run: Callable[..., R], runs: Sequence[tuple[Any, ...]], n_jobs: int) -> Generator[R, None, None]:
    """Yield the results of `run` for the arguments in `runs`, in order of completion, from `n_jobs` workers.

    -1 means one process for each core; 1 means this process only. An error that is thrown into the generator ends the
    processes at once. They work in the folder of this process, and share the memory that it may still take. A worker
    that was killed from outside is replaced, and runs that are not finished run again. Raises `SimulationError` if a
    worker needs more than its share, or if more than `WORKER_REPLACEMENTS` were killed.

    With another backend of joblib (`joblib.parallel_config`), its workers run the calls, and it decides about their
    memory and their end.
    """
    if not runs:
        return
    from joblib import Parallel, delayed

    if n_jobs != 1 and not has_own_processes():
        yield from _run_elsewhere(run, runs, n_jobs)
        return
    workers = min(len(runs), count_workers(n_jobs))
    if workers > 1 and (room := room_bytes()) is not None:
        run = partial(_run_within, room // (workers + 1), run)  # this process needs a share as well
    # A worker may start late, or get no run at all; it has to watch its parent all the same.
    prepare = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
    left, killed = dict(enumerate(runs)), 0
    try:
        while left:
            parallel = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered", backend="loky", **prepare)
            with _ignoring_signals():
                place = _current_place()
                results = parallel(delayed(_run_numbered)(place, run, *numbered) for numbered in tuple(left.items()))
            try:
                yield from _ending_quietly(results, left)
            except BrokenExecutor:
                killed += 1
                if killed > WORKER_REPLACEMENTS:
                    raise SimulationError(
                        f"{killed} worker processes were killed, perhaps for lack of memory; try fewer jobs"
                    ) from None
    except MemoryError:
        if workers == 1:
            raise
        raise SimulationError(
            f"a run needs more than its share of the memory, one of {workers + 1}; try fewer jobs (--jobs)"
        ) from None


def _current_place() -> Place:
    """Return the folder and the cache folder in which this process works."""
    try:
        folder = os.getcwd()
    except OSError:  # somebody has deleted it
        folder = None
    return folder, os.environ.get(CACHE_VARIABLE)


def _run_numbered(place: Place, run: Callable[..., R], number: int, arguments: tuple[Any, ...]) -> tuple[int, R]:
    """Call `run` where its caller works: joblib may have started this worker for an earlier call, elsewhere."""
    folder, cache = place
    if folder is not None:
        with suppress(OSError):
            os.chdir(folder)
    if cache is None:
        os.environ.pop(CACHE_VARIABLE, None)
    else:
        os.environ[CACHE_VARIABLE] = cache
    return number, run(*arguments)


def _ending_quietly(
    results: Generator[tuple[int, R], None, None], left: dict[int, tuple[Any, ...]]
) -> Generator[R, None, None]:
    """Yield the results of joblib's own processes, and take their numbers out of `left`.

    An error that is thrown into the generator, or its end before the last result, ends the processes.
    """
    try:
        while True:
            with _ignoring_withdrawn_work():
                try:
                    number, result = next(results)
                except StopIteration:
                    return
            del left[number]
            yield result
    except BaseException as error:
        # joblib prints a warning if its generator is closed early, as by an interruption, but not if an error ends it.
        reason = _ClosedEarly() if isinstance(error, GeneratorExit) else error
        with _ignoring_withdrawn_work(), suppress(_ClosedEarly):
            results.throw(reason)
        raise


class _ClosedEarly(BaseException):
    """Tells joblib that nobody needs the other results."""


@contextmanager
def _ignoring_withdrawn_work() -> Iterator[None]:
    """Ignore the failure of loky's thread that looks for a call which was withdrawn when processes were killed.

    This race in loky comes after the processes have ended, and would print a traceback when a run is interrupted.
    """
    before = threading.excepthook

    def report(failure: threading.ExceptHookArgs) -> None:
        name = "" if failure.thread is None else failure.thread.name
        if name != "ExecutorManagerThread" or failure.exc_type is not KeyError:
            before(failure)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before


def _run_elsewhere(run: Callable[..., R], runs: Sequence[tuple[Any, ...]], n_jobs: int) -> Iterator[R]:
    """Yield the results of runs on the workers of the backend that `joblib.parallel_config` names.

    joblib gathers short runs in batches of up to a second, because sending one to another machine takes milliseconds. A
    backend that returns results only when all runs are finished gets the runs in slices of `SLICE_SECONDS`.
    """
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    if get_active_backend()[0].supports_return_generator:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        yield from parallel(delayed(run)(*arguments) for arguments in runs)
        return
    left, size = deque(runs), count_workers(n_jobs)
    with Parallel(n_jobs=n_jobs) as parallel:
        while left:
            started = time.monotonic()
            yield from parallel([delayed(run)(*left.popleft()) for _ in range(min(size, len(left)))])
            if time.monotonic() - started < SLICE_SECONDS / 2:
                size *= 2


def _run_within(share: int, run: Callable[..., R], *arguments: Any) -> R:
    """Call `run` in a worker process that may take `share` bytes of memory."""
    limit_worker(share)
    return run(*arguments)


def _begin_worker(parent: int) -> None:
    """Let this worker process exit when its parent no longer exists, and survive files that are cut off."""
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    _truncation.install(claims_all=True)  # for files that joblib maps


def _exit_with_parent(parent: int) -> None:
    # A killed parent cannot stop its workers, and joblib workers would wait for work for minutes.
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(1)


@contextmanager
def _ignoring_signals() -> Iterator[None]:
    """Ignore the signals that ask a program to end while workers start, so that they inherit them ignored.

    These signals reach all processes of a terminal. This process handles them, and then stops the workers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # None: a handler that was not set in Python, and that Python cannot restore.
    handlers = {number: handler for number, handler in before.items() if handler is not None}
    for number in handlers:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
