"""Check the times of pieces with matrix products by hand, and the units of a sub-core against a table of cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tracegen.ptx import parse
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.registers.liveness import live_registers
from tracegen.ptx.timing.chains import straight_pieces
from tracegen.ptx.timing.units import SubCore, Unit

LATENCIES = {
    "fp32": 4.0, "int": 4.0, "special": 18.0, "load_global": 100.0, "load_again": 30.0, "load_constant": 8.0,
    "branch": 4.0, "other": 4.0, "matrix": 18.0,
    "special_busy": 8.0, "matrix_fp16_busy": 1 / 512, "matrix_depth": 14.0,
}  # fmt: skip
"""Latencies of an A100, whose tensor core has 512 operations per cycle."""

HEAD = """.version 8.0 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<99>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [a]; mov.u32 %r1, 0;
"""

CYCLES, LATENCY = 8, 22
"""Occupation of the tensor core by `product`, and the time to its results."""

GROUP_CYCLES, GROUP_LATENCY = 8, 22
"""Those of `group_product`, of which each warp of a group has a quarter."""


def product(at, to=None):
    """Return the product that adds to the four registers from %f`at` on, or writes the sums to those from `to` on."""
    old, new = (", ".join(f"%f{first + i}" for i in range(4)) for first in (at, at if to is None else to))
    return (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        f"{{{new}}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {{{old}}}; "
    )


def half_product(at):
    """Return the product with sums in half precision that adds to the two registers from %r`at` on."""
    sums = f"{{%r{at}, %r{at + 1}}}"
    return f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {sums}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {sums}; "


def group_product(at, n=8):
    """Return the asynchronous product that adds to the registers from %f`at` on."""
    sums = ", ".join(f"%f{at + i}" for i in range(n // 2))
    return (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, %rd1, %rd1, 1, 1, 1, 0, 0; "
        "wgmma.commit_group.sync.aligned; "
    )


def chain(n, register="%f90"):
    return f"add.f32 {register}, {register}, {register}; " * n


def longest(body, latencies=LATENCIES, warps=1):
    """Return the cycles of the longest piece of a kernel."""
    module = parse(HEAD + body + " ret; }", "k.ptx")
    pieces = straight_pieces(lower_kernel(module, "k", {}, 0), live_registers(module, "k"))
    return max(piece.longest_chain(latencies, warps=warps) for piece in pieces)


# ---- products


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_independent_products_take_as_long_as_they_occupy_the_tensor_core(n):
    assert longest("".join(product(4 * at) for at in range(n))) == n * CYCLES


@pytest.mark.parametrize("n", [1, 2, 7])
def test_products_that_add_to_the_same_registers_wait_for_each_other(n):
    assert longest(product(0) * n + "add.f32 %f90, %f3, %f3;") == n * LATENCY + 4


@pytest.mark.parametrize(("n", "chains"), [(5, 2), (9, 3), (6, 8)])
def test_chains_of_products_share_the_tensor_core_in_whatever_order_they_are_written(n, chains):
    one_by_one = "".join(product(4 * at) * n for at in range(chains))
    in_turns = "".join(product(4 * at) for at in range(chains)) * n
    expected = max(n * chains * CYCLES, (n - 1) * LATENCY)
    assert longest(in_turns) == pytest.approx(expected, abs=LATENCY)
    # The first chains have the tensor core first, so that the last one may end alone.
    assert expected <= longest(one_by_one) <= 1.35 * expected


def test_sums_in_half_precision_have_an_occupation_and_a_depth_of_their_own():
    # As on a GeForce GPU: other sums take twice as long, and a product with 2048 operations has its result after 18.
    latencies = {
        **LATENCIES, "matrix_fp16_busy": 1 / 128, "matrix_depth": 2.0, "matrix_fp16_fp16_busy": 1 / 256,
        "matrix_depth_fp16": 10.0,
    }  # fmt: skip
    assert longest(half_product(2) + half_product(4), latencies) == 2 * 16
    assert longest(half_product(2) * 3 + "add.s32 %r8, %r2, %r2;", latencies) == 3 * (16 + 10) + 4
    assert longest(product(0) * 3 + "add.f32 %f90, %f3, %f3;", latencies) == 3 * (32 + 2) + 4


def test_products_and_what_needs_them_and_products_of_that_take_the_sum_of_their_times():
    first = "".join(product(4 * at) for at in range(10))
    total = "".join(f"add.f32 %f90, %f90, %f{4 * at}; " for at in range(10)) + chain(50)
    copies = ["".join(f"add.f32 %f{40 + 4 * at + i}, %f90, %f90; " for i in range(4)) for at in range(10)]
    second = "".join(copy + product(40 + 4 * at) for at, copy in enumerate(copies))
    # The last product starts at 72. Its sum ends the total, which starts four copies, from which products follow.
    begin = 72 + LATENCY + 4 + 50 * 4 + 3 + 4
    assert longest(first + total + second) == begin + 9 * CYCLES + 1


def test_other_instructions_overlap_products_that_do_not_need_them():
    products = "".join(product(4 * at) for at in range(10))
    assert longest(products + chain(15)) == longest(chain(15) + products) == 80
    assert longest(products + chain(30)) == pytest.approx(120, abs=4)
    # Each product has one issue slot, and each of the other independent instructions another one.
    assert longest(products + "add.f32 %f90, %f91, %f91; " * 90) == pytest.approx(100, abs=4)


def test_an_access_to_memory_takes_one_issue_slot_whatever_its_parts():
    # Each of the loads reads four matrices, and each of the copies loads from one memory and stores in another.
    names = ", ".join(f"%r{at}" for at in range(2, 6))
    loads, copies = (
        f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, [%r1]; ",
        "cp.async.ca.shared.global [%r1], [%rd1], 16; ",
    )
    fast = {**LATENCIES, "load_shared": 1.0, "load_global": 1.0, "load_again": 1.0, "shuffle": 1.0}
    for access in (loads, copies):
        one, more = (longest(product(0) + access * n, fast) for n in (10, 40))
        assert more - one == 30


def test_special_functions_occupy_their_units_beside_products():
    functions = "".join(f"ex2.approx.ftz.f32 %f{50 + at}, %f{50 + at}; " for at in range(20))
    assert longest(product(0) + functions) == 1 + 19 * 8 + 18
    # Eighty cycles of products and functions each overlap; where the functions need the products, they do not.
    products = "".join(product(4 * at) for at in range(10))
    functions = "".join(f"ex2.approx.ftz.f32 %f{50 + at}, %f{{}}; " for at in range(10))
    assert longest(products + functions.format(*(10 * [90]))) == pytest.approx(80 + 18, abs=9)
    assert longest(products + functions.format(*(10 * [39]))) == pytest.approx(80 + 14 + 80 + 18, abs=9)


def test_a_product_at_the_end_is_waited_for_where_its_sums_are_used_only():
    loop = """mov.u32 %r2, 0; L: .pragma "nounroll"; {} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10; @%p1 bra L;"""
    assert longest(loop.format(product(0))) == LATENCY
    assert longest(loop.format("".join(product(4 * at) for at in range(5)))) == 5 * CYCLES
    assert longest(loop.format(product(0) + chain(10))) == 40 + 1
    assert longest(loop.format(product(0) + "add.f32 %f90, %f90, %f0;")) == LATENCY + 4


# ---- asynchronous products


@pytest.mark.parametrize("n", [2, 5])
def test_asynchronous_products_that_add_to_the_same_registers_follow_one_another(n):
    long = {**LATENCIES, "matrix_fp16_busy": 1 / 64}
    use = "add.f32 %f90, %f0, %f0;"
    # A product of 64 cycles is followed at once by the next one, a shorter one after the latency of its first parts.
    assert longest(group_product(0) * n + use, long) == n * 64 + 14 + 4
    assert longest(group_product(0) * n + use) == (n - 1) * 18 + GROUP_LATENCY + 4
    assert longest("".join(group_product(4 * at) for at in range(n))) == n * GROUP_CYCLES
    # A sum between two of them waits for the first, and the second for the sum.
    changed = (group_product(0) + "add.f32 %f1, %f1, %f1; ") * n
    assert longest(changed, long) == n * (64 + 14 + 4)


def test_a_product_waits_for_all_of_the_registers_that_it_adds_to():
    for last in (0, 17, 63):
        body = chain(30, f"%f{last}") + group_product(0, 128) + "add.f32 %f90, %f5, %f5;"
        assert longest(body) == 120 + 16 * GROUP_CYCLES + 14 + 4


# ---- warps of a sub-core


@pytest.mark.parametrize("warps", [2, 3, 4])
def test_warps_together_take_the_time_of_the_units_and_at_most_one_after_the_other(warps):
    products = "".join(product(4 * at) for at in range(10))
    assert longest(products, warps=warps) == warps * 80
    for body in (product(0) * 3 + chain(20, "%f0"), chain(20, "%f0") + product(0), products + chain(99, "%f0")):
        one, together = longest(body), longest(body, warps=warps)
        assert one <= together <= warps * one


def test_one_warp_has_its_products_while_another_one_has_other_instructions():
    products = "".join(product(4 * at) for at in range(8))
    one = products + "add.f32 %f90, %f31, %f31; " + chain(11) + "add.f32 %f0, %f90, %f90; " + product(0) * 1
    # Of one warp: the products end at 64, the sums begin at 64 + 14 and take 52; a product follows.
    assert longest(one) == 64 + 14 + 52 + 1
    # The products of the second warp follow those of the first: its sums, too, are 64 cycles later.
    assert longest(one, warps=2) == 64 + longest(one)


def test_warps_share_a_loop_of_products():
    loop = """mov.u32 %r2, 0; L: .pragma "nounroll"; {} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10; @%p1 bra L;"""
    assert [longest(loop.format(product(0)), warps=n) for n in (1, 2, 3, 6)] == [22, 22, 24, 48]


# ---- pieces without products, and laws


STATEMENTS = (
    "fma.rn.f32 %f{0}, %f{1}, %f{2}, %f{0}; ", "ex2.approx.ftz.f32 %f{0}, %f{1}; ", "add.u32 %r{3}, %r{4}, %r{3}; ",
    "ld.global.f32 %f{0}, [%rd1+{1}28]; ", "st.global.f32 [%rd1+{2}28], %f{1}; ",
)  # fmt: skip


@st.composite
def straight_code(draw):
    numbers = st.tuples(*(st.integers(1, 8) for _ in range(3)), *(st.integers(2, 5) for _ in range(2)))
    found = draw(st.lists(st.tuples(st.sampled_from(STATEMENTS), numbers), min_size=1, max_size=25))
    return [text.format(*values) for text, values in found]


@pytest.mark.parametrize(("in_fp64", "cycles"), [(0.0, 5 * 16), (1.0, 10 * 16)])
def test_units_for_double_precision_convert_to_64_bits_where_the_latencies_say_so(in_fp64, cycles):
    latencies = {
        **LATENCIES, "conversion_64": 4.0, "conversion_64_busy": 16.0, "fp64": 4.0, "fp64_busy": 16.0,
        "conversion_64_in_fp64": in_fp64,
    }  # fmt: skip
    code = product(0) + "cvt.f64.f32 %rd2, %f90; mul.f64 %rd3, %rd1, %rd1; " * 5
    assert cycles <= longest(code, latencies) <= cycles + CYCLES


@examples(100)
@given(straight_code(), st.integers(1, 4))
def test_pieces_without_products_take_the_longest_chain_whatever_the_units_need(statements, warps):
    slow = {**LATENCIES, "fp32_busy": 99.0, "special_busy": 999.0, "int_busy": 50.0, "access_busy": 70.0}
    code = "".join(statements)
    assert longest(code, slow, warps) == longest(code)


@examples(100)
@given(straight_code(), st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2)), min_size=1, max_size=6))
def test_units_that_are_hardly_occupied_leave_the_longest_chain_and_others_take_at_most_the_sum(statements, places):
    for place, at in places:
        statements.insert(min(place, len(statements)), product(4 * at + 1))
    code = "".join(statements)
    free = {name: value for name, value in LATENCIES.items() if not name.endswith("_busy")}
    products, functions = len(places), code.count("ex2")
    # In the fastest machine only the issue slots count: at most one cycle for each instruction.
    free |= {"matrix_fp16_busy": 1 / 4096, "matrix_depth": 21.0}
    unlimited, found = longest(code, free), longest(code)
    assert unlimited <= found + len(statements)
    assert found >= max(products * CYCLES, functions * 8, len(statements))
    assert found <= unlimited + products * CYCLES + functions * 8 + len(statements)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=30))
def test_a_unit_serves_each_in_the_first_cycles_in_which_it_is_free(requests):
    unit, busy = Unit(), set()
    for start, cycles in requests:
        free = [at for at in range(start, 1000) if at not in busy][:cycles]
        assert unit.first(start - 0.5) == unit.first(start) == free[0]
        assert unit.take(free[0], cycles) == free[-1] + 1
        busy |= set(free)
    assert unit.taken == len(busy)


def test_an_occupation_of_parts_of_cycles_ends_before_the_next_one_begins():
    core = SubCore({})
    assert [core.place("matrix", 2.5, 0.25) for _ in range(3)] == [(1, 3.5), (4, 6.5), (7, 9.5)]
    assert core.place("fp32", 1.0, 0.0) == (0, 1)
    assert core.longest == 7.5
