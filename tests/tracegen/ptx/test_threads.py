"""Test interactions of threads (divergence, barriers, shuffles, atomics), calls, and errors that stop a block."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.trace import Op, Space
from tests.support.ptx_kernels import HEAD, module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .f32 %f<5>; .reg .b16 %h<5>; .reg .pred %p<5>; .reg .b64 %out;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %out, %rd1, %rd2;
"""


def kernel(body: str, before: str = "") -> str:
    """A kernel k(x): %r1 is the thread, %out the address of x[thread], %rd1 that of x."""
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 x)\n{{{REGISTERS}{body}\n ret;\n}}"


def run(body: str, threads: int = 64, before: str = "", **options) -> list[int]:
    x = np.zeros(threads, np.uint32)
    run_kernel(kernel(body, before), "k", 1, threads, [x], **options)
    return x.tolist()


def columns_of(body: str, threads: int = 32, before: str = "", **options):
    return run_kernel(kernel(body, before), "k", 1, threads, [np.zeros(threads, np.uint32)], **options)[0]


# ---- divergence


def test_lanes_of_both_branches_meet_again_behind_them():
    body = """
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
    st.global.u32 [%out], 7; bra MEET;
    EVEN: st.global.u32 [%out], 8;
    MEET: st.global.u32 [%out], %r1;"""
    columns = columns_of(body)
    assert columns.mask.tolist() == [0xAAAAAAAA, 0x55555555, 0xFFFFFFFF]
    assert run(body) == list(range(64))


