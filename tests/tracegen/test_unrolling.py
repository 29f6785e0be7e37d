"""Test the loads that unrolled bodies of loops wait for: worked by hand, and alike in all front ends."""

from __future__ import annotations

import numpy as np
import pytest

import tracegen
from rdmodel.errors import ConfigError, RdmodelError
from tests.support.simt_traces import needs, rows, run
from tracegen import cuda
from tracegen.cuda import nvrtc


def loads(k, A, n):
    """Add up n elements in a register, and store the sum."""
    unrolled(k, A, n, None)


def unrolled(k, A, n, own):
    for i in k.range(n, unroll=own):
        k.load(A, k.x + i)
    k.store(A, k.x)


def test_each_body_of_four_loads_waits_for_the_one_before_and_the_last_one_is_shorter():
    assert needs(run(loads, n=10)) == [0, 0, 0, 0, 0b1111, 0, 0, 0, 0b1111, 0, 0b11]
    assert needs(run(loads, n=3)) == [0, 0, 0, 0b111]
    assert needs(run(loads, n=4)) == [0, 0, 0, 0, 0b1111]
    assert needs(run(loads, n=10, unroll=2)) == [0, 0, *[0b11, 0] * 4, 0b11]
    assert needs(run(loads, n=10, unroll="none")) == [*[0] * 10, 0b1111111111]
    assert needs(run(unrolled, n=10, own=8)) == [*[0] * 8, 0xFF, 0, 0b11]
    assert needs(run(unrolled, n=3, own=1, unroll="none")) == [0, 1, 1, 1]


def test_what_a_loop_loads_is_waited_for_behind_it_and_what_was_loaded_before_it_at_its_first_body():
    def kernel(k, A):
        k.load(A, k.x)
        for i in k.range(5):
            k.load(A, k.x + i)
        k.load(A, k.x)
        k.load(A, k.x)
        k.store(A, k.x)

    assert needs(run(kernel)) == [0, 0, 0, 0, 0, 0b11111, 0b1, 0, 0b11]


def test_a_loop_around_another_one_is_not_unrolled():
    def kernel(k, A, inner):
        for i in k.range(3):
            for j in k.range(inner):
                k.load(A, k.x + i + j)
            k.load(A, k.x + i)

    assert needs(run(kernel, inner=2)) == [0, 0, 0b11, *[0b1, 0, 0b11] * 2]
    assert needs(run(kernel, inner=0)) == [0, 1, 1]


def test_a_loop_around_one_that_is_unrolled_completely_is_unrolled():
    def kernel(k, A):
        for i in k.range(6):
            for j in k.range(2, unroll="none"):
                k.load(A, k.x + i + j)

    def same(k, A):
        for i in k.range(6):
            for j in range(2):
                k.load(A, k.x + i + j)

    assert needs(run(kernel)) == [0] * 8 + [0xFF, 0, 0, 0]
    assert needs(run(same)) == [0] * 8 + [0xFF, 0, 0, 0]
    inner = {"for": "j", "to": 2, "unroll": "none", "do": [{"load": "A", "at": ["x + i + j"]}]}
    body = [{"for": "i", "to": 400, "do": [inner]}]
    nest = tracegen.affine_kernel({"name": "k", "arrays": {"A": [500]}, "block": [32], "grid": [1], "body": body})
    assert needs(nest) == [0] * 8 + [0xFF, *[0] * 7] * 99
    assert len(nest.block(0)) < 12


def test_a_store_in_every_iteration_leaves_nothing_to_wait_for():
    def kernel(k, A):
        for i in k.range(100):
            k.load(A, k.x + i)
            k.store(A, k.x)

    t = run(kernel)
    assert needs(t) == [0, 1] * 100
    assert len(t.block(0)) == 1


def test_loads_that_follow_pointers_wait_for_them_and_bodies_for_the_rest():
    def kernel(k, A, next):
        at = k.x
        for _ in k.range(6):
            k.load(A, at)
            at = k.load(next, at)

    t = run(kernel, arrays={"A": 64, "next": np.arange(64)})
    assert needs(t) == [0, 0, 1, 0, 1, 0, 1, 0, 0b10101011, 0, 1, 0]


