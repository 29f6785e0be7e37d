"""Test the refusal of invalid affine kernels: one line that names the part, without delay."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracegen
from rdmodel.cli import main
from rdmodel.errors import ConfigError, LaunchError, RdmodelError, TraceError
from tests.support.examples import examples
from tracegen.affine import AffineKernel, from_json
from tracegen.affine.affine_form import Affine, Extreme
from tracegen.affine.expression import evaluate_affine, evaluate_bound, evaluate_condition, evaluate_constant

NAMES = {"N": 7, "i": None, "j": None}
SCOPE = {"N": Affine(7), "i": Affine.of(0, {0: 1}), "j": Affine.of(0, {1: 1})}


# ---- the parser


@st.composite
def affine_texts(draw, depth=4):
    kind = draw(st.integers(0, 7 if depth else 1))
    if kind == 0:
        return str(draw(st.integers(0, 99)))
    if kind == 1:
        return draw(st.sampled_from(["N", "i", "j"]))
    inner = draw(affine_texts(depth - 1))
    if kind == 2:
        return f"-{inner}" if draw(st.booleans()) else f"({inner})"
    if kind in (3, 4, 5):
        return f"{inner} {draw(st.sampled_from('+-'))} {draw(affine_texts(depth - 1))}"
    factor = draw(st.sampled_from(["3", "N", "(N - 2)", "(N // 2)", "(N % 4)", "-2", "min(N, 3)"]))
    return f"({inner}) * {factor}" if kind == 6 else f"{factor} * ({inner})"


@settings(deadline=None)
@given(affine_texts(), st.integers(-50, 50), st.integers(-50, 50))
def test_affine_expressions_mean_what_they_mean_in_python(text, i, j):
    form = evaluate_affine(text, SCOPE)
    assert form.value([i, j]) == eval(text, {"N": 7, "i": i, "j": j})
    box = [(i, i + 3), (j - 2, j)]
    values = [form.value([a, b]) for a in range(i, i + 4) for b in range(j - 2, j + 1)]
    assert (form.least(box), form.most(box)) == (min(values), max(values))


@pytest.mark.parametrize("text", ["min(i, j) - 3", "5 - max(i, N)", "-2 * min(i, max(j, 3)) + i", "max(i + 1, N, 2*j)"])
def test_bounds_may_have_min_and_max(text):
    found = evaluate_bound(text, SCOPE)
    assert isinstance(found, Extreme)
    for i in range(-3, 12):
        for j in range(-3, 12):
            assert found.value([i, j]) == eval(text, {"N": 7, "i": i, "j": j})


def test_conditions_are_forms_that_are_at_least_0():
    for text in ("0 < i < N - 1", "i == j", "2*i >= j > N", "i <= 3"):
        forms = evaluate_condition(text, SCOPE)
        for i in range(-3, 12):
            for j in range(-3, 20):
                assert all(f.value([i, j]) >= 0 for f in forms) == eval(text, {"N": 7, "i": i, "j": j})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i * j", "'i * j': is not affine: a product needs a factor made of numbers and parameters"),
        ("i * i", "is not affine"),
        ("i // 2", "is not affine: both sides of // must be made of numbers and parameters"),
        ("i % 4", "is not affine: both sides of % must"),
        ("N // 0", "divides by 0"),
        ("min(i, j)", "min() is allowed in the bounds of loops only"),
        ("k", "unknown name 'k'; known: N, i, j"),
        ("i +", "ends too early"),
        ("i j", "'j' is unexpected"),
        ("(i", "a parenthesis is not closed"),
        ("", "ends too early"),
        ("i ** 2", "'*' stands where a number or a name should"),
        ("1.5", "'.' is not allowed in an expression"),
        ("0x10", "'x10' is unexpected"),
        ("i & 3", "'&' is not allowed in an expression"),
        ("__import__('os')", """"'" is not allowed in an expression"""),
        ("exit(1)", "exit() is not a function; the functions are min() and max()"),
        ("A[i]", "'[' is not allowed in an expression"),
        ("i < 3", "'<' is unexpected"),
        ("\u0663", "'\u0663' is not allowed in an expression"),
        ("9223372036854775808", "numbers are at most 2^63 - 1"),
        ("9" * 900, "numbers are at most 2^63 - 1"),
        ("4611686018427387904 * 4", "has numbers beyond 2^63"),
        ("(" * 500, "is nested deeper than 40"),
        ("-" * 500 + "1", "is nested deeper than 40"),
        ("min(" * 240 + "1", "is nested deeper than 40"),
        ("1" + " + 1" * 10**6, "4000001 characters, at most 1000 are allowed"),
        (1.5, "1.5: must be a whole number or an expression in text"),
        (True, "True: must be a whole number"),
        (None, "None: must be a whole number"),
        (["i"], "['i']: must be a whole number"),
        (1 << 70, "numbers are at most 2^63 - 1"),
    ],
)
def test_what_is_not_affine_is_refused(text, message):
    with pytest.raises(TraceError, match=re.escape(message)) as caught:
        evaluate_affine(text, SCOPE)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_long_chains_are_no_deep_ones():
    assert evaluate_affine("1" + "+1" * 499, SCOPE).constant == 500
    assert evaluate_affine("1" + "*1" * 499, SCOPE).constant == 1
    assert evaluate_constant("N" + "//1" * 300, SCOPE) == 7


@examples(300)
@given(st.text(alphabet="Nij019+-*/%(),<>= minax.", max_size=60))
def test_any_text_is_an_expression_or_refused(text):
    for read in (evaluate_bound, evaluate_condition):
        with suppress(TraceError):
            read(text, SCOPE)


@pytest.mark.parametrize("text", ["i", "i + 1", "min(i)"])
def test_a_condition_compares(text):
    with pytest.raises(TraceError, match="must compare two expressions"):
        evaluate_condition(text, SCOPE)


# ---- kernels


def kernel(*body, **fields):
    return {
        "name": "k",
        "parameters": {"N": 64},
        "arrays": {"A": ["N", "N"], "v": ["N"]},
        "grid": [2],
        "block": [32],
        "body": list(body),
        **fields,
    }


def load(array, *at):
    return {"load": array, "at": list(at)}


def loop(variable, lower, upper, *body, **fields):
    return {"for": variable, "from": lower, "to": upper, **fields, "do": list(body)}


DEEP: dict = {"gap": 1}
for _ in range(30):
    DEEP = {"if": ["x < N"], "do": [DEEP]}

WRONG = [
    (
        kernel(load("A", "x", "x + 1")),
        "k: thread (63, 0, 0): body[0]: load of A: A[63, 64]: dimension 1 has indices 0 to 63",
    ),
    (kernel(load("v", "x - 1")), "thread (0, 0, 0): body[0]: load of v: v[-1]: it has indices 0 to 63"),
    (
        kernel({"if": ["x < N"], "do": [loop("j", 0, "N", load("v", "0"), {"store": "A", "at": ["j", "x + j"]})]}),
        "thread (32, 0, 0): body[0].do[0].do[1]: store of A: A[63, 95]: dimension 1",
    ),
    (kernel(loop("j", 0, "x + 2", load("v", "j"))), "thread (63, 0, 0): body[0].do[0]: load of v: v[64]"),
    (kernel(load("w", "x")), "k: body[0]: load of w: unknown array 'w'; known: A, v"),
    (kernel(load("A", "x")), "body[0]: load of A: 1 subscripts, the array has 2 dimensions"),
    (kernel(load("v", "x * x")), "body[0]: load of v: subscript 0: 'x * x': is not affine"),
    (kernel(load("v", "q")), "subscript 0: 'q': unknown name 'q'"),
    (kernel(load("v", "x +")), "body[0]: load of v: subscript 0: 'x +': ends too early"),
    (kernel(load("v", "144115188075855872 * x")), "subscript 0: reaches numbers beyond 2^62"),
    (kernel(loop("j", 0, 1 << 62, load("v", 0))), "body[0]: for j: 4611686018427387904 iterations for one thread"),
    (
        kernel(loop("i", 0, 1 << 20, loop("j", 0, 2, load("v", 0)))),
        "body[0].do[0]: for j: 1048576 iterations of the loops",
    ),
    (kernel(loop("j", 0, "N", load("v", 0), step=0)), "body[0]: for j: step: 0: a loop must advance"),
    (kernel(loop("j", 0, "N", load("v", 0), step="x")), "for j: step: 'x': must be made of numbers and parameters"),
    (kernel(loop("x", 0, "N")), "body[0]: variable of a loop 'x': the name is reserved"),
    (kernel(loop("N", 0, 3)), "body[0]: for N: the name is taken by a parameter or another loop"),
    (kernel(loop("j", 0, 3, loop("j", 0, 3))), "body[0].do[0]: for j: the name is taken"),
    (kernel({"if": ["x = 3"], "do": []}), "body[0]: if: 'x = 3': '=' is not allowed in an expression"),
    (kernel({"if": ["x*y < 3"], "do": []}), "body[0]: if 0: 'x*y < 3': is not affine"),
    (kernel({"if": ["x < 3"]}), "body[0]: if: field 'do' is missing"),
    (kernel({"lod": "v", "at": [0]}), "body[0]: {'lod': 'v', 'at': [0]}: is not a statement"),
    (kernel({"load": "v"}), "body[0]: load: field 'at' is missing"),
    (kernel({"load": "v", "at": [0], "of": 3}), "body[0]: unknown field of load 'of'"),
    (kernel({"gap": -1}), "body[0]: gap -1: must be a whole number from 0 to 2^20"),
    (kernel("sync"), "body[0]: 'sync': is not a statement"),
    (kernel(None), "body[0]: None: is not a statement"),
    (kernel(DEEP), "statements are nested deeper than 24"),
    (kernel(*[{"gap": 1}] * 5000), "body: has more than 4096 statements"),
    (kernel(body={}), "body: must be a list of statements, not {}"),
    (kernel({"gap": 1}, block=None), "block: None: must be a list"),
    (
        kernel(arrays={"A": {"shape": [4], "type": "float31"}}),
        "array A: unknown type 'float31'; did you mean 'float32'",
    ),
    (kernel(arrays={"A": {"shape": [4], "kind": 3}}), "array A: unknown field of array 'kind'"),
    (kernel(arrays={"A": ["M"]}), "k: array A: 'M': unknown name 'M'"),
    (kernel(arrays={"A": [[3]]}), "array A: shape 0: [3]: must be a whole number"),
    (kernel(parameters={"N": 1.5}), "parameter N=1.5: must be a whole number"),
    (kernel(parameters={"x": 1}), "parameter 'x': the name is reserved"),
    (kernel(parameters=[3]), "parameters: must be a mapping from names to whole numbers"),
    (kernel(threads=[3]), "grid, threads: exactly one of them must be given"),
    (kernel(block=["x"]), "k: block: 'x': unknown name 'x'"),
    (kernel(name=3), "name 3: must be text"),
    ({}, "kernel: field 'name' is missing"),
    ([], "kernel: must be an object, not []"),
    ({**kernel(), "shard_memory": 3}, "unknown field of kernel 'shard_memory'; did you mean 'shared_memory'"),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_errors_name_the_part_within_a_second(value, message, tmp_path, capsys):
    path = tmp_path / "k.json"
    path.write_text(json.dumps(value))
    begun = time.process_time()
    status = main(["predict", str(path)])
    spent = time.process_time() - begun
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1 and len(err) < 500
    assert spent < 1


LAUNCHES = [
    (kernel(grid=[1 << 62]), LaunchError, "x is 4611686018427387904, must be at most 2147483647"),
    (kernel(block=[2048]), LaunchError, "2048 threads, at most 1024 fit in a block"),
    (kernel(block=[0]), LaunchError, "must be one to three numbers of at least 1"),
    (kernel(grid=[1, 1, 1, 1]), LaunchError, "must be one to three numbers"),
    (kernel(arrays={"A": [1 << 62]}), ConfigError, "end beyond address 2^63"),
    (kernel(arrays={"A": [-1]}), ConfigError, "needs dimensions of at least 1"),
    (kernel(shared_memory=-1), LaunchError, "shared_memory=-1: must be a whole number of at least 0"),
]


@pytest.mark.parametrize(("value", "error", "message"), LAUNCHES)
def test_launches_that_cannot_be_are_refused(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        tracegen.affine_kernel(value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1, column 1: not JSON"),
        (b"{", "line 1, column 2: not JSON"),
        (b"\xff\xfe{}", "byte 0: not UTF-8 text"),
        (b"[" * 100_000, "the JSON is nested too deep"),
        (b'{"a": ' * 100_000, "the JSON is nested too deep"),
        (b'{"name": 1' + b"0" * 10_000 + b"}", "numbers are at most 2^63 - 1"),
        (b'{"name": NaN}', "NaN: is not a number"),
        (b'{"name": "a", "name": "b"}', "'name': is given twice"),
        (b" " * (5 << 20), "has 5242880 bytes, must be at most 4194304"),
        (b"3", "kernel: must be an object, not 3"),
    ],
)
def test_files_that_hold_no_kernel_are_refused(content, message, tmp_path, capsys):
    path = tmp_path / "k.json"
    path.write_bytes(content)
    begun = time.process_time()
    assert main(["predict", str(path)]) == 2
    assert time.process_time() - begun < 1
    err = capsys.readouterr().err
    assert message in err and "k.json" in err
    assert len(err.splitlines()) == 1 and len(err) < 500


def test_parameters_of_the_command_line_are_checked(tmp_path, capsys):
    path = tmp_path / "k.json"
    path.write_text(json.dumps(kernel(load("v", "x"))))
    for extra, message in (
        (["--param", "M=3"], "unknown parameter of k 'M'"),
        (["--param", "N=x"], "param N='x': must be a whole number"),
        (["--param", "N=32"], "thread (32, 0, 0): body[0]: load of v: v[32]: it has indices 0 to 31"),
        (["--grid", "3"], "--grid: "),
        (["--launch", "1"], "--launch: "),
    ):
        assert main(["predict", str(path), *extra]) == 2
        assert message in capsys.readouterr().err
    assert main(["predict", str(path), "--block", "16", "--param", "N=32", "--csv"]) == 0
    assert main(["predict", str(tmp_path / "other.json")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_subscript_that_no_proof_covers_is_checked_when_the_block_is_made():
    # 2 i == 5 j has few solutions; the one outside is in the middle of the loops, and of one block.
    inner = {"if": ["2*i == 5*j", "i + j == 49", "block_x == 1"], "do": [load("v", "30 + i")]}
    trace = tracegen.affine_kernel(kernel(loop("i", 0, 50, loop("j", 0, 50, inner))))
    trace.block(0)
    with pytest.raises(
        TraceError, match=re.escape("k: thread (32, 0, 0): body[0].do[0].do[0].do[0]: load of v: v[65]")
    ):
        trace.block(1)


def test_subscripts_that_are_hard_to_prove_are_proven_once_and_not_thousands_of_times():
    def seconds(conditions, row, column):
        accesses = {"if": conditions, "do": [load("A", row, column)] * 2000}
        begun = time.process_time()
        trace = tracegen.affine_kernel(kernel(loop("i", 0, 50, loop("j", 0, 50, accesses))))
        assert trace.launch.blocks == 2
        return time.process_time() - begun

    rows = [f"{a}*x + {b}*i + j < {a * b + 50}" for a in range(1, 5) for b in range(1, 5)]
    easy = min(seconds(["x < 30"], "3", "3") for _ in range(3))
    hard = min(seconds([*rows, "2*i == 5*j"], "30 + i", "2*j - i + 3") for _ in range(3))
    assert hard < 50 * easy


@pytest.mark.parametrize("text", ["gem", "2mm", ""])
def test_unknown_names_are_refused(text):
    with pytest.raises(RdmodelError, match="unknown affine kernel"):
        tracegen.load_affine(text)


def nine_loops(threads: int, *inner: object) -> AffineKernel:
    """Return a kernel of nine loops with four iterations each, whose outer eight are written out."""
    body: list[object] = [{"load": "A", "at": ["x"]}, *inner]
    for number in range(9):
        body = [{"for": f"i{number}", "to": 4, "do": body}]
    form = {"name": "nine", "arrays": {"A": ["1024"]}, "threads": [threads], "block": [threads], "body": body}
    return from_json(form)


@pytest.mark.parametrize("inner", [(), ("barrier",), ({"if": "i8 + i7 < 5", "do": ["barrier"]},)])
def test_a_small_file_with_a_program_of_half_a_gigabyte_is_refused_before_it_is_written_out(inner):
    trace = nine_loops(1024, *inner).trace()
    message = r"nine: body\[0\].*: for i\d: the program of a block of 1024 threads takes more than 256M; use fewer iter"
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=message):
            trace.block(0)
        assert tracemalloc.get_traced_memory()[1] < 320 << 20
    finally:
        tracemalloc.stop()


def test_the_same_loops_run_in_small_blocks():
    assert sum(segment.instructions for segment in nine_loops(32).trace().block(0)) == 4**9