def test_loops_of_different_lengths_end_together():
    body = """
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    LOOP: setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE;
    add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; bra LOOP;
    DONE: st.global.u32 [%out], %r2;"""
    assert run(body, 100) == [t * (t - 1) // 2 for t in range(100)]
    columns = columns_of(body, 100)
    assert columns.mask.tolist() == [0xFFFFFFFF] * 3 + [0xF]


def test_threads_that_return_early_are_missed_by_nobody():
    body = """
    setp.lt.u32 %p1, %r1, 40; @%p1 ret;
    bar.sync 0;
    st.global.u32 [%out], 1;"""
    assert run(body, 70) == [0] * 40 + [1] * 30


def test_a_guard_lets_lanes_through_one_by_one():
    body = """
    and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 1;
    mov.u32 %r3, 5; @%p1 add.u32 %r3, %r3, %r1; @!%p1 mul.lo.u32 %r3, %r3, 2;
    st.global.u32 [%out], %r3;"""
    assert run(body) == [5 + t if t % 4 == 1 else 10 for t in range(64)]


def test_branch_tables():
    body = """
    T: .branchtargets A, B, C;
    rem.u32 %r2, %r1, 3; brx.idx %r2, T;
    A: mov.u32 %r3, 10; bra END;
    B: mov.u32 %r3, 20; bra END;
    C: mov.u32 %r3, 30;
    END: st.global.u32 [%out], %r3;"""
    assert run(body) == [(t % 3 + 1) * 10 for t in range(64)]
    with pytest.raises(TraceError, match="the index is beyond the table"):
        run(body.replace("rem.u32 %r2, %r1, 3", "mov.u32 %r2, 3"))


@pytest.mark.parametrize("seed", range(5))
def test_random_nests_of_branches_and_loops_do_what_each_thread_alone_would_do(seed):
    rng = np.random.default_rng(seed)
    text, labels = [], iter(range(10**6))

    def block(depth):
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(0, 3) if depth else 0
            a, b, c = (int(v) for v in rng.integers(1, 1000, 3))
            end = next(labels)
            if kind == 0:
                text.append(f"mad.lo.u32 %r2, %r2, {2 * a + 1}, {b};")
                lines.append((depth_of[0], f"v = (v * {2 * a + 1} + {b}) % 2**32"))
            elif kind == 1:
                text.append(
                    f"shr.u32 %r3, %r2, {a % 20}; and.b32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra E{end};"
                )
                lines.append((depth_of[0], f"if v >> {a % 20} & 1:"))
                nested(depth)
                text.append(f"E{end}:")
            else:
                counter = 5 + depth
                text.append(f"and.b32 %r{counter}, %r2, 3; H{end}: setp.eq.u32 %p1, %r{counter}, 0; @%p1 bra E{end};")
                lines.append((depth_of[0], f"for _ in range(v & {3 + 0 * c}):"))
                nested(depth)
                text.append(f"sub.u32 %r{counter}, %r{counter}, 1; bra H{end}; E{end}:")

    def nested(depth):
        depth_of[0] += 1
        block(depth - 1)
        depth_of[0] -= 1

    depth_of, lines = [0], []
    block(4)
    program = compile("\n".join("    " * d + line for d, line in lines), "oracle", "exec")

    def alone(thread):
        scope = {"v": thread}
        exec(program, scope)
        return scope["v"]

    body = "mov.u32 %r2, %r1;\n" + "\n".join(text) + "\nst.global.u32 [%out], %r2;"
    assert run(body, 96) == [alone(t) for t in range(96)]


# ---- barriers


def test_a_barrier_separates_what_is_stored_from_what_is_read():
    body = """
    .shared .b32 s[256]; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1; bar.sync 0;
    xor.b32 %r4, %r1, 255; mad.lo.u32 %r5, %r4, 4, %r2; ld.shared.u32 %r6, [%r5];
    st.global.u32 [%out], %r6;"""
    assert run(body, 256) == list(range(255, -1, -1))
    assert (columns_of(body, 256).op == Op.BARRIER).sum() == 8


def test_threads_may_reach_a_barrier_on_different_ways():
    body = """
    .shared .b32 s[64]; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;
    setp.lt.u32 %p1, %r1, 20; @%p1 bra LOW;
    st.shared.u32 [%r3], 100; bar.sync 0; ld.shared.u32 %r6, [s]; bra END;
    LOW: st.shared.u32 [%r3], 200; bar.sync 0; ld.shared.u32 %r6, [s+252];
    END: st.global.u32 [%out], %r6;"""
    assert run(body) == [100] * 20 + [200] * 44


def test_barriers_with_a_count_let_two_warps_talk():
    body = """
    .shared .b32 s[4]; setp.lt.u32 %p1, %r1, 32; @%p1 bra PRODUCER;
    setp.lt.u32 %p2, %r1, 64; @!%p2 bra END;
    barrier.sync 1, 64; ld.shared.u32 %r4, [s]; st.global.u32 [%out], %r4; bra END;
    PRODUCER: st.shared.u32 [s], 9; bar.arrive 1, 64;
    END: bar.sync 0;"""
    assert run(body, 96) == [0] * 32 + [9] * 32 + [0] * 32


def test_barriers_that_reduce():
    body = """
    setp.lt.u32 %p1, %r1, 10;
    bar.red.popc.u32 %r2, 0, %p1; bar.red.popc.u32 %r3, 0, !%p1;
    bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;
    selp.b32 %r4, 1, 0, %p2; selp.b32 %r5, 1, 0, %p3;
    mad.lo.u32 %r6, %r2, 1000, %r3; mad.lo.u32 %r7, %r4, 2, %r5; mad.lo.u32 %r8, %r6, 10, %r7;
    st.global.u32 [%out], %r8;"""
    assert run(body) == [(10 * 1000 + 54) * 10 + 1] * 64


# ---- between lanes


def test_shuffles():
    def shuffled(mode, b, c):
        return run(f"""shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1; selp.b32 %r3, 1000, 0, %p1;
            add.u32 %r4, %r2, %r3; st.global.u32 [%out], %r4;""")

    base, lanes = [t // 32 * 32 for t in range(64)], [t % 32 for t in range(64)]
    assert shuffled("up", 3, 0) == [b + (t - 3 + 1000 if t >= 3 else t) for b, t in zip(base, lanes, strict=True)]
    down = [b + (t + 5 + 1000 if t + 5 < 32 else t) for b, t in zip(base, lanes, strict=True)]
    assert shuffled("down", 5, 31) == down
    assert shuffled("bfly", 6, 31) == [b + (t ^ 6) + 1000 for b, t in zip(base, lanes, strict=True)]
    assert shuffled("idx", 4, 31) == [b + 1004 for b in base]
    segments = (32 - 8) << 8 | 31
    assert shuffled("idx", 2, segments) == [b + t // 8 * 8 + 2 + 1000 for b, t in zip(base, lanes, strict=True)]


def test_votes_and_active_lanes():
    body = """
    setp.lt.u32 %p1, %r1, 40; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @!%p1 bra END;
    vote.sync.ballot.b32 %r3, %p2, -1; activemask.b32 %r4; st.global.u32 [%out], %r3;
    vote.sync.all.pred %p3, %p2, -1; @%p3 st.global.u32 [%out], 99;
    vote.sync.any.pred %p3, !%p2, -1; @!%p3 st.global.u32 [%out], 98;
    setp.eq.u32 %p4, %r1, 39; @%p4 st.global.u32 [%out], %r4;
    END:"""
    found = run(body)
    assert found[:32] == [0x55555555] * 32
    assert found[32:39] == [0x55] * 7
    assert found[39] == 0xFF
    assert found[40:] == [0] * 24


def test_lanes_that_match():
    body = """and.b32 %r2, %r1, 7; match.any.sync.b32 %r3, %r2, -1;
    match.all.sync.b32 %r4|%p1, %r2, -1; selp.b32 %r5, 1, 0, %p1; add.u32 %r6, %r4, %r5; add.u32 %r6, %r6, %r3;
    st.global.u32 [%out], %r6;"""
    assert run(body) == [0x01010101 << (t % 8) for t in range(64)]


def test_special_registers_know_their_lane():
    body = """mov.u32 %r2, %laneid; mov.u32 %r3, %warpid; mov.u32 %r4, %lanemask_lt;
    mad.lo.u32 %r5, %r3, 100, %r2; popc.b32 %r6, %r4; mad.lo.u32 %r7, %r6, 1000, %r5; st.global.u32 [%out], %r7;"""
    assert run(body) == [t % 32 * 1000 + t // 32 * 100 + t % 32 for t in range(64)]


# ---- atomics


@pytest.mark.parametrize(
    ("operation", "start", "operand", "result"),
    [
        ("add.u32", 5, "%r1", 5 + 63 * 32),
        ("min.s32", 5, "-3", (1 << 32) - 3),
        ("max.u32", 5, "%r1", 63),
        ("inc.u32", 0, "9", 64 % 10),
        ("dec.u32", 3, "9", 9),
        ("and.b32", 0xFFFF, "0xF0F0", 0xF0F0),
        ("or.b32", 0, "%r1", 63),
        ("xor.b32", 1, "%r1", 1),
        ("exch.b32", 1, "%r1", 63),
    ],
)
def test_atomics_apply_every_lane_once(operation, start, operand, result):
    x = np.full(64, start, np.uint32)
    run_kernel(kernel(f"red.global.{operation} [%rd1], {operand};" if "exch" not in operation else
                      f"atom.global.{operation} %r9, [%rd1], {operand};"), "k", 1, 64, [x])  # fmt: skip
    expected = start
    if operation.startswith("dec"):
        for _ in range(64):
            expected = 9 if expected == 0 or expected > 9 else expected - 1
        result = expected
    assert x[0] == result


def test_an_atomic_returns_what_was_there():
    body = "atom.global.add.u32 %r2, [%rd1+252], 1; bar.sync 0; st.global.u32 [%out], %r2;"
    assert run(body) == list(range(64))
    columns = columns_of("atom.global.add.u32 %r2, [%rd1], 1; st.global.u32 [%out], %r2;")
    assert (columns.op.tolist(), columns.needs.tolist()) == ([Op.ATOMIC, Op.STORE], [0, 1])


def test_compare_and_swap_takes_a_lock_once():
    assert run("atom.global.cas.b32 %r2, [%rd1], 0, 7; bar.sync 0; st.global.u32 [%out], %r2;") == [0] + [7] * 63


def test_floating_point_and_shared_atomics():
    body = """.shared .f32 s; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.f32 [s], 0f3F800000; bar.sync 0;
    atom.shared.add.f32 %f1, [s], 0f3F000000; bar.sync 0; ld.shared.f32 %f2, [s]; st.global.f32 [%out], %f2;"""
    assert np.array(run(body), np.uint32).view(np.float32).tolist() == [33.0] * 64


# ---- memory


def test_local_arrays_belong_to_their_thread():
    body = """
    .local .align 8 .b8 depot[64]; mov.u64 %rd3, depot; mov.u32 %r2, 0;
    FILL: mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd3, %rd4; mad.lo.u32 %r3, %r1, 100, %r2;
    st.local.u32 [%rd5], %r3; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 16; @%p1 bra FILL;
    and.b32 %r4, %r1, 15; mul.wide.u32 %rd6, %r4, 4; cvta.local.u64 %rd7, %rd3; add.s64 %rd8, %rd7, %rd6;
    ld.u32 %r5, [%rd8]; st.u32 [%out], %r5;"""
    assert run(body) == [t * 100 + t % 16 for t in range(64)]
    columns = columns_of(body, 64)
    local = columns.space == Space.LOCAL
    assert local.sum() == 2 * 17
    first = columns.addresses[columns.address_start[0] : columns.address_start[1]]
    np.testing.assert_array_equal(np.diff(first), 4)
    per_warp = [columns.addresses[columns.address_start[i]] for i in (0, columns.warp_start[1])]
    assert per_warp[1] - per_warp[0] == 32 * 64


def test_lanes_of_one_generic_access_may_be_in_different_spaces():
    body = """
    .local .b32 own; .shared .b32 s[64]; mov.u64 %rd3, own; cvta.local.u64 %rd3, %rd3; mov.u64 %rd4, s;
    cvta.shared.u64 %rd4, %rd4; add.s64 %rd4, %rd4, %rd2; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
    selp.b64 %rd5, %rd3, %rd4, %p1; st.u32 [%rd5], %r1; setp.eq.u32 %p2, %r1, 5; selp.b64 %rd6, %out, %rd5, %p2;
    ld.u32 %r3, [%rd6]; isspacep.shared %p3, %rd5; selp.b32 %r4, 1000, 0, %p3; add.u32 %r3, %r3, %r4;
    st.global.u32 [%out], %r3;"""
    assert run(body) == [(0 if t == 5 else t) + (1000 if t % 2 else 0) for t in range(64)]


def test_vectors_are_one_access():
    body = """
    and.b32 %r2, %r1, 15; mul.wide.u32 %rd3, %r2, 16; add.s64 %rd4, %rd1, %rd3;
    st.global.v4.u32 [%rd4], {%r2, 1, 2, %r2}; ld.global.v2.u32 {%r3, _}, [%rd4+8];"""
    assert run(body) == [v for t in range(16) for v in (t, 1, 2, t)]
    assert columns_of(body, 64).size.tolist() == [16, 8] * 2


def test_narrow_loads_extend_their_sign():
    before = ".global .align 4 .b8 table[4] = {255, 127, 128, 1};"
    body = """and.b32 %r2, %r1, 3; cvt.u64.u32 %rd3, %r2; mov.u64 %rd4, table; add.s64 %rd4, %rd4, %rd3;
    ld.global.s8 %r3, [%rd4]; ld.global.u8 %r4, [%rd4]; sub.u32 %r5, %r4, %r3; st.global.u32 [%out], %r5;"""
    assert run(body, before=before) == [256, 0, 256, 0] * 16


def test_module_variables_hold_their_initial_values_and_addresses():
    before = """.const .align 4 .b32 factors[3] = {2, 3, 5};
    .global .align 8 .b64 pointer[1] = {generic(value)}; .global .b32 value = 70;"""
    body = """ld.const.u32 %r2, [factors+4]; mov.u64 %rd3, pointer; ld.global.u64 %rd4, [%rd3]; ld.u32 %r3, [%rd4];
    add.u32 %r4, %r2, %r3; st.global.u32 [%out], %r4;"""
    try:
        module_of(kernel(body, before))
    except TraceError:
        before = before.replace("generic(value)", "value")
    assert run(body, before=before) == [73] * 64


# ---- calls


def test_functions_are_called_with_parameters_and_results():
    before = """
    .func (.param .b32 out) triple(.param .b32 a) { .reg .b32 %r<3>; ld.param.u32 %r1, [a];
        mul.lo.u32 %r2, %r1, 3; st.param.b32 [out], %r2; ret; }
    .func (.param .b32 out) twice(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p; ld.param.u32 %r1, [a];
        setp.gt.u32 %p, %r1, 9; @%p bra BIG;
        { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call (q), triple, (p); ld.param.b32 %r2, [q]; }
        bra END;
        BIG: { .param .b32 p; st.param.b32 [p], 1; .param .b32 q; call (q), triple, (p); ld.param.b32 %r2, [q]; }
        END: add.u32 %r3, %r2, %r2; st.param.b32 [out], %r3; ret; }
    """
    body = """{ .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), twice, (p);
    ld.param.b32 %r2, [q]; } st.global.u32 [%out], %r2;"""
    assert run(body, before=before) == [6 * t if t <= 9 else 6 for t in range(64)]


def test_printing_does_nothing_and_other_strangers_are_named():
    before = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"
    body = "{ .param .b64 a; .param .b64 b; .param .b32 q; call.uni (q), vprintf, (a, b); } st.global.u32 [%out], 3;"
    assert run(body, before=before) == [3] * 64
    with pytest.raises(TraceError, match="call of malloc: it has no body"):
        run(body.replace("vprintf", "malloc"), before=before.replace("vprintf", "malloc"))


def test_recursion_is_refused_when_it_is_reached():
    before = """.func again(.param .b32 a) { { .param .b32 p; call again, (p); } ret; }"""
    body = "setp.gt.u32 %p1, %r1, {}; @%p1 bra CALL; ret; CALL: {{ .param .b32 p; call again, (p); }}"
    assert run(body.format(1000), before=before) == [0] * 64
    with pytest.raises(TraceError, match="call of again: recursive functions cannot be executed"):
        run(body.format(3), before=before)


# ---- errors


def test_an_access_outside_every_array_is_described():
    text = kernel(".loc 1 42 3\nst.global.u32 [%out+140], 1;", before='.file 1 "source.cu"')
    with pytest.raises(TraceError) as caught:
        run_kernel(text, "k", (2, 2), (8, 8), [np.zeros(40, np.uint32)])
    line = 1 + text[: text.index("st.global")].count("\n")
    assert str(caught.value) == (
        f"k: PTX line {line} (source.cu:42): st.global.u32 of 4 bytes at address 0x100000a0, "
        "0 bytes past the end of arg0 (160 bytes), thread (5, 0, 0) of block (0, 0, 0)"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.u32 [%rd1+-4], 1;", "4 bytes before arg0"),
        ("mov.u64 %rd3, 0; ld.global.u32 %r2, [%rd3];", "before arg0"),
        ("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+248];", "across the end of arg0 (256 bytes)"),
        (".shared .b32 s[4]; ld.shared.u32 %r2, [s+64];", "at offset 64 of shared memory (16 bytes)"),
        (".local .b32 s[4]; st.local.u32 [s+16], %r2;", "at offset 16 of local memory (16 bytes)"),
        ("mov.u64 %rd3, -16; atom.add.u32 %r2, [%rd3], 1;", "atom.add.u32 of 4 bytes at address 0xfffffffffffffff0"),
        ("LOOP: add.u32 %r2, %r2, 1; bra LOOP;", "block 0 executed more than max_instructions=1000 warp instructions"),
        ("LOOP: bra LOOP;", "more than max_instructions=1000"),
        ("setp.eq.u32 %p1, %r1, 3; @%p1 bar.sync 1; bar.sync 0; bar.sync 0;", "wait for each other"),
        ("trap;", "trap is executed, thread (0, 0, 0)"),
        ("bar.sync 77;", "bar.sync: the number of a barrier must be 0 to 15"),
        ("tensor.store [%out], %r2;", "tensor.store cannot be executed"),
        ("bra NOWHERE;", "NOWHERE"),
    ],
)
@pytest.mark.parametrize("values", [True, False])
def test_what_goes_wrong_is_said_in_one_line(body, message, values):
    with pytest.raises(TraceError, match=re.escape(message)) as caught:
        run(body, max_instructions=1000, values=values)
    assert "\n" not in str(caught.value)


def test_deadlocks_name_the_barriers():
    body = "setp.eq.u32 %p1, %r1, 3; @%p1 bra A; bar.sync 0; ret; A: bar.sync 1;"
    with pytest.raises(TraceError, match=r"63 threads at barrier 0 in PTX line \d+ and 1 threads at barrier 1"):
        run(body)


def test_an_unknown_opcode_is_no_obstacle_where_nothing_depends_on_it():
    assert run("tensor.magic.b32 %r2, %r1; st.global.u32 [%out], 4;") == [4] * 64
    columns = columns_of("tensor.magic.b32 %r2, %r1; st.global.u32 [%out], %r2;", values=False)
    assert columns.op.tolist() == [Op.STORE]
    with pytest.raises(
        TraceError,
        match=r"stores a result that depends on a value that is not computed: tensor\.magic\.b32 in PTX line",
    ):
        run("tensor.magic.b32 %r2, %r1; st.global.u32 [%out], %r2;")
    with pytest.raises(TraceError, match=r"tensor\.magic"):
        columns_of("tensor.magic.b32 %r2, %r1; setp.eq.u32 %p1, %r2, 1; @%p1 ret;", values=False)


@pytest.mark.parametrize("number", [(1 << 62) + 1, np.uint64((1 << 63) + 1), -1])
def test_whole_numbers_of_64_bits_are_passed_exactly(number):
    source = """.version 8.0 .target sm_80 .address_size 64
    .visible .entry keep(.param .u64 out, .param .u64 number) {
      .reg .b64 %rd<3>; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [number]; st.global.u64 [%rd1], %rd2; ret;
    }"""
    machine = LoadedModule(module_of(source))
    out = machine.allocate(np.zeros(1, np.uint64), "out")
    machine.launch("keep", 1, 1, [out, number]).run(0)
    assert int(out.array[0]) == int(number) % (1 << 64)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ([1.0], LaunchError, "saxpy: 1 arguments, but it has 4 parameters"),
        ([1 << 40, 1.0, 0, 0], LaunchError, "saxpy: argument 0 (1099511627776) does not fit .u32"),
        ([1.5, 1.0, 0, 0], LaunchError, "it is not a whole number"),
        ([1, b"123", 0, 0], LaunchError, "it has 3 bytes"),
        ([1, "a", 0, 0], LaunchError, "argument 1"),
        ([1, 1e300, 0, 0], LaunchError, "argument 1"),
    ],
)
def test_arguments_have_to_fit(args, error, message):
    from tests.support.ptx_kernels import read_kernel

    with pytest.raises(error, match=re.escape(message)):
        LoadedModule(module_of(read_kernel("saxpy"))).launch("saxpy", 1, 32, args)


def test_launches_are_checked():
    machine = LoadedModule(module_of(kernel("")))
    with pytest.raises(ConfigError, match="unknown kernel 'kk'"):
        machine.launch("kk", 1, 32, [0])
    with pytest.raises(LaunchError, match="at most 1024"):
        machine.launch("k", 1, 2048, [0])
    with pytest.raises(LaunchError, match="shared=-1"):
        machine.launch("k", 1, 32, [0], shared=-1)
    with pytest.raises(TraceError, match="block 5: must be 0 to 0"):
        machine.launch("k", 1, 32, [0]).run(5)
    with pytest.raises(ConfigError, match="base=100"):
        LoadedModule(module_of(kernel("")), base=100)
    with pytest.raises(TraceError, match="64-bit addresses"):
        LoadedModule(module_of(HEAD.replace("64", "32") + ".entry k() { ret; }"))


def test_arrays_are_used_in_place_or_copied_if_they_cannot_be():
    machine = LoadedModule(module_of(kernel("st.global.u32 [%out], 5;")))
    x = np.zeros(64, np.uint32)
    frozen = x.copy()
    frozen.flags.writeable = False
    for array, kept in ((x, True), (frozen, False), (np.zeros(128, np.uint32)[::2], False)):
        buffer = machine.allocate(array, "x")
        machine.launch("k", 1, 64, [buffer]).run(0)
        assert (buffer.array == 5).all() and (array[0] == 5) == kept
    assert machine.allocate(12, "bytes").bytes == 12
