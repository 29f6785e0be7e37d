"""The scheduler of requests, with work that waits until a test lets it end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest

from rdmodel.errors import TraceError
from rdmodel.service.lru_cache import TextLruCache
from rdmodel.service.operations import question_of
from rdmodel.service.protocol import Refusal
from rdmodel.service.requests import read_request
from rdmodel.service.scheduler import RequestScheduler
from tests.support.service_gate import Gate, answer


def test_texts_that_were_not_needed_for_longest_make_room():
    recent = TextLruCache(10)
    for name in "abc":
        recent.put(name, "xx")
    assert recent.get("a") == "xx"
    recent.put("d", "xx")
    assert [recent.get(name) for name in "abcd"] == ["xx", None, "xx", "xx"]
    recent.put("e", "x" * 100)
    assert [recent.get(name) for name in "abcde"] == [None] * 5
    for text in ("x" * 9, "y" * 5, "x" * 9):
        recent.put("f", text)
        assert recent.get("f") == text


class Replies:
    """Answers, by the id of the request."""

    def __init__(self, scheduler: RequestScheduler) -> None:
        self.scheduler = scheduler
        self.found: dict[str, list[Any]] = {}
        self.came = threading.Semaphore(0)

    def ask(self, id: Any, kernel: str, **fields: Any) -> None:
        request = read_request({"id": id, "op": "predict", "kernel": kernel, **fields})

        def reply(member: str) -> None:
            self.found.setdefault(id, []).append(json.loads(f"{{{member}}}"))
            self.came.release()

        self.scheduler.submit(request, reply, 10)

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.came.acquire(timeout=60)


@contextmanager
def scheduler_of(work: Any, store: Any = None, **options: Any) -> Iterator[Replies]:
    scheduler = RequestScheduler(work, store, **{"jobs": 1, **options})
    try:
        yield Replies(scheduler)
    finally:
        scheduler.end_all("over")
        assert scheduler.close()


def test_the_same_question_is_computed_once_for_all_who_ask_at_the_time():
    gate = Gate()
    with scheduler_of(gate) as replies:
        for id in range(5):
            replies.ask(id, "a")
        gate.open.set()
        replies.wait(5)
    assert gate.begun == ["a"]
    assert [len(found) for found in replies.found.values()] == [1] * 5
    assert all(found[0]["result"] == {**answer("a"), "cached": False} for found in replies.found.values())


def test_work_goes_on_while_one_of_those_who_asked_still_waits():
    gate = Gate()
    with scheduler_of(gate) as replies:
        replies.ask(1, "a")
        replies.ask(2, "a")
        gate.arrived.acquire()
        assert replies.scheduler.cancel("1")
        assert replies.found[1][0]["error"]["code"] == "cancelled"
        gate.open.set()
        replies.wait(2)
        assert "result" in replies.found[2][0]


def test_work_that_nobody_waits_for_is_left_and_done_anew_for_the_next():
    gate = Gate()
    with scheduler_of(gate) as replies:
        replies.ask(1, "a")
        gate.arrived.acquire()
        assert replies.scheduler.cancel("1")
        replies.ask(2, "a")
        assert gate.left.acquire(timeout=60)
        gate.open.set()
        replies.wait(2)
        assert "result" in replies.found[2][0]
    assert gate.begun == ["a", "a"]
    assert len(replies.found[1]) == 1


def test_a_request_that_waits_for_its_turn_can_be_cancelled_and_is_never_begun():
    gate = Gate()
    with scheduler_of(gate) as replies:
        replies.ask(1, "a")
        gate.arrived.acquire()
        replies.ask(2, "b")
        assert replies.scheduler.cancel("2")
        assert not replies.scheduler.cancel("2")
        assert not replies.scheduler.cancel("3")
        gate.open.set()
        replies.wait(2)
    assert gate.begun == ["a"]


def test_a_request_that_takes_too_long_is_ended_and_others_are_not():
    gate = Gate()
    with scheduler_of(gate, jobs=2, timeout=1000.0) as replies:
        replies.ask(1, "a", timeout=0.01)
        replies.ask(2, "a")
        replies.ask(3, "b", timeout=1e5)
        while replies.scheduler.expire() < 100:
            pass
        assert replies.found[1][0]["error"]["code"] == "timeout"
        assert replies.found[1][0]["error"]["message"] == "no answer within 0.01 s"
        assert 100 < replies.scheduler.expire() <= 1000
        gate.open.set()
        replies.wait(3)
    assert "result" in replies.found[2][0]
    assert "result" in replies.found[3][0]


def test_room_is_bounded_by_requests_and_by_bytes_and_comes_back():
    gate, noticed = Gate(), threading.Event()
    with scheduler_of(gate, max_requests=2, notify=noticed.set) as replies:
        replies.ask(1, "a")
        assert replies.scheduler.room
        replies.ask(2, "b")
        assert not replies.scheduler.room
        gate.open.set()
        replies.wait(2)
        while not replies.scheduler.room:
            assert noticed.wait(60)
            noticed.clear()
    with scheduler_of(gate, max_bytes=15) as replies:
        gate.open.clear()
        replies.ask(1, "a")
        replies.ask(2, "b")
        assert not replies.scheduler.room


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TraceError("array\nB"), "bad_input", r"array\nB"),
        (Refusal("too_large", "much"), "too_large", "much"),
        (MemoryError(), "too_large", "the request needs more memory than there is"),
        (ZeroDivisionError("by zero"), "internal", "ZeroDivisionError: by zero"),
        (RecursionError("deep"), "internal", "RecursionError: deep"),
    ],
)
def test_whatever_work_raises_becomes_an_error_of_one_line_and_the_worker_goes_on(error, code, message, capsys):
    gate = Gate()
    gate.error = error
    gate.open.set()
    with scheduler_of(gate) as replies:
        replies.ask(1, "a")
        replies.wait(1)
        assert replies.found[1][0]["error"] == {"code": code, "message": message}
        gate.error = None
        replies.ask(2, "a")
        replies.wait(1)
        assert "result" in replies.found[2][0]
    assert capsys.readouterr().err == ""


def test_internal_errors_are_traced_on_request_and_others_are_not(capsys):
    gate = Gate()
    gate.error = ZeroDivisionError("by zero")
    gate.open.set()
    with scheduler_of(gate, debug=True) as replies:
        replies.ask(1, "a")
        replies.wait(1)
        assert "ZeroDivisionError: by zero" in capsys.readouterr().err
        gate.error = TraceError("no")
        replies.ask(2, "b")
        replies.wait(1)
        assert capsys.readouterr().err == ""


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.held: dict[str, Any] = {}

    def get(self, question: Any) -> Any:
        return self.held.get(json.dumps(question, sort_keys=True))

    def put(self, question: Any, answer: Any) -> None:
        self.held[json.dumps(question, sort_keys=True)] = answer


def test_answers_are_kept_and_errors_are_not():
    gate, store = Gate(), Kept()
    gate.open.set()
    with scheduler_of(gate, store) as replies:
        replies.ask(1, "a")
        replies.wait(1)
        replies.ask(2, "a", timeout=5)
        replies.wait(1)
        gate.error = TraceError("no")
        replies.ask(3, "b")
        replies.wait(1)
    assert "error" in replies.found[3][0]
    assert [replies.found[id][0]["result"]["cached"] for id in (1, 2)] == [False, True]
    assert gate.begun == ["a", "b"]
    assert len(store.held) == 1


def test_an_answer_in_the_store_that_is_none_is_ignored():
    gate, store = Gate(), Kept()
    gate.open.set()
    store.put(question_of(read_request({"op": "predict", "kernel": "a"})), {"kernel": "a"})
    with scheduler_of(gate, store) as replies:
        for id in range(3):
            replies.ask(id, "a")
            replies.wait(1)
    assert [replies.found[id][0]["result"]["cached"] for id in range(3)] == [False, True, True]
    assert list(store.held.values()) == [answer("a")]


def test_a_store_that_fails_costs_no_answer_and_no_worker():
    gate, store = Gate(), Kept()
    gate.open.set()
    store.put = lambda question, answer: 1 / 0  # type: ignore[method-assign]
    with scheduler_of(gate, store) as replies:
        for id, kernel in enumerate("ab"):
            replies.ask(id, kernel)
            replies.wait(1)
    assert all("result" in found[0] for found in replies.found.values())


def test_a_question_that_was_cancelled_before_its_turn_takes_no_room():
    gate = Gate()
    with scheduler_of(gate) as replies:
        replies.ask(0, "a")
        gate.arrived.acquire()
        for id in range(1, 100):
            replies.ask(id, f"k{id}")
            assert replies.scheduler.cancel(str(id))
        assert len(replies.scheduler._queue) == 0


def test_trouble_with_the_store_is_told_once(capsys):
    store = Kept()
    store.trouble = "answers.sqlite: is locked"
    gate = Gate()
    gate.open.set()
    with scheduler_of(gate, store) as replies:
        for id in range(3):
            replies.ask(id, "a")
            replies.wait(1)
    assert capsys.readouterr().err == "rdmodel: answers.sqlite: is locked\n"


def test_many_threads_of_work_answer_every_request_once():
    gate = Gate()
    gate.open.set()
    with scheduler_of(gate, jobs=4, max_requests=10_000) as replies:
        for id in range(300):
            replies.ask(id, f"k{id % 17}")
            if id % 5 == 0:
                replies.scheduler.cancel(str(id - 2))
        replies.wait(300)
        assert not replies.came.acquire(blocking=False)
    assert all(len(found) == 1 for found in replies.found.values())
    assert len(replies.found) == 300
    assert not replies.scheduler._computations and not replies.scheduler._waiting and replies.scheduler._bytes == 0


def test_without_a_limit_there_is_no_time_to_wait_for():
    with scheduler_of(Gate()) as replies:
        replies.ask(1, "a")
        assert replies.scheduler.expire() == inf
