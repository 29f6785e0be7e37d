"""Work that is done apart, in threads side by side, with results and errors as if it were done in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from time import monotonic
from typing import TypeVar

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.checks import check_int

R = TypeVar("R")

HEAD_START = 0.05
"""Seconds in which one thread works alone: work that ends in them would only be slowed down by others."""

LOOK = 0.05
"""Seconds between two looks at how far the threads are."""


class Stop(Cancelled):
    """Raised in a thread to end work whose result is no longer needed."""


def check_jobs(n_jobs: int) -> None:
    """Raise `ConfigError` unless `n_jobs` is -1 or at least 1."""
    if n_jobs != -1:
        check_int("n_jobs", n_jobs, 1)


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_turn(
    work: Sequence[Callable[[], R]], n_jobs: int, stop: Event, look: Callable[[], None]
) -> Generator[R, None, None]:
    """Yield the result of each piece of work, in order; at most `n_jobs` of them are done at a time (-1: all cores).

    One piece, or ``n_jobs=1``, is done in this thread. An error arrives where the result would, after the results
    before it, and no work after it is begun. While threads work, this one calls `look` again and again. Closing the
    generator sets `stop`, and waits for the threads: what they do should look at it, and raise `Stop`.
    """
    jobs = min(len(work), cores() if n_jobs == -1 else n_jobs)
    if jobs <= 1:
        for one in work:
            yield one()
        return
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="rdmodel")
    failed = Event()
    try:
        yield from _ordered(work, lambda one: _submit(pool, one, failed), look)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(pool: ThreadPoolExecutor, one: Callable[[], R], failed: Event) -> Future[R]:
    def run() -> R:
        # Work begins in the order in which it is handed out: what failed already comes before this.
        if failed.is_set():
            raise Stop
        try:
            return one()
        except BaseException:
            failed.set()
            raise

    return pool.submit(copy_context().run, run)


def _ordered(
    work: Sequence[Callable[[], R]], submit: Callable[[Callable[[], R]], Future[R]], look: Callable[[], None]
) -> Generator[R, None, None]:
    alone_until = monotonic() + HEAD_START
    handed_out: list[Future[R]] = []
    for at in range(len(work)):
        while len(handed_out) <= at or (monotonic() >= alone_until and len(handed_out) < len(work)):
            handed_out.append(submit(work[len(handed_out)]))
        while not _is_done(handed_out[at], look):
            while monotonic() >= alone_until and len(handed_out) < len(work):
                handed_out.append(submit(work[len(handed_out)]))
        yield handed_out[at].result()


def _is_done(future: Future[R], look: Callable[[], None]) -> bool:
    """Wait a moment for a result; this thread stays free to be interrupted."""
    try:
        future.exception(timeout=LOOK)
    except TimeoutError:
        if not future.done():
            look()
            return False
    look()
    return True
