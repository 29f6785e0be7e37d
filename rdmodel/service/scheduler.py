"""Requests that take time: computed once however many ask, side by side, kept, ended early."""

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

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.progress import Progress
from rdmodel.service.lru_cache import Recent
from rdmodel.service.operations import is_answer, question_of
from rdmodel.service.protocol import error_text, failure_text, result_text, text_of
from rdmodel.service.requests import Request

Reply = Callable[[str], None]
"""Called once, with what `result_text` or `error_text` returns."""

Compute = Callable[[Request, Progress, int], dict[str, Any]]
"""Answers a request, looking at its progress on the way, with so many threads; `questions.compute`."""

RECENT = 4 << 20
"""Characters of answers that are held beside the store, so that asking again takes no work."""

LEAVE_SECONDS = 1.0
"""How long workers have to leave work that nobody waits for."""


class Store(Protocol):
    """What keeps answers: `rdmodel.Answers`."""

    trouble: str | None

    def get(self, question: Mapping[str, Any], /) -> Mapping[str, Any] | None:
        """Return a kept answer."""

    def put(self, question: Mapping[str, Any], answer: Mapping[str, Any], /) -> None:
        """Keep an answer."""


class _Left(Cancelled):
    """Raised to end a computation that no request waits for."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request without an answer so far; `size` is the length of its line."""

    request: Request
    reply: Reply
    deadline: float
    seconds: float
    flight: _Flight
    size: int


@dataclass(slots=True, eq=False)
class _Flight:
    """A question that is being answered, or will be, and who waits for that."""

    key: str
    question: dict[str, Any]
    request: Request
    waiting: list[_Waiting] = field(default_factory=list)

    def look(self, _done: int, _total: int) -> None:
        """End the work if nobody waits for it: a progress callback."""
        if not self.waiting:
            raise _Left


