"""The parts of the service, one by one."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel
from rdmodel.errors import RdmodelError, TraceError
from rdmodel.service import operations, protocol, requests
from rdmodel.service.line_buffer import LineBuffer
from rdmodel.service.lru_cache import TextLruCache
from rdmodel.service.operations import is_answer, question_of
from rdmodel.service.protocol import CODES, Decoder, Refusal
from rdmodel.service.requests import FIELDS, REQUIRED, read_request
from rdmodel.service.scheduler import RequestScheduler
from rdmodel.service.server import Service
from tests.support.service_client import INPUT, OUTPUT, ROWS, SCHEMA

# ---- lines


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")), st.lists(st.integers(0, 60)))
def test_lines_are_those_of_the_whole_stream_wherever_it_is_cut(data, cuts):
    lines = LineBuffer(8)
    marks = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    for begin, end in pairwise(marks):
        lines.feed(data[begin:end])
    lines.end()
    wanted = data.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    assert [lines.next() for _ in range(len(lines))] == [line if len(line) <= 8 else None for line in wanted]


def test_of_a_line_that_is_too_long_nothing_is_held():
    lines = LineBuffer(100)
    for _ in range(1000):
        lines.feed(b"x" * 1000)
    assert sum(map(len, lines._parts)) == 0
    lines.feed(b"\nshort\n")
    assert (lines.next(), lines.next()) == (None, b"short")


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


# ---- JSON


def refusal_of(line: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        Decoder().decode(line)
    return caught.value


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        (b"{", "parse_error", "character 1: not JSON"),
        (b'{"op": "ping"} {}', "parse_error", "character 15: not JSON"),
        (b"\xff\xfe", "parse_error", "byte 0: not UTF-8"),
        (b'"\xed\xa0\x80"', "parse_error", "byte 1: not UTF-8"),
        (b'{"a": NaN}', "parse_error", "NaN: is not a JSON number"),
        (b"-Infinity", "parse_error", "-Infinity: is not a JSON number"),
        (b'{"a": 1e999}', "parse_error", "1e999: is beyond"),
        (b"1" * 100_000, "parse_error", "11111111111111111111...: whole numbers have at most 20 digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "parse_error", "'a': is given twice"),
        (b"[" * 1_000_000, "too_large", "deeper than 100"),
        (b"[" * 101 + b"]" * 101, "too_large", "deeper than 100"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "too_large", "deeper than 100"),
    ],
)
def test_what_is_no_reliable_json_is_refused(line, code, part):
    refusal = refusal_of(line)
    assert refusal.code == code
    assert part in refusal.message


def test_a_line_that_is_almost_json_still_tells_whose_it_is():
    assert refusal_of(b'{"id": "seven", "op": "predict", "seed": 1e999}').id == '"seven"'
    assert refusal_of(b'{"seed": NaN, "id": 7}').id == "7"
    assert refusal_of(b'{"id": 1e999}').id == "null"
    assert refusal_of(b'[{"id": 1, "a": NaN}]').id == "null"


def test_values_stand_as_deep_as_is_allowed():
    assert Decoder().decode(b"[" * 100 + b"]" * 100)
    assert Decoder().decode(json.dumps(["[" * 500] + [[]] * 500).encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)  # fmt: skip
def test_any_id_comes_back_as_it_was_on_one_line(value):
    read = Decoder().decode(json.dumps({"id": value, "op": "ping"}).encode())
    line = protocol.answer_text(read_request(read).id, protocol.result_text({}))
    assert line.isascii() and "\n" not in line
    assert json.loads(line) == {"id": value, "result": {}}


# ---- requests


@pytest.mark.parametrize(
    ("request_", "code", "part"),
    [
        (3, "invalid_request", "3: a request is an object"),
        ([], "invalid_request", "[]: a request is an object"),
        ({}, "invalid_request", "op: is missing; must be one of ping, gpus"),
        ({"op": 3}, "invalid_request", "op: 3: must be text"),
        ({"op": "pnig"}, "unknown_op", "did you mean 'ping'"),
        ({"op": "x" * 10_000}, "unknown_op", "unknown op"),
        ({"op": "ping", "kernel": "gemm"}, "invalid_request", "unknown field of ping 'kernel'"),
        ({"op": "predict"}, "invalid_request", "kernel: is missing"),
        ({"op": "predict", "kernel": 3}, "invalid_request", "kernel: 3: must be a name or an object"),
        ({"op": "predict", "kernel": "x" * 1000}, "too_large", "kernel: "),
        ({"op": "predict", "kernel": "gemm", "sede": 1}, "invalid_request", "did you mean 'seed'"),
        ({"op": "predict", "kernel": "gemm", "n_jobs": 2}, "invalid_request", "'n_jobs'"),
        ({"op": "predict", "kernel": "gemm", "params": [1]}, "invalid_request", "params: [1]: must be an object"),
        ({"op": "predict", "kernel": "gemm", "params": {"NI": 1.5}}, "invalid_request", "params: NI: 1.5: must be a w"),
        ({"op": "predict", "kernel": "gemm", "params": {"NI": True}}, "invalid_request", "NI: true"),
        ({"op": "predict", "kernel": "gemm", "params": {"N" * 1000: 1}}, "too_large", "params: a name"),
        ({"op": "predict", "kernel": "gemm", "block": [1, 2, 3, 4]}, "invalid_request", "block: [1, 2, 3, 4]"),
        ({"op": "predict", "kernel": "gemm", "block": ["x"]}, "invalid_request", 'block: "x"'),
        ({"op": "predict", "kernel": "gemm", "seed": [1]}, "invalid_request", "seed: [1]"),
        ({"op": "predict", "kernel": "gemm", "set": {"l1.size": []}}, "invalid_request", "set: l1.size: []"),
        ({"op": "predict", "kernel": "gemm", "timeout": 0}, "invalid_request", "timeout: 0: must be a number of s"),
        ({"op": "predict", "kernel": "gemm", "timeout": "1"}, "invalid_request", 'timeout: "1"'),
        ({"op": "predict", "kernel": "gemm", "tiles": {}}, "invalid_request", "'tiles'"),
        ({"op": "rank", "kernel": "gemm"}, "invalid_request", "tiles: is missing"),
        ({"op": "rank", "kernel": "gemm", "tiles": {}}, "invalid_request", "tiles: must not be empty"),
        ({"op": "rank", "kernel": "gemm", "tiles": {"T": []}}, "invalid_request", "tiles: T: []: must be a list"),
        ({"op": "rank", "kernel": "gemm", "tiles": {"T": [1.5]}}, "invalid_request", "tiles: T: 1.5"),
        ({"op": "rank", "kernel": "gemm", "tiles": {"block": [8]}}, "invalid_request", "tiles: block: 8"),
        ({"op": "rank", "kernel": "gemm", "tiles": [8]}, "invalid_request", "tiles: number 0: 8"),
        ({"op": "rank", "kernel": "gemm", "tiles": [{"T": 1}] * 4097}, "too_large", "tiles: has more than 4096 tiles"),
        (
            {"op": "rank", "kernel": "gemm", "tiles": {"T": [1] * 65, "U": [1] * 65}},
            "too_large",
            "tiles: has more than 4096 tiles",
        ),
        (
            {"op": "rank", "kernel": "gemm", "tiles": {f"T{i}": [1, 2] for i in range(20_000)}},
            "too_large",
            "tiles: has more than 4096 tiles",
        ),
        ({"op": "cancel"}, "invalid_request", "request: is missing"),
    ],
)
def test_what_is_no_request_is_refused_and_the_offending_part_named(request_, code, part):
    with pytest.raises(Refusal) as caught:
        read_request({"id": [1], **request_} if isinstance(request_, dict) else request_)
    assert caught.value.code == code
    assert part.replace(", ", ",") in caught.value.message.replace(", ", ",")
    assert caught.value.id == ("[1]" if isinstance(request_, dict) else "null")


def test_the_schema_has_every_field_of_every_op_and_every_code():
    for op, known in FIELDS.items():
        request = SCHEMA["$defs"][op]
        assert set(request["properties"]) == {"id", "op", *known}
        assert set(request["required"]) == {"op", *REQUIRED.get(op, ())}
        assert {"$ref": f"#/$defs/{op}"} in SCHEMA["$defs"]["request"]["oneOf"]
    assert SCHEMA["$defs"]["error"]["properties"]["code"]["enum"] == list(CODES)
    assert SCHEMA["$defs"]["error"]["properties"]["message"]["maxLength"] == protocol.MAX_MESSAGE_CHARACTERS
    assert SCHEMA["$defs"]["tiles"]["anyOf"][1]["maxItems"] == requests.MAX_REQUEST_TILES
    assert SCHEMA["$defs"]["input"]["anyOf"][1]["maxItems"] == protocol.MAX_BATCH_REQUESTS


# ---- questions


def question(**fields: Any) -> dict[str, Any]:
    return question_of(read_request({"op": "predict", "kernel": "gemm", **fields}))


def test_a_question_does_not_depend_on_what_the_answer_does_not_depend_on():
    assert question() == question(id=7, timeout=3, gpu="gtx470-16k", seed=0, effort="exact")
    assert question() != question(seed=1)


def test_a_question_knows_the_order_of_arrays_and_of_the_names_of_tiles():
    other = {**ROWS, "arrays": dict(reversed(ROWS["arrays"].items()))}
    assert other == ROWS
    assert json.dumps(question(kernel=other), sort_keys=True) != json.dumps(question(kernel=ROWS), sort_keys=True)


def test_a_kernel_as_text_is_no_name():
    assert question(kernel={"name": "x"})["kernel"] != question(kernel='{"name":"x"}')["kernel"]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"kernel": "gem"}, "unknown kernel 'gem'; did you mean 'gemm'"),
        ({"gpu": "gtx47-16k"}, "unknown GPU 'gtx47-16k'; did you mean"),
        ({"gpu": "/etc/x.toml"}, "unknown GPU '/etc/x.toml'"),
        ({"gpu": {"name": "x"}}, "l1: is missing"),
        ({"gpu": {"name": "x" * 70_000}}, "gpu: is longer"),
        ({"set": {"l1.sise": 1}}, "unknown key 'l1.sise'; did you mean 'l1.size'"),
        ({"set": {"l1.size": "48Q"}}, "l1.size='48Q'"),
        ({"params": {"NX": 2}}, "unknown"),
        ({"params": {"NI": 0}}, "gemm: "),
        ({"params": {"NI": 1 << 62, "NJ": 1 << 62, "NK": 1 << 62}}, "gemm"),
        ({"params": {"NK": 1 << 40}}, "1099511627776 iterations"),
        ({"kernel": "bfs", "params": {"graph": 1}}, "unknown"),
        ({"block": [2000]}, "block"),
        ({"effort": "quik"}, "unknown value for effort: 'quik'; did you mean 'quick'"),
        ({"effort": "quick", "seeds": 3}, "seeds: only the effort 'exact'"),
        ({"work": 1000}, "work: only the effort 'quick'"),
        ({"sched": "rnd"}, "unknown value for sched"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": "x"}, "seed='x'"),
        ({"sms": 1 << 30, "model_sms": "all"}, "sms=1073741824"),
        ({"set": {"sms": 1 << 30}, "model_sms": "all"}, "sms=1073741824"),
        ({"seeds": 1 << 30}, "seeds=1073741824"),
        ({"set": {"l1.size": 1 << 40, "l1.index": "linear"}}, "sets need"),
        ({"set": {"l2.size": 1 << 36}}, "l2.size"),
        ({"kernel": {**ROWS, "body": [{"load": "B", "at": [0]}]}}, "unknown array 'B'"),
        ({"kernel": {**ROWS, "body": [{"load": "A", "at": ["x", "x + 1"]}]}}, "A[255, 256]"),
        ({"kernel": {**ROWS, "body": [{"load": "A", "at": ["x", "x * x"]}]}}, "'x * x': is not affine"),
        ({"kernel": {**ROWS, "description": "x" * 600_000}}, "kernel: is longer than 524288"),
        ({"kernel": {**ROWS, "bdy": []}}, "did you mean 'body'"),
        ({"kernel": {**ROWS, "parameters": {"N": 1 << 62}}}, "rows"),
    ],
)
def test_what_cannot_be_is_refused_and_the_offending_part_named(fields, part):
    request = read_request({"op": "predict", "kernel": "gemm", **fields})
    with pytest.raises((RdmodelError, Refusal)) as caught:
        operations.compute(request, lambda done, total: None, 1)
    assert part in str(caught.value)


def test_a_kernel_in_json_is_answered_as_predict_answers():
    import tracegen

    request = read_request({"op": "predict", "kernel": ROWS, "params": {"N": 128}, "seed": 3, "set": {"l1.mshrs": 8}})
    found = operations.compute(request, lambda done, total: None, 1)
    gpu = rdmodel.presets.gpu("gtx470-16k")
    gpu = gpu.replace(l1=rdmodel.gpu.config.replace(gpu.l1, mshrs=8))
    wanted = rdmodel.predict(tracegen.affine_kernel(ROWS, N=128), gpu, seed=3).to_dict()
    for name in ("transactions", "hits", "latency_misses", "misses", "miss_rate", "steps", "seed"):
        assert found[name] == wanted[name]
    assert found["config"]["gpu"]["l1"] == wanted["config"]["gpu"]["l1"]


def test_kernels_in_both_forms_are_answered_alike():
    import tracegen

    found = operations.compute(read_request({"op": "predict", "kernel": "atax.2"}), lambda done, total: None, 1)
    assert found["misses"] == rdmodel.predict(tracegen.kernel("atax.2")).to_dict()["misses"]


def test_every_kernel_that_is_listed_can_be_opened():
    for spec in operations.list_kernels()["kernels"]:
        trace = operations._trace_maker(spec["name"])({}, None)
        assert list(trace.launch.block) == spec["block"]


def test_a_gpu_that_is_answered_can_be_asked_with():
    one = operations.list_gpus({"gpu": "koo-fermi", "set": {"l1.index": "bxor"}})["gpus"][0]
    assert operations.requested_gpu({"gpu": json.loads(json.dumps(one))}).to_dict() == one


@pytest.mark.parametrize("stored", [None, [], {}, {"kernel": "gemm"}, {"kernel": 1, "gpu": "x"}])
@pytest.mark.parametrize("op", ["predict", "rank"])
def test_what_is_no_answer_is_not_taken_for_one(op, stored):
    assert not is_answer(op, stored)


# ---- the scheduler, with work that waits until it is told


class Gate:
    """Stands for the model: answers only when the test lets it."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.arrived = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        self.open = threading.Event()
        self.error: Exception | None = None

    def __call__(self, request: Any, progress: Any, threads: int) -> dict[str, Any]:
        self.begun.append(request.fields["kernel"])
        self.arrived.release()
        try:
            while not self.open.wait(0.002):
                progress(0, 1)
        except BaseException:
            self.left.release()
            raise
        if self.error is not None:
            raise self.error
        return answer(request.fields["kernel"])


def answer(kernel: str) -> dict[str, Any]:
    misses = {"compulsory": 0, "capacity": 0, "associativity": 0, "total": 0}
    counts = {"transactions": 1, "hits": 1, "latency_misses": 0, "misses": misses, "miss_rate": 0.0}
    return {"kernel": kernel, "gpu": "g", "definition": "hardware", "seed": 0, **counts, "config": {}}


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


# ---- the service in this process


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


def test_without_a_limit_there_is_no_time_to_wait_for():
    with scheduler_of(Gate()) as replies:
        replies.ask(1, "a")
        assert replies.scheduler.expire() == inf
