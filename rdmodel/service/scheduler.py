"""Schedule requests that take time: compute equal ones once and others in parallel, store answers, end on time."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any, Protocol

from rdmodel.common.cancellation import Cancelled, cancellable
from rdmodel.common.memory import memory_share, room_bytes
from rdmodel.common.progress import Progress
from rdmodel.service.lru_cache import TextLruCache
from rdmodel.service.operations import is_answer, question_of
from rdmodel.service.protocol import error_text, failure_text, json_text, result_text
from rdmodel.service.requests import ServiceRequest

Reply = Callable[[str], None]
"""Callback for the answer to a request, called once with the text of `result_text` or `error_text`."""

Compute = Callable[[ServiceRequest, Progress, int], dict[str, Any]]
"""Function such as `operations.compute`: answers a request with a number of threads, and reports its progress."""

RECENT_ANSWER_CHARACTERS = 4 << 20
"""Length of the answers in memory, which are sent again without reading the answers file."""

WORKER_EXIT_SECONDS = 1.0
"""Time in which workers have to abandon their work when the service ends."""


MAX_REQUEST_MEMORY_BYTES = 2 << 30
"""Memory that the inputs of one request may take, or a share of what the process may take, if that is less.

Larger inputs would also take seconds between two checks of the time limit.
"""


class AnswerStore(Protocol):
    """A store of answers such as `rdmodel.Answers`; `trouble` describes its last failure."""

    trouble: str | None

    def get(self, question: Mapping[str, Any], /) -> Mapping[str, Any] | None:
        """Return the stored answer to a question, or None."""

    def put(self, question: Mapping[str, Any], answer: Mapping[str, Any], /) -> None:
        """Store the answer to a question."""


class _Abandoned(Cancelled):
    """Raised to end a computation that no request waits for."""


@dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request without an answer so far; `size` is the length of its line in bytes."""

    request: ServiceRequest
    reply: Reply
    deadline: float
    seconds: float
    computation: _Computation
    size: int


@dataclass(slots=True, eq=False)
class _Computation:
    """The computation of one answer, queued or running, and the requests that wait for it."""

    key: str
    question: dict[str, Any]
    request: ServiceRequest
    waiting: list[_PendingRequest] = field(default_factory=list)

    def check(self, _done: int, _total: int) -> None:
        """Abandon the computation if no request waits for it any more: a progress callback."""
        if not self.waiting:
            raise _Abandoned


