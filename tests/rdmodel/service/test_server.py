"""The server in a thread of this process: queue, batches, time limits and the end of a pipe."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from rdmodel.service.server import Service
from tests.support.service_client import INPUT, OUTPUT
from tests.support.service_gate import Gate


class Pipes:
    """A service in a thread."""

    def __init__(self, work: Any, **options: Any) -> None:
        source, self.into = os.pipe()
        out, sink = os.pipe()
        self.out = os.fdopen(out, "rb")
        self.status: Any = None
        self.fds = (source, sink)
        self.service = Service(source, sink, compute=work, **options)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.status = self.service.run()
        except OSError as error:
            self.status = error
        for fd in self.fds:
            os.close(fd)

    def send(self, *requests: Any) -> None:
        os.write(self.into, b"".join(json.dumps(one).encode() + b"\n" for one in requests))

    def receive(self) -> Any:
        value = json.loads(self.out.readline())
        OUTPUT.validate(value)
        return value

    def end(self) -> list[Any]:
        os.close(self.into)
        rest = [json.loads(line) for line in self.out]
        self.thread.join(60)
        self.out.close()
        return rest


def predict(id: Any, kernel: str, **fields: Any) -> dict[str, Any]:
    request = {"id": id, "op": "predict", "kernel": kernel, **fields}
    INPUT.validate(request)
    return request


def test_reading_stops_while_the_queue_is_full_and_goes_on_after():
    gate = Gate()
    pipes = Pipes(gate, jobs=1, queue=2)
    pipes.send(*(predict(id, str(id)) for id in range(5)), {"id": "p", "op": "ping"})
    gate.arrived.acquire()
    assert not pipes.service._room
    gate.open.set()
    assert {pipes.receive()["id"] for _ in range(6)} == {0, 1, 2, 3, 4, "p"}
    assert pipes.end() == []
    assert pipes.status == 0


def test_with_room_in_the_queue_ping_and_cancel_get_through_though_all_workers_are_busy():
    gate = Gate()
    pipes = Pipes(gate, jobs=1, queue=3)
    pipes.send(predict(1, "a"), predict(2, "b"), {"id": 3, "op": "ping"}, {"id": 4, "op": "cancel", "request": 1})
    assert pipes.receive()["result"]["under_way"] == 2
    assert pipes.receive() == {"id": 1, "error": {"code": "cancelled", "message": "a cancel request has ended it"}}
    assert pipes.receive() == {"id": 4, "result": {"found": True}}
    gate.open.set()
    assert pipes.receive()["id"] == 2
    assert pipes.end() == []


def test_on_request_what_finds_the_queue_full_is_refused_and_reading_goes_on():
    gate = Gate()
    pipes = Pipes(gate, jobs=1, queue=2, busy=True)
    pipes.send(*(predict(id, str(id)) for id in range(4)), {"id": "p", "op": "ping"})
    refused = [pipes.receive() for _ in range(2)]
    assert [(one["id"], one["error"]["code"]) for one in refused] == [(2, "busy"), (3, "busy")]
    assert pipes.receive()["result"]["under_way"] == 2
    gate.open.set()
    assert {one["id"] for one in pipes.end()} == {0, 1}


def test_a_batch_may_be_larger_than_the_room_that_is_left_and_is_answered_in_its_order():
    gate = Gate()
    gate.open.set()
    pipes = Pipes(gate, jobs=2, queue=2)
    pipes.send([predict(id, str(id % 3)) for id in range(20)] + [{"op": "ping"}, 7])
    found = pipes.receive()
    assert [one["id"] for one in found] == [*range(20), None, None]
    assert [one["result"]["kernel"] for one in found[:20]] == [str(id % 3) for id in range(20)]
    assert found[-1]["error"]["code"] == "invalid_request"
    assert pipes.end() == []


def test_when_the_input_ends_what_is_under_way_is_answered():
    gate = Gate()
    pipes = Pipes(gate, jobs=1)
    pipes.send(predict(1, "a"), predict(2, "b"))
    gate.arrived.acquire()
    threading.Timer(0.05, gate.open.set).start()
    assert sorted(one["id"] for one in pipes.end()) == [1, 2]
    assert pipes.status == 0


def test_a_time_limit_is_kept_though_nothing_else_happens():
    pipes = Pipes(Gate(), jobs=1, timeout=0.05)
    pipes.send(predict(1, "a"))
    assert pipes.receive()["error"] == {"code": "timeout", "message": "no answer within 0.05 s"}
    assert pipes.end() == []


def test_a_reader_that_is_gone_ends_the_service_and_its_work():
    gate = Gate()
    pipes = Pipes(gate, jobs=1)
    pipes.send(predict(1, "a"))
    gate.arrived.acquire()
    pipes.out.close()
    pipes.send({"op": "ping"})
    pipes.thread.join(60)
    assert isinstance(pipes.status, BrokenPipeError)
    assert gate.left.acquire(timeout=60)
    os.close(pipes.into)


def test_a_bug_in_the_service_is_one_error_and_no_end(monkeypatch):
    monkeypatch.setattr("rdmodel.service.server.list_kernels", lambda: 1 / 0)
    pipes = Pipes(Gate(), jobs=1)
    pipes.send({"id": 1, "op": "kernels"}, {"id": 2, "op": "ping"})
    error = {"code": "internal", "message": "ZeroDivisionError: division by zero"}
    assert pipes.receive() == {"id": 1, "error": error}
    assert pipes.receive()["id"] == 2
    assert pipes.end() == []