def test_barriers_and_the_bodies_around_them_wait():
    def kernel(k, A):
        for i in k.range(6):
            k.load(A, k.x + i)
            with k.where(i == 5):
                k.barrier()
        k.load(A, k.x)

    assert needs(run(kernel)) == [0, 0, 0, 0, 0b1111, 0, 0b11, 0]


def test_each_warp_leaves_a_loop_after_its_own_iterations():
    def kernel(k, A):
        for i in k.range(0, 2 + k.x // 32 * 4):
            k.load(A, i)
        k.load(A, k.x)

    t = run(kernel, block=64)
    assert needs(t, 0) == [0, 0, 0b11]
    assert needs(t, 1) == [0, 0, 0, 0, 0b1111, 0, 0b11]


def test_iterations_that_leave_by_break_are_waited_for():
    def kernel(k, A):
        for i in k.range(9):
            k.load(A, k.x + i)
            if i == 5:
                break
        k.load(A, k.x)

    assert needs(run(kernel)) == [0, 0, 0, 0, 0b1111, 0, 0b11]


SUM = """.version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 A, .param .u32 n) {{
    .reg .b64 %rd<3>; .reg .f32 %f<9>; .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u64 %rd1, [A]; mov.b64 %rd2, %rd1; ld.param.u32 %r2, [n]; mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;
    L: {0} add.s64 %rd2, %rd2, 4; setp.lt.s32 %p, %r1, %r2; @%p bra L;
    st.global.f32 [%rd1], %f1; ret; }}"""
ONE = "ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2; add.s32 %r1, %r1, 1;"
FOUR = "".join(f"ld.global.f32 %f{2 + i}, [%rd2+{4 * i}];" for i in range(4)) + (
    "".join(f"add.f32 %f1, %f1, %f{2 + i};" for i in range(4)) + "add.s32 %r1, %r1, 4;"
)
SKIP = "setp.lt.s32 %p, %r1, 0; @%p bra M; add.s32 %r1, %r1, 1;"
LOAD = "ld.global.f32 %f2, [%rd2];"
USE = "add.f32 %f1, %f1, %f2;"
PREDICATED = f"{SKIP} M: {LOAD} {USE}"
BRANCH = f"{LOAD} {USE} {SKIP} {'add.f32 %f3, %f3, 0f00000000;' * 7} {LOAD} M: add.f32 %f4, %f2, %f3;"


def needs_of_ptx(body, n, **options):
    columns = cuda.trace(SUM.format(body), "k", 1, 32, ["float[256]", n], **options).columns
    return columns.needs.tolist()


def test_the_assembler_unrolls_loops_of_ptx_that_the_compiler_left_rolled():
    assert needs_of_ptx(ONE, 10) == needs(run(loads, n=10))
    assert needs_of_ptx(ONE, 10, unroll=2) == needs(run(loads, n=10, unroll=2))
    assert needs_of_ptx(ONE, 10, unroll="none") == needs(run(loads, n=10, unroll="none"))
    assert needs_of_ptx('.pragma "nounroll";' + ONE, 3) == [0, 1, 1, 1]
    assert needs_of_ptx(FOUR, 12) == [0, 0, 0, 0, 0b1111, 0, 0, 0, 0b1111, 0, 0, 0, 0b1111]
    assert needs_of_ptx(FOUR, 12, unroll=8) == [*[0] * 8, 0xFF, 0, 0, 0, 0b1111]


def test_up_to_seven_instructions_are_predicated():
    before = f"{LOAD} {USE} add.s32 %r1, %r1, 1; setp.lt.s32 %p, %r1, 0; @%p bra M;"
    for fill in range(5, 9):
        skipped = "add.f32 %f3, %f3, 0f00000000;" * fill + "ld.global.f32 %f4, [%rd2];"
        assert needs_of_ptx(f"{before} {skipped} M:", 1) == ([0, 0, 0b10] if fill < 7 else [0, 1, 0])


def test_a_branch_ends_a_basic_block_of_ptx_unless_what_it_skips_is_short():
    assert needs_of_ptx(PREDICATED, 4) == [0, 0, 0, 0, 0b1111]
    # The load before the branch is used before it. The block in which the branches meet uses the load behind it, and
    # goes on with the next iteration of the unrolled body.
    assert needs_of_ptx(BRANCH, 3) == [0, 1, 0, 0b11, 0, 0b11, 0b1]


def test_a_value_that_is_only_moved_is_waited_for_where_it_is_stored():
    moved = "ld.global.f32 %f2, [%rd2]; mov.f32 %f1, %f2; add.s32 %r1, %r1, 1;"
    assert needs_of_ptx(moved, 5) == [0, 0, 0, 0, 0, 0b1]


NAIVE = """extern "C" __global__ void multiply(const float *a, const float *b, float *c, int n) {
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) {
    sum += a[y * n + k] * b[k * n + x];
  }
  c[y * n + x] = sum;
}
"""


def multiply(k, a, b, c, n):
    for i in k.range(n):
        k.load(b, i, k.x)
        k.load(a, k.y, i)
    k.store(c, k.y, k.x)


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_a_product_of_matrices_is_the_same_in_python_as_a_loop_nest_and_compiled():
    n, shape = 50, {"grid": (3, 3), "block": (16, 16)}
    python = tracegen.trace(multiply, arrays=dict.fromkeys("abc", (64, 64)), n=n, **shape)
    nest = {
        "name": "multiply",
        "arrays": {name: [64, 64] for name in "abc"},
        "grid": [3, 3],
        "block": [16, 16],
        "body": [
            {"for": "k", "to": n, "do": [{"load": "b", "at": ["k", "x"]}, {"load": "a", "at": ["y", "k"]}]},
            {"store": "c", "at": ["y", "x"]},
        ],
    }
    affine = tracegen.affine_kernel(nest)
    # The compiler keeps the last iterations rolled, since it does not know n; here they are a body of their own.
    source = NAIVE.replace("k * n", "k * 64").replace("y * n", "y * 64")
    compiled = cuda.trace(source, "multiply", args=[*["float[4096]"] * 3, n], **shape)
    last = 2 * (n % 4)
    for warp in range(9 * python.launch.block_warps):
        same = needs(python, warp)
        assert needs(affine, warp) == same
        assert needs(compiled, warp)[: -last - 1] == same[: -last - 1]
        assert needs(compiled, warp)[-last - 1 :] == [0b11111111, 0, 0b11, 0, 0b11]
        assert [row[2] for row in rows(compiled, warp)] == [row[2] for row in rows(python, warp)]


@pytest.mark.parametrize("unroll", [0, -1, 65, 2.5, True, "twice", ""])
def test_a_number_of_iterations_that_cannot_be_is_refused(unroll):
    message = "unroll=.*must be a whole number from 1 to 64, or 'none'"
    with pytest.raises(ConfigError, match=message):
        run(loads, n=3, unroll=unroll)
    with pytest.raises(ConfigError, match=message):
        run(unrolled, n=3, own=unroll).block(0)
    with pytest.raises(ConfigError, match=message):
        tracegen.kernel("gemm", unroll=unroll)
    with pytest.raises(ConfigError, match=message):
        tracegen.affine_kernel("gemm", unroll=unroll)
    with pytest.raises(ConfigError, match=message):
        needs_of_ptx(ONE, 3, unroll=unroll)
    loop = {"for": "i", "to": 3, "unroll": unroll, "do": [{"load": "A", "at": ["i"]}]}
    with pytest.raises(RdmodelError, match=message):
        tracegen.affine_kernel({"name": "k", "arrays": {"A": [4]}, "block": [32], "grid": [1], "body": [loop]})


def test_launches_of_a_file_say_how_often_their_loops_are_unrolled(tmp_path):
    (tmp_path / "sum.ptx").write_text(SUM.format(ONE))
    launch = '[[launch]]\n{}\ngrid = 1\nblock = 32\nargs = {{ A = "float[256]", n = 10 }}\n'
    given = ("unroll = 1", 'unroll = "none"', "unroll = 4", "")
    text = 'source = "sum.ptx"\n' + "".join(map(launch.format, given))
    (tmp_path / "sums.toml").write_text(text)
    found = [t.columns.needs.tolist() for t in cuda.launches(tmp_path / "sums.toml", unroll=2)]
    assert found == [needs_of_ptx(ONE, 10, unroll=times) for times in (1, "none", 4, 2)]
    (tmp_path / "sums.toml").write_text(text.replace("unroll = 1", "unroll = 0"))
    with pytest.raises(ConfigError, match="unroll=0: must be a whole number from 1 to 64, or 'none'"):
        list(cuda.launches(tmp_path / "sums.toml"))