class RequestScheduler:
    """Scheduler of requests for `jobs` worker threads.

    A request is answered exactly once: immediately if its answer is stored, otherwise by a worker, at its time limit
    (at most `timeout` seconds) or when it is cancelled. There is `room` for another request until `max_requests`
    requests, or `max_bytes` of their lines, are under way. `notify` is called in any thread when there may be room
    again.
    """

    def __init__(
        self,
        compute: Compute,
        store: AnswerStore | None,
        *,
        jobs: int,
        threads: int | None = None,
        timeout: float = inf,
        max_requests: int = 1024,
        max_bytes: int = 16 << 20,
        notify: Callable[[], None] = lambda: None,
        debug: bool = False,
    ) -> None:
        self._compute, self._store, self._notify, self._debug = compute, store, notify, debug
        self._jobs, self._threads, self._timeout = jobs, threads, timeout
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._recent = TextLruCache(RECENT_ANSWER_CHARACTERS)
        self._changed = threading.Condition()
        self._queue: deque[_Computation] = deque()
        self._computations: dict[str, _Computation] = {}
        self._waiting: set[_PendingRequest] = set()
        self._bytes = self._working = self._replying = 0
        self._soonest = inf
        room = room_bytes()
        self._share = MAX_REQUEST_MEMORY_BYTES if room is None else min(MAX_REQUEST_MEMORY_BYTES, room // jobs)
        self._closed = False
        self._reported: str | None = None
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]
        for worker in self._workers:
            worker.start()

    # ---- called by the thread that reads requests

    @property
    def under_way(self) -> int:
        """Number of requests without an answer so far."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether all answers are written."""
        return not self._waiting and not self._replying

    @property
    def room(self) -> bool:
        """Whether there is room for another request."""
        return len(self._waiting) + self._replying < self._max_requests and self._bytes < self._max_bytes

    def submit(self, request: ServiceRequest, reply: Reply, size: int) -> None:
        """Answer a request by `reply`, now or later; `size` is the length of its line in bytes."""
        question = question_of(request)
        key = json_text(question)
        stored = self._stored_answer(request, question, key)
        if stored is not None:
            reply(stored)
            return
        seconds = self._timeout if request.timeout is None else min(request.timeout, self._timeout)
        with self._changed:
            computation = self._computations.get(key)
            if computation is None:
                computation = self._computations[key] = _Computation(key, question, request)
                self._queue.append(computation)
                self._changed.notify()
            pending = _PendingRequest(request, reply, monotonic() + seconds, seconds, computation, size)
            computation.waiting.append(pending)
            self._waiting.add(pending)
            self._bytes += size
            self._soonest = min(self._soonest, pending.deadline)

    def cancel(self, id: str) -> bool:
        """End the requests with this id as JSON text; tell whether there were any."""
        with self._changed:
            matching = [pending for pending in self._waiting if pending.request.id == id]
        ended = [self._end(pending, error_text("cancelled", "a cancel request has ended it")) for pending in matching]
        return any(ended)

    def expire(self) -> float:
        """End the requests whose time limit has passed; return the seconds until the next time limit, or `inf`."""
        now = monotonic()
        if now >= self._soonest:
            with self._changed:
                late = [pending for pending in self._waiting if pending.deadline <= now]
                self._soonest = min(
                    (pending.deadline for pending in self._waiting if pending.deadline > now), default=inf
                )
            for pending in late:
                self._end(pending, error_text("timeout", f"no answer within {pending.seconds:g} s"))
        return self._soonest - now if self._waiting else inf

    def end_all(self, why: str) -> None:
        """End all requests that are under way, with the message `why`."""
        with self._changed:
            unanswered = list(self._waiting)
        for pending in unanswered:
            self._end(pending, error_text("cancelled", why))

    def close(self) -> bool:
        """Stop the workers; tell whether all of them have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = monotonic() + WORKER_EXIT_SECONDS
        for worker in self._workers:
            worker.join(max(0.0, until - monotonic()))
        return not any(worker.is_alive() for worker in self._workers)

    # ---- answers

    def _stored_answer(self, request: ServiceRequest, question: dict[str, Any], key: str) -> str | None:
        """Return the stored answer to a question as text, or None."""
        if self._store is None:
            return None
        with self._changed:
            member = self._recent.get(key)
        if member is None:
            answer = self._store.get(question)
            self._report_trouble()
            if answer is None or not is_answer(request.op, answer):
                return None
            member = self._remember(key, answer)
        return member

    def _remember(self, key: str, answer: Mapping[str, Any]) -> str:
        """Keep an answer as text in memory for equal requests, and return the text."""
        member = result_text({**answer, "cached": True})
        with self._changed:
            self._recent.put(key, member)
        return member

    def _save(self, question: dict[str, Any], answer: dict[str, Any]) -> None:
        assert self._store is not None
        try:
            self._store.put(question, answer)
            self._report_trouble()
        except Exception as error:
            # The requests have their answer already: the worker must go on even if the answer cannot be stored.
            failure_text(error, self._debug)

    def _report_trouble(self) -> None:
        """Report a failure of the store on stderr, once."""
        trouble = self._store.trouble if self._store is not None else None
        if trouble is not None and trouble != self._reported:
            self._reported = trouble
            print(f"rdmodel: {trouble}", file=sys.stderr)

    def _end(self, pending: _PendingRequest, member: str) -> bool:
        """Answer a request unless that has happened; abandon a computation that no other request waits for."""
        with self._changed:
            if pending not in self._waiting:
                return False
            self._remove(pending)
            pending.computation.waiting.remove(pending)
            if (
                not pending.computation.waiting
                and self._computations.get(pending.computation.key) is pending.computation
            ):
                # An equal request from now on starts a new computation: this one may have ended already.
                del self._computations[pending.computation.key]
                with suppress(ValueError):
                    self._queue.remove(pending.computation)
        pending.reply(member)
        return True

    def _remove(self, pending: _PendingRequest) -> None:
        self._waiting.discard(pending)
        self._bytes -= pending.size

    # ---- the workers

    def _work(self) -> None:
        while (computation := self._next_computation()) is not None:
            member, answer = self._answer(computation)
            if answer is not None and self._store is not None:
                self._remember(computation.key, answer)
            with self._changed:
                self._working -= 1
                if self._computations.get(computation.key) is computation:
                    del self._computations[computation.key]
                waiting, computation.waiting = computation.waiting, []
                self._replying += len(waiting)
                for pending in waiting:
                    self._remove(pending)
            for pending in waiting:
                pending.reply(member)
            with self._changed:
                self._replying -= len(waiting)
            self._notify()
            # The answer is stored last, so that no request waits for the disk.
            if answer is not None and self._store is not None:
                self._save(computation.question, answer)

    def _next_computation(self) -> _Computation | None:
        """Wait for a computation that a request waits for, and return it; return None when the service ends."""
        with self._changed:
            while True:
                while self._queue:
                    computation = self._queue.popleft()
                    if computation.waiting:
                        self._working += 1
                        return computation
                if self._closed:
                    return None
                self._changed.wait()

    def _answer(self, computation: _Computation) -> tuple[str, dict[str, Any] | None]:
        """Return the text for the requests, and the answer to store, if there is one; never raise an error."""
        threads = self._threads or max(1, self._jobs // self._working)
        try:
            with cancellable(lambda: computation.check(0, 1)), memory_share(self._share):
                answer = self._compute(computation.request, computation.check, threads)
            return result_text({**answer, "cached": False}), answer
        except _Abandoned:
            return "", None
        except Exception as error:
            return failure_text(error, self._debug), None
