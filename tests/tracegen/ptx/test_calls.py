"""Test calls through pointers, and assertions: functions are chosen by address, as on a GPU, and failures stop."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import TraceError
from tests.support.ptx_kernels import HEAD, module_of, run_kernel
from tracegen.ptx.lowering.calls import MOST_POINTED, CallGraph, function_addresses

THREADS = 64

FUNCTION = """
.func (.param .b32 result) {name}(.param .b32 a, .param .b32 b) {{
  .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; {body}
  st.param.b32 [result+0], %r3; ret;
}}
"""
ADD = FUNCTION.format(name="add", body="add.u32 %r3, %r1, %r2;")
MULTIPLY = FUNCTION.format(name="multiply", body="mul.lo.u32 %r3, %r1, %r2;")
SQUARE = """
.func (.param .b32 result) square(.param .b32 a) {
  .reg .b32 %r<4>; ld.param.u32 %r1, [a]; mul.lo.u32 %r3, %r1, %r1; st.param.b32 [result+0], %r3; ret;
}
"""
TABLE = ".global .align 8 .u64 table[3] = {add, multiply, 0};"

CALL = """
{ .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 p1; st.param.b32 [p1+0], 5; .param .b32 out0;
  shape: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
  call (out0), %rd5, (p0, p1), shape;
  ld.param.u32 %r3, [out0+0]; }
"""


def kernel(body: str, before: str = ADD + MULTIPLY + SQUARE + TABLE) -> str:
    """A kernel k(x, which): %r1 is the thread, %r2 is which[thread], and %r3 goes to x[thread]."""
    return f"""{HEAD}{before}
.visible .entry k(.param .u64 x, .param .u64 which) {{
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [which]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r2, [%rd2]; add.s64 %rd1, %rd1, %rd3;
  {body}
  st.global.u32 [%rd1], %r3; ret;
}}"""


LOOKUP = "mul.wide.u32 %rd4, %r2, 8; mov.u64 %rd6, table; add.s64 %rd6, %rd6, %rd4; ld.global.u64 %rd5, [%rd6];"


def run(text: str, which) -> list[int]:
    x = np.zeros(THREADS, np.uint32)
    run_kernel(text, "k", 1, THREADS, [x, np.asarray(which, np.uint32)])
    return x.tolist()


def test_lanes_call_the_functions_that_their_pointers_name():
    which = np.random.default_rng(7).integers(0, 2, THREADS)
    expected = [t * 5 if w else t + 5 for t, w in enumerate(which)]
    assert run(kernel(LOOKUP + CALL), which) == expected


def test_an_address_that_an_instruction_takes_can_be_called():
    body = f"mov.u64 %rd5, multiply; {CALL}"
    assert run(kernel(body, ADD + MULTIPLY), [0] * THREADS) == [5 * t for t in range(THREADS)]


def test_a_guarded_call_is_made_by_the_lanes_of_its_guard():
    call = CALL.replace("call (", "@%p1 call (")
    body = f"{LOOKUP} setp.lt.u32 %p1, %r1, 10; {call}"
    assert run(kernel(body), [1] * THREADS)[:10] == [5 * t for t in range(10)]


def test_a_list_of_targets_limits_the_functions():
    body = LOOKUP + CALL.replace("shape: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);", "").replace(
        "shape", "ways"
    )
    text = kernel(f"ways: .calltargets add; {body}")
    assert run(text, [0] * THREADS) == [t + 5 for t in range(THREADS)]
    with pytest.raises(TraceError, match="a function pointer points to no function with these parameters"):
        run(text, [1] * THREADS)


@pytest.mark.parametrize(
    ("before", "which", "problem"),
    [
        (ADD + MULTIPLY + TABLE, 2, "a function pointer points to no function with these parameters, thread (0, 0, 0)"),
        (SQUARE + TABLE.replace("add, multiply", "square, 0"), 0, "no function with these parameters has its address"),
    ],
)
def test_a_pointer_to_no_such_function_stops_where_it_is_called(before, which, problem):
    with pytest.raises(TraceError, match=re.escape(problem)):
        run(kernel(LOOKUP + CALL, before), [which] * THREADS)


def test_a_function_that_calls_itself_through_a_pointer_stops_only_at_that_call():
    again = """
.func (.param .b32 result) again(.param .b32 a, .param .b32 b) {
  .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .pred %p<2>; ld.param.u32 %r1, [a]; ld.param.u32 %r3, [b];
  setp.lt.u32 %p1, %r1, 100; @%p1 bra DONE;
  mov.u64 %rd5, again; %CALL
  DONE: st.param.b32 [result+0], %r3; ret;
}
""".replace("%CALL", CALL)
    text = kernel("mov.u64 %rd5, again;" + CALL, again)
    assert run(text, [0] * THREADS) == [5] * THREADS
    with pytest.raises(TraceError, match="call of again: recursive functions cannot be executed"):
        run(text.replace("setp.lt.u32 %p1, %r1, 100", "setp.lt.u32 %p1, %r1, 3"), [0] * THREADS)


def test_functions_have_different_addresses_and_none_is_null():
    module = module_of(kernel(LOOKUP + CALL))
    found = function_addresses(module)
    assert set(found) == {"add", "multiply", "square", "k"}
    assert len(set(found.values())) == 4
    assert 0 not in found.values()


def test_a_call_of_too_many_functions_stops():
    names = [f"f{n}" for n in range(MOST_POINTED + 1)]
    functions = "".join(FUNCTION.format(name=name, body="mov.u32 %r3, %r1;") for name in names)
    table = f".global .align 8 .u64 table[3] = {{f0, f1, {names[-1]}}};"
    rest = f".global .align 8 .u64 rest[{MOST_POINTED - 2}] = {{{', '.join(names[2:-1])}}};"
    text = kernel(LOOKUP + CALL, functions + table + rest)
    module = module_of(text)
    assert len(CallGraph(module, module.functions["k"]).order) == MOST_POINTED + 1
    assert run(text, [1] * THREADS) == list(range(THREADS))
    with pytest.raises(TraceError, match=f"more than {MOST_POINTED} functions have these parameters"):
        run(text, [2] * THREADS)


ASSERT = """
setp.lt.u32 %p1, %r1, LIMIT; @%p1 bra HOLDS;
{ .param .b64 m; st.param.b64 [m+0], 0; .param .b64 f; st.param.b64 [f+0], 0; .param .b32 l; st.param.b32 [l+0], 7;
  .param .b64 n; st.param.b64 [n+0], 0; .param .b64 s; st.param.b64 [s+0], 1;
  call.uni __assertfail, (m, f, l, n, s); }
HOLDS: mov.u32 %r3, 9;
"""
DECLARED = """
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
"""


def test_an_assertion_that_holds_has_no_effect_and_one_that_fails_stops():
    assert run(kernel(ASSERT.replace("LIMIT", "64"), DECLARED), [0] * THREADS) == [9] * THREADS
    with pytest.raises(TraceError, match=re.escape("an assertion fails, thread (40, 0, 0) of block (0, 0, 0)")):
        run(kernel(ASSERT.replace("LIMIT", "40"), DECLARED), [0] * THREADS)
