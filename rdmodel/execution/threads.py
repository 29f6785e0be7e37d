"""Run tasks in parallel threads, with results and errors in the order of sequential execution."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.checks import MAX_JOBS, check_int

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

R = TypeVar("R")

SINGLE_THREAD_SECONDS = 0.05
"""Seconds for which one thread works alone: more threads would only slow down work that ends within them."""

POLL_SECONDS = 0.05
"""Seconds between two checks of the progress of the threads."""


def check_jobs(n_jobs: int) -> None:
    """Raise `ConfigError` unless `n_jobs` is -1, or 1 to `MAX_JOBS`."""
    if n_jobs != -1:
        check_int("n_jobs", n_jobs, 1, MAX_JOBS)


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_order(
    work: Sequence[Callable[[], R]], n_jobs: int, stop: Event, poll: Callable[[], None]
) -> Generator[R, None, None]:
    """Yield the result of each task in `work`, in order, from at most `n_jobs` threads at a time (-1: all cores).

    A single task, or any number with ``n_jobs=1``, runs in this thread. An error is raised in place of its task's
    result, after the results before it, and no later task is started. While threads work, this one calls `poll`
    repeatedly. Closing the generator sets `stop` and waits for the threads: tasks should check it and raise
    `Cancelled`.
    """
    jobs = min(len(work), available_cores() if n_jobs == -1 else n_jobs)
    if jobs <= 1:
        for task in work:
            yield task()
        return
    from concurrent.futures import ThreadPoolExecutor  # loads the module `logging`, too

    pool = ThreadPoolExecutor(jobs, thread_name_prefix="rdmodel")
    failed = Event()
    try:
        yield from _ordered(work, lambda task: _submit(pool, task, failed), poll)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(pool: ThreadPoolExecutor, task: Callable[[], R], failed: Event) -> Future[R]:
    def run() -> R:
        # Tasks start in the order of their submission, so one that has failed precedes this one.
        if failed.is_set():
            raise Cancelled
        try:
            return task()
        except BaseException:
            failed.set()
            raise

    return pool.submit(copy_context().run, run)


def _ordered(
    work: Sequence[Callable[[], R]], submit: Callable[[Callable[[], R]], Future[R]], poll: Callable[[], None]
) -> Generator[R, None, None]:
    single_until = monotonic() + SINGLE_THREAD_SECONDS
    submitted: list[Future[R]] = []
    for at in range(len(work)):
        while len(submitted) <= at or (monotonic() >= single_until and len(submitted) < len(work)):
            submitted.append(submit(work[len(submitted)]))
        while not _is_done(submitted[at], poll):
            while monotonic() >= single_until and len(submitted) < len(work):
                submitted.append(submit(work[len(submitted)]))
        yield submitted[at].result()


def _is_done(future: Future[R], poll: Callable[[], None]) -> bool:
    """Wait briefly for a result; return whether there is one. This thread stays interruptible."""
    try:
        future.exception(timeout=POLL_SECONDS)
    except TimeoutError:
        if not future.done():
            poll()
            return False
    poll()
    return True
