"""The protocol of the service: lines, JSON, requests, and the refusal of each mistake."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.model.options import Options
from rdmodel.service import protocol, requests
from rdmodel.service.line_buffer import LineBuffer
from rdmodel.service.protocol import CODES, Decoder, Refusal
from rdmodel.service.requests import FIELDS, REQUIRED, read_request
from tests.support.service_client import SCHEMA

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


@pytest.mark.parametrize("op", ["predict", "rank"])
def test_the_schema_has_every_value_of_an_option_of_the_model(op):
    properties = SCHEMA["$defs"][op]["properties"]
    values = {name: kind for name, kind in get_type_hints(Options).items() if get_origin(kind) is Literal}
    assert "sched" in values
    for name, kind in values.items():
        assert properties[name] == {"enum": [*get_args(kind)]}