class Desk:
    """Takes requests, and has `jobs` worker threads answer them.

    A request is answered exactly once: with a kept answer at once, or else by a worker, when its time limit (`timeout`
    seconds at most) has passed, or when it is cancelled. `most` requests, and `most_bytes` of their lines, are
    under way before there is no more `room`. `notify` is called, in any thread, when there may be room again.
    """

    def __init__(
        self,
        compute: Compute,
        store: Store | None,
        *,
        jobs: int,
        threads: int | None = None,
        timeout: float = inf,
        most: int = 1024,
        most_bytes: int = 16 << 20,
        notify: Callable[[], None] = lambda: None,
        debug: bool = False,
    ) -> None:
        self._compute, self._store, self._notify, self._debug = compute, store, notify, debug
        self._jobs, self._threads, self._timeout = jobs, threads, timeout
        self._most, self._most_bytes = most, most_bytes
        self._recent = Recent(RECENT)
        self._changed = threading.Condition()
        self._queue: deque[_Flight] = deque()
        self._flights: dict[str, _Flight] = {}
        self._waiting: set[_Waiting] = set()
        self._bytes = self._working = self._replying = 0
        self._soonest = inf
        self._closed = False
        self._told: str | None = None
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]
        for worker in self._workers:
            worker.start()

    # ---- called by the thread that reads requests

    @property
    def under_way(self) -> int:
        """How many requests have no answer so far."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether all answers are written."""
        return not self._waiting and not self._replying

    @property
    def room(self) -> bool:
        """Whether one more request may come."""
        return len(self._waiting) + self._replying < self._most and self._bytes < self._most_bytes

    def submit(self, request: Request, reply: Reply, size: int) -> None:
        """Answer a request of so many bytes, now or later."""
        question = question_of(request)
        key = text_of(question)
        kept = self._kept(request, question, key)
        if kept is not None:
            reply(kept)
            return
        seconds = self._timeout if request.timeout is None else min(request.timeout, self._timeout)
        with self._changed:
            flight = self._flights.get(key)
            if flight is None:
                flight = self._flights[key] = _Flight(key, question, request)
                self._queue.append(flight)
                self._changed.notify()
            one = _Waiting(request, reply, monotonic() + seconds, seconds, flight, size)
            flight.waiting.append(one)
            self._waiting.add(one)
            self._bytes += size
            self._soonest = min(self._soonest, one.deadline)

    def cancel(self, id: str) -> bool:
        """End the requests with this id; tell whether there were any."""
        with self._changed:
            found = [one for one in self._waiting if one.request.id == id]
        ended = [self._end(one, error_text("cancelled", "a cancel request has ended it")) for one in found]
        return any(ended)

    def expire(self) -> float:
        """End the requests whose time has passed, and return in how many seconds to call this again (or `inf`)."""
        now = monotonic()
        if now >= self._soonest:
            with self._changed:
                late = [one for one in self._waiting if one.deadline <= now]
                self._soonest = min((one.deadline for one in self._waiting if one.deadline > now), default=inf)
            for one in late:
                self._end(one, error_text("timeout", f"no answer within {one.seconds:g} s"))
        return self._soonest - now if self._waiting else inf

    def end_all(self, why: str) -> None:
        """End all requests that are under way."""
        with self._changed:
            left = list(self._waiting)
        for one in left:
            self._end(one, error_text("cancelled", why))

    def close(self) -> bool:
        """Send the workers home; tell whether all went."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = monotonic() + LEAVE_SECONDS
        for worker in self._workers:
            worker.join(max(0.0, until - monotonic()))
        return not any(worker.is_alive() for worker in self._workers)

    # ---- answers

    def _kept(self, request: Request, question: dict[str, Any], key: str) -> str | None:
        """Return the answer that was kept to a question, as text."""
        if self._store is None:
            return None
        with self._changed:
            member = self._recent.get(key)
        if member is None:
            kept = self._store.get(question)
            self._tell()
            if kept is None or not is_answer(request.op, kept):
                return None
            member = self._remember(key, kept)
        return member

    def _remember(self, key: str, answer: Mapping[str, Any]) -> str:
        """Hold an answer as text, for those who ask again, and return that."""
        member = result_text({**answer, "cached": True})
        with self._changed:
            self._recent.put(key, member)
        return member

    def _keep(self, question: dict[str, Any], answer: dict[str, Any]) -> None:
        assert self._store is not None
        try:
            self._store.put(question, answer)
            self._tell()
        except Exception as error:
            # Whoever asked has the answer; that the worker goes on is worth more than that it is kept.
            failure_text(error, self._debug)

    def _tell(self) -> None:
        """Say on stderr, once, what is wrong with the store."""
        trouble = self._store.trouble if self._store is not None else None
        if trouble is not None and trouble != self._told:
            self._told = trouble
            print(f"rdmodel: {trouble}", file=sys.stderr)

    def _end(self, one: _Waiting, member: str) -> bool:
        """Answer a request unless it has been; work that nobody else waits for is left."""
        with self._changed:
            if one not in self._waiting:
                return False
            self._forget(one)
            one.flight.waiting.remove(one)
            if not one.flight.waiting and self._flights.get(one.flight.key) is one.flight:
                # Who asks the same from now on starts anew: this flight may have been left already.
                del self._flights[one.flight.key]
                with suppress(ValueError):
                    self._queue.remove(one.flight)
        one.reply(member)
        return True

    def _forget(self, one: _Waiting) -> None:
        self._waiting.discard(one)
        self._bytes -= one.size

    # ---- the workers

    def _work(self) -> None:
        while (flight := self._next()) is not None:
            member, answer = self._answer(flight)
            if answer is not None and self._store is not None:
                self._remember(flight.key, answer)
            with self._changed:
                self._working -= 1
                if self._flights.get(flight.key) is flight:
                    del self._flights[flight.key]
                waiting, flight.waiting = flight.waiting, []
                self._replying += len(waiting)
                for one in waiting:
                    self._forget(one)
            for one in waiting:
                one.reply(member)
            with self._changed:
                self._replying -= len(waiting)
            self._notify()
            # Last, as nobody should wait for a disk.
            if answer is not None and self._store is not None:
                self._keep(flight.question, answer)

    def _next(self) -> _Flight | None:
        """Wait for a question that somebody waits for; None: go home."""
        with self._changed:
            while True:
                while self._queue:
                    flight = self._queue.popleft()
                    if flight.waiting:
                        self._working += 1
                        return flight
                if self._closed:
                    return None
                self._changed.wait()

    def _answer(self, flight: _Flight) -> tuple[str, dict[str, Any] | None]:
        """Return what the requests are answered, and the answer to keep, if there is one; never raises."""
        threads = self._threads or max(1, self._jobs // self._working)
        try:
            answer = self._compute(flight.request, flight.look, threads)
            return result_text({**answer, "cached": False}), answer
        except _Left:
            return "", None
        except Exception as error:
            return failure_text(error, self._debug), None
