"""`rdmodel serve` through real pipes: one answer for every line, whatever the line is."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import rdmodel
import tracegen
from rdmodel.service.protocol import CODES, MAX_LINE_BYTES
from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.service_client import (
    COMMAND,
    ENDLESS,
    INPUT,
    ROWS,
    SCHEMA,
    Client,
    checked,
    environment,
    serve,
)

BAD_LINES = [
    b"{",
    b"\xff",
    b"nonsense",
    b'{"op": "ping"',
    b'{"op": NaN}',
    b'{"op": "ping", "op": "ping"}',
    b"[" * 100_000,
    b"9" * 100_000,
    b'{"op": "predict", "kernel": "gemm", "seed": 1e999}',
    b"[]",
    b"3",
    b"null",
    b'{"op": "predict"}',
    b'{"op": "predict", "kernel": "gem"}',
    b'{"op": "predict", "kernel": "gemm", "params": {"NI": 4611686018427387904}}',
    b"x" * (MAX_LINE_BYTES + 1),
    b"\x00",
]


@pytest.fixture(scope="module")
def client():
    with Client() as one:
        yield one


# ---- what is asked and answered


def test_every_op_is_answered(client):
    ping = client.ask({"id": 1, "op": "ping"})["result"]
    assert (ping["service"], ping["version"], ping["under_way"]) == ("rdmodel", rdmodel.__version__, 0)
    gpus = client.ask({"op": "gpus"})["result"]["gpus"]
    assert [gpu["name"] for gpu in gpus] == rdmodel.presets.names()
    kernels = client.ask({"op": "kernels"})["result"]["kernels"]
    assert {spec.name for spec in tracegen.kernels()} <= {kernel["name"] for kernel in kernels}
    assert client.ask({"op": "cancel", "request": "nobody"})["result"] == {"found": False}


def test_a_prediction_is_that_of_the_command_line(client, run):
    found = client.ask({"op": "predict", "kernel": "atax.1", "params": {"NX": 64, "NY": 64}, "block": [64], "seed": 3})
    argv = ("atax.1", "--param", "NX=64", "--param", "NY=64", "--block", "64", "--seed", "3", "--json")
    wanted = json.loads(run("predict", *argv)[1])
    for counted in ("occupancy", "work"):  # of the launch, whatever was predicted
        del wanted[counted]
    assert {**wanted, "cached": False, "seconds": 0, "trace_seconds": 0} == {
        **found["result"],
        "seconds": 0,
        "trace_seconds": 0,
    }


def test_a_ranking_has_the_feasible_tiles_in_order_and_the_others_with_their_reasons(client):
    tiles = {"block": [[256], [64], [2048]]}
    found = client.ask({"op": "rank", "kernel": ROWS, "tiles": tiles, "objective": "misses"})["result"]
    assert [one["rank"] for one in found["tiles"]] == sorted(one["rank"] for one in found["tiles"])
    assert sorted(one["tile"]["block"] for one in found["tiles"]) == [[64], [256]]
    (infeasible,) = found["infeasible"]
    assert infeasible["tile"] == {"block": [2048]}
    assert "2048 threads" in infeasible["reason"]


def test_tiles_may_be_parameters_one_by_one(client):
    tiles = [{"N": 64}, {"N": 128, "block": [32]}]
    found = client.ask({"op": "rank", "kernel": ROWS, "tiles": tiles, "objective": "misses"})["result"]
    assert {json.dumps(one["tile"]) for one in found["tiles"]} == set(map(json.dumps, tiles))


def test_a_ranking_of_which_no_tile_can_run_is_an_error_with_the_reason(client):
    found = client.ask({"id": 1, "op": "rank", "kernel": ROWS, "tiles": {"T": [8, 16]}})
    assert found["error"]["code"] == "bad_input"
    assert "'T'" in found["error"]["message"]


def test_a_batch_is_answered_by_one_line_in_its_order(client):
    batch = [
        {"id": "slow", "op": "predict", "kernel": "gemm"},
        {"id": "quick", "op": "ping"},
        {"id": "none", "op": "pong"},
        [],
    ]
    found = client.ask(batch)
    assert [one["id"] for one in found] == ["slow", "quick", "none", None]
    assert [list(one)[1] for one in found] == ["result", "result", "error", "error"]


def test_answers_come_when_they_are_there_and_a_request_under_way_can_be_cancelled(client):
    client.send({"id": ["long"], "op": "predict", "kernel": ENDLESS}, {"id": 2, "op": "predict", "kernel": ROWS})
    assert client.receive()["id"] == 2
    assert client.ask({"id": 3, "op": "ping"})["result"]["under_way"] == 1
    client.send({"id": 4, "op": "cancel", "request": ["long"]})
    assert client.receive() == {
        "id": ["long"],
        "error": {"code": "cancelled", "message": "a cancel request has ended it"},
    }
    assert client.receive() == {"id": 4, "result": {"found": True}}


def test_a_request_that_takes_too_long_is_ended(client):
    found = client.ask({"id": 1, "op": "predict", "kernel": ENDLESS, "timeout": 0.05})
    assert found["error"] == {"code": "timeout", "message": "no answer within 0.05 s"}


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line[:40]))
def test_a_bad_line_gets_an_error_and_the_service_goes_on(client, line):
    found = client.ask(line)
    assert found["error"]["code"] in set(CODES) - {"internal"}
    assert client.ask({"id": 7, "op": "ping"})["id"] == 7


# ---- the ends


def test_the_input_may_end_without_a_line_break_and_empty_lines_are_no_requests():
    done = serve(b'\n  \r\n{"id": 1, "op": "ping"}\r\n\t\n{"id": 2, "op": "predict", "kernel": "gemm"}')
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(checked(line)["id"] for line in done.stdout.splitlines()) == [1, 2]


def test_no_input_is_no_answer():
    done = serve(b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_more_requests_than_the_queue_holds_are_all_answered():
    kernels = [{"id": id, "op": "predict", "kernel": ROWS, "params": {"N": 32 + id}} for id in range(40)]
    done = serve("\n".join(map(json.dumps, kernels)), "--no-cache", "--queue", "3", "--jobs", "2")
    assert (done.returncode, done.stderr) == (0, b"")
    found = [checked(line) for line in done.stdout.splitlines()]
    assert sorted(one["id"] for one in found) == list(range(40))
    assert all(one["result"]["config"]["trace"]["params"]["N"] == 32 + one["id"] for one in found)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_what_is_under_way_with_an_error_and_the_service_quietly(number, status):
    with Client() as client:
        client.send({"id": 1, "op": "predict", "kernel": ENDLESS}, {"id": 2, "op": "ping"})
        assert client.receive()["id"] == 2
        client.process.send_signal(number)
        found = client.receive()
        assert (found["id"], found["error"]["code"]) == (1, "cancelled")
        assert client.end() == (status, [], "")


def test_a_reader_that_is_gone_ends_the_service_quietly():
    process = subprocess.Popen(
        [*COMMAND, "--no-cache"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b'{"op": "ping"}\n' * 3)
        process.stdin.flush()
    assert process.wait(60) in (0, 1)
    assert process.stderr.read() == b""
    process.stderr.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def test_a_reader_that_pauses_loses_nothing():
    with Client() as client:
        count = 80  # far more than a pipe holds
        writing = threading.Thread(target=client.send, args=[{"id": id, "op": "gpus"} for id in range(count)])
        writing.start()
        found = [client.receive()["id"] for _ in range(count)]
        writing.join()
    assert found == list(range(count))


# ---- the cache


def test_answers_are_kept_between_services_and_say_so(tmp_path):
    options = ("--cache", str(tmp_path / "answers.sqlite"))
    ask = {"op": "predict", "kernel": ROWS}
    with Client(*options) as client:
        first = client.ask(ask)["result"]
        second = client.ask({**ask, "id": 1, "timeout": 5})["result"]
        assert client.end()[0] == 0
    with Client(*options) as client:
        third = client.ask(ask)["result"]
        other = client.ask({**ask, "seed": 1})["result"]
    assert [one["cached"] for one in (first, second, third, other)] == [False, True, True, False]
    assert {**first, "cached": True} == second == third


def test_a_kernel_without_loads_has_null_for_its_miss_rate_also_from_the_cache(tmp_path):
    fill = {**ROWS, "body": [{"store": "y", "at": "x"}]}
    with Client("--cache", str(tmp_path / "answers.sqlite")) as client:
        found = [client.ask({"op": "predict", "kernel": fill, "l2": True})["result"] for _ in range(2)]
        ranking = client.ask({"op": "rank", "kernel": fill, "tiles": {"block": [[32], [64]]}})["result"]
    assert [(one["miss_rate"], one["cached"]) for one in found] == [(None, False), (None, True)]
    assert found[0]["l2"]["writes"] > 0
    assert [tile["miss_rate"] for tile in ranking["tiles"]] == [None, None]


def test_without_a_cache_everything_is_computed(client):
    ask = {"op": "predict", "kernel": ROWS}
    assert [client.ask(ask)["result"]["cached"] for _ in range(2)] == [False, False]


# ---- usage


def test_the_schema_is_printed(run):
    status, out, err = run("serve", "--schema")
    assert (status, err) == (0, "")
    assert json.loads(out) == SCHEMA


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (("--jobs", "0"), "n_jobs=0"),
        (("--queue", "0"), "queue=0"),
        (("--timeout", "0"), "timeout=0"),
        (("--timeout", "1e9"), "timeout=1e+09"),
        (("--cache", "x", "--no-cache"), "not allowed with"),
        (("gemm",), "unknown argument 'gemm'"),
    ],
)
def test_bad_usage_is_one_line(run, argv, part):
    status, out, err = run("serve", *argv)
    assert (status, out) == (2, "")
    assert part in err and err.count("\n") == 1


# ---- anything at all

SEEDS = [
    {"id": 1, "op": "ping"},
    {"id": 1, "op": "gpus", "gpu": "koo-fermi", "set": {"l1.index": "bxor"}},
    {"id": 1, "op": "kernels"},
    {"id": 1, "op": "predict", "kernel": "gemm", "params": {"NI": 32}, "block": [32, 8], "set": {"l1.size": "16K"}},
    {"id": 1, "op": "predict", "kernel": ROWS, "definition": "paper", "seeds": 2, "ablation": True, "l2": True},
    {"id": 1, "op": "predict", "kernel": ROWS, "gpu": rdmodel.presets.gpu("gtx470-16k").to_dict(), "sched": "gto"},
    {"id": 1, "op": "rank", "kernel": ROWS, "tiles": {"block": [[32], [64]]}, "objective": "misses", "top": 1},
    {"id": 1, "op": "cancel", "request": 1},
    [{"id": 1, "op": "ping"}, {"id": 2, "op": "cancel", "request": 1}],
]

ODD = [
    None, True, 0, -1, 1, 3.5, 1 << 62, -(1 << 63), 1e300, "", "x", "inf", "48K", "é\udc80", [], [[]], {}, {"": 1},
    "min(x, 1)", "x // 0", "((((", "gemm", [1, 2, 3],
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container and key, or index, within a value."""
    found: list[tuple[Any, Any]] = []
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in items:
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += places(inner)
    return found


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A request with values exchanged, fields left out or renamed, or bytes changed."""
    value = json.loads(json.dumps(draw(st.sampled_from(SEEDS))))
    for _ in range(draw(st.integers(0, 3))):
        container, key = draw(st.sampled_from(places(value) or [([0], 0)]))
        how = draw(st.integers(0, 2))
        if how == 0:
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif isinstance(container, dict) and how == 1:
            container[draw(st.sampled_from(["x", "op", "kernel", "at", key + "s"]))] = container.pop(key)
        else:
            del container[key]
    if isinstance(value, dict) and value.get("op") in ("predict", "rank"):
        value.setdefault("timeout", 0.5)
    line = json.dumps(value).encode()
    if draw(st.booleans()) and draw(st.booleans()):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.binary(max_size=3)) + line[at + draw(st.integers(0, 3)) :]
    return line


def is_line(line: bytes) -> bool:
    return bool(line.strip(b" \t\r"))


def internal(answer: Any) -> bool:
    answers = answer if isinstance(answer, list) else [answer]
    return any(one.get("error", {}).get("code") == "internal" for one in answers)


@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.one_of(mutated(), st.binary(max_size=40)), min_size=1, max_size=6))
def test_every_line_gets_exactly_one_answer_as_the_schema_says_and_no_bug_is_found(client, lines):
    lines = [part for line in lines for part in line.split(b"\n")]
    client.send(*lines, b'{"id": "the last", "op": "ping"}')
    found = [client.receive() for _ in range(sum(map(is_line, lines)) + 1)]
    assert {"the last"} == {one["id"] for one in found if isinstance(one, dict) and one["id"] == "the last"}
    assert [one for one in found if internal(one)] == []
    assert client.ask({"id": "still", "op": "ping"})["id"] == "still"


def test_four_clients_at_once_get_the_answers_that_one_gets(tmp_path):
    asks = [
        {"id": id, "op": "predict", "kernel": ROWS, "params": {"N": 32 + 8 * (id % 10)}, "seed": id % 3}
        for id in range(40)
    ]
    options = ("--cache", str(tmp_path / "answers.sqlite"))
    found: list[dict[Any, Any]] = []

    def one(seed: int) -> None:
        order = random.Random(seed).sample(asks, len(asks))
        with Client(*options) as client:
            client.send(*order)
            answers = [client.receive() for _ in order]
        found.append({answer["id"]: answer["result"]["misses"] for answer in answers})

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert found[0] == found[1] == found[2] == found[3]
    assert sorted(found[0]) == list(range(40))


# ---- in C


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("client") / "client"
    source = ROOT / "docs" / "examples" / "client.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wpedantic"]
    subprocess.run([compiler, *flags, "-o", program, source], check=True)
    return program


def run_client(program: Any, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *command], capture_output=True, text=True, env=environment(), check=False)


def test_the_client_in_c_asks_and_reads_the_answer(compiled):
    done = run_client(compiled, *COMMAND, "--no-cache")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("best block: 64 x 1, ")


SLOWLY = """
import sys, time
answer = '{"id":1,"result":{"tiles":[{"rank":1,"tile":{"block":[16,2]},"value":7.0,"x":"%s"}]}}' % ("x" * 200_000)
sys.stdin.readline()
for at in range(0, len(answer), 4099):
    sys.stdout.write(answer[at : at + 4099])
    sys.stdout.flush()
print()
"""


def test_the_client_in_c_puts_an_answer_together_from_parts(compiled):
    done = run_client(compiled, sys.executable, "-c", SLOWLY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "best block: 16 x 2, 7 misses\n", "")


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ((), "command of the service is missing"),
        (("no-such-program",), "No such file"),
        (("true",), "client: "),
        ((sys.executable, "-c", "input(); print('{}')"), "this is no ranking: {}"),
        ((sys.executable, "-c", 'input(); print(\'{"error":{"code":"busy"}}\')'), '{"code":"busy"}'),
    ],
)
def test_the_client_in_c_says_what_is_wrong(compiled, command, part):
    done = run_client(compiled, *command)
    assert done.returncode == 1
    assert part in done.stderr


def test_requests_of_the_tests_are_as_the_schema_says():
    for request in SEEDS:
        INPUT.validate(request)
