"""Check the straight pieces of kernels, and the longest chains of dependent instructions in them, by hand."""

import pytest

from tracegen import cuda
from tracegen.ptx import parse
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.registers.liveness import live_registers
from tracegen.ptx.timing import pieces as pieces_module
from tracegen.ptx.timing.chains import PREDICATES, straight_pieces
from tracegen.ptx.timing.load_window import EARLY_LOADS
from tracegen.ptx.timing.store_order import NONE

LATENCIES = {
    "fp32": 4.0, "int": 4.0, "load_global": 100.0, "load_alone": 100.0, "load_again": 30.0, "load_shared": 20.0,
    "load_constant": 8.0, "special": 18.0, "branch": 4.0, "other": 4.0, "atomic": 300.0, "conversion": 10.0,
    "shuffle": 20.0, "barrier": 20.0,
}  # fmt: skip

HEAD = """.version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [a];
"""


def chains(body, block=32):
    trace = cuda.trace(HEAD + body + " ret; }", "k", 1, block, ["float[1024]:zeros"])
    return trace.chains(0, LATENCIES)


def longest(body, block=32):
    return max(cycles for cycles, _, _ in chains(body, block))


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        # Two loads overlap, and a sum needs both; a store waits for its data.
        ("ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd1], %f3;",
         105),
        # One load after the other.
        ("ld.global.u64 %rd2, [%rd1]; add.u64 %rd3, %rd2, %rd1; ld.global.f32 %f1, [%rd3]; st.global.f32 [%rd1], %f1;",
         205),
        # Nothing needs the load.
        ("ld.global.f32 %f1, [%rd1]; mov.f32 %f2, 0f00000000; add.f32 %f3, %f2, %f2;", 4),
        # Four independent sums take as long as one; a chain of four takes four times as long.
        ("".join(f"fma.rn.f32 %f{at}, %f{at}, %f{at}, %f{at}; " for at in (1, 2, 3, 4)), 4),
        ("fma.rn.f32 %f1, %f1, %f1, %f1; " * 4, 16),
    ],
)  # fmt: skip
def test_a_piece_takes_the_cycles_of_its_longest_chain(body, cycles):
    zeros = "".join(f"mov.f32 %f{at}, 0f00000000; " for at in (1, 2, 3, 4))
    assert longest(zeros + body) == pytest.approx(cycles, abs=4)


def test_a_loop_takes_the_time_from_one_iteration_to_the_next():
    body = """mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;
      L: .pragma "nounroll"; {} add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra L; st.global.f32 [%rd1], %f1;"""
    alone = longest(body.format("add.f32 %f2, %f1, %f1;"))
    carried = longest(body.format("ld.global.f32 %f2, [%rd1]; add.f32 %f1, %f1, %f2;"))
    assert alone == pytest.approx(10 * 8, abs=40)
    assert carried == pytest.approx(10 * 104)


def test_a_short_branch_is_a_predicate_and_a_long_one_ends_a_piece():
    body = """ld.global.f32 %f1, [%rd1]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 99; @!%p1 bra L; {}
      L: ld.global.f32 %f2, [%rd1]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd1], %f3;"""
    short, long = (body.format("add.u32 %r1, %r1, 1; " * n) for n in (7, 8))
    assert len([c for c, _, accesses in chains(short) if accesses]) == 1
    assert len([c for c, _, accesses in chains(long) if accesses]) == 2
    assert sum(c for c, _, _ in chains(short)) < sum(c for c, _, _ in chains(long))


def test_a_barrier_ends_a_piece_and_counts_are_those_of_a_warp():
    body = "ld.global.f32 %f1, [%rd1]; bar.sync 0; add.f32 %f2, %f1, %f1; st.global.f32 [%rd1], %f2;"
    found = chains(body, block=128)
    assert [accesses for _, _, accesses in found if accesses] == [1, 1]
    assert sum(classes.get("fp32", 0) for _, classes, _ in found) == 1


def test_short_branches_that_use_what_they_load_overlap_as_far_as_there_are_predicates():
    begin = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 99; mov.f32 %f1, 0f00000000;"
    used = "@!%p1 bra L{0}; ld.global.f32 %f3, [%rd1+{0}00]; add.f32 %f1, %f1, %f3; L{0}: "
    loaded = "@!%p1 bra L{0}; ld.global.f32 %f{1}, [%rd1+{0}00]; L{0}: "
    end = "st.global.f32 [%rd1], %f1;"
    few, many = (begin + "".join(used.format(at) for at in range(1, n + 1)) + end for n in (PREDICATES, PREDICATES + 1))
    unused = begin + "".join(loaded.format(at, at % 8) for at in range(1, PREDICATES + 2)) + end
    assert longest(few) == pytest.approx(100 + PREDICATES * 4, abs=24)
    assert longest(many) == pytest.approx((PREDICATES + 1) * 100, abs=60)
    assert longest(unused) == pytest.approx(100, abs=24)


# ---- loads under way, and the registers for their data


def with_registers(body, *numbers):
    """Return the cycles of the longest piece of a kernel for each number of registers."""
    module = parse(HEAD + body + " ret; }", "k.ptx")
    pieces = straight_pieces(lower_kernel(module, "k", {}, 0), live_registers(module, "k"))
    return [max(piece.longest_chain(LATENCIES, number) for piece in pieces) for number in numbers]


SUMS = "".join(
    f"ld.global.f32 %f{2 + at % 4}, [%rd1+{32 * at}]; add.f32 %f1, %f1, %f{2 + at % 4}; " for at in range(16)
)
"""Sixteen loads of other sectors, each before its use. The sum and the address take three registers."""


def test_loads_overlap_as_far_as_there_are_registers_for_their_data(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    body = "mov.f32 %f1, 0f00000000; " + SUMS + "st.global.f32 [%rd1], %f1;"
    free, one, two, four, all_of_them = with_registers(body, 0, 3 + 1, 3 + 2, 3 + 4, 3 + 16)
    assert one == pytest.approx(16 * 100, abs=8)
    assert two == pytest.approx(8 * 100 + 8 * 4, abs=40)
    assert four == pytest.approx(4 * 100 + 4 * 12, abs=60)
    assert free == all_of_them == pytest.approx(100 + 16 * 4, abs=1)


def test_a_thread_has_some_registers_for_early_loads_however_few_the_assembler_takes():
    body = "mov.f32 %f1, 0f00000000; " + SUMS + "st.global.f32 [%rd1], %f1;"
    one, least, more = with_registers(body, 1, 4 + EARLY_LOADS, 5 + EARLY_LOADS)
    assert one == least == pytest.approx(2 * 100 + 9 * 4, abs=40)
    assert more < least


def test_loads_that_precede_their_uses_in_the_source_overlap_with_the_fewest_registers():
    loads = "".join(f"ld.global.f32 %f{at}, [%rd1+{4 * at}]; " for at in range(1, 9))
    uses = "".join(f"add.f32 %f1, %f1, %f{at}; " for at in range(2, 9))
    body = loads + uses + "st.global.f32 [%rd1], %f1;"
    few, many = with_registers(body, 2 + 8, 200)
    assert few == many == pytest.approx(100 + 7 * 4, abs=1)


@pytest.mark.parametrize("registers", range(1, 24))
def test_more_registers_are_never_slower(registers):
    body = "mov.f32 %f1, 0f00000000; " + SUMS + "ld.global.v2.f32 {%f2, %f3}, [%rd1]; add.f32 %f1, %f2, %f3;" + SUMS
    fewer, more = with_registers(body + "st.global.f32 [%rd1], %f1;", registers, registers + 1)
    assert more <= fewer


def test_each_iteration_of_a_loop_begins_with_all_registers_for_loads(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    body = f"""mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;
      L: .pragma "nounroll"; {SUMS} add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra L;
      st.global.f32 [%rd1], %f1;"""
    free, two = with_registers(body, 0, 4 + 2)
    assert free == pytest.approx(100 + 16 * 4, abs=1)
    assert two == pytest.approx(8 * 100, abs=40)


def test_loads_of_one_sector_wait_for_the_first_of_them_only(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    near = SUMS.replace("[%rd1+32]", "[%rd1+4]").replace("[%rd1+64]", "[%rd1+8]")
    body = "mov.f32 %f1, 0f00000000; " + "".join(near.partition(" ld.global.f32 %f5")[0]) + "st.global.f32 [%rd1], %f1;"
    free, one = with_registers(body, 0, 3 + 1)
    assert free == pytest.approx(100 + 3 * 4, abs=1)
    assert one == pytest.approx(100 + 2 * 30, abs=20)


def test_loads_of_one_sector_move_ahead_of_uses_together_or_not_at_all(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    first = "ld.global.f32 %f2, [%rd1+64]; add.f32 %f1, %f1, %f2; "
    pair = "ld.global.f32 %f3, [%rd1]; ld.global.f32 %f4, [%rd1+4]; add.f32 %f1, %f1, %f3; add.f32 %f1, %f1, %f4; "
    body = "mov.f32 %f1, 0f00000000; " + first + pair + "st.global.f32 [%rd1], %f1;"
    one, two, three = with_registers(body, 3 + 1, 3 + 2, 3 + 3)
    assert one == two == pytest.approx(100 + 100, abs=16)
    assert three == pytest.approx(100, abs=16)


def test_loads_from_shared_memory_leave_the_registers_to_others(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    one = "ld.shared.f32 %f3, [%r1+{0}]; add.f32 %f1, %f1, %f3; ld.global.f32 %f2, [%rd1+{0}]; add.f32 %f1, %f1, %f2; "
    begin = "mov.u32 %r1, %tid.x; mov.f32 %f1, 0f00000000; "
    body = begin + "".join(one.format(512 * at) for at in range(4)) + "st.global.f32 [%rd1], %f1;"
    free, four = with_registers(body, 0, 4 + 4)
    assert four == free == pytest.approx(100, abs=40)


# ---- unrolled loops


LOOP = """mov.u32 %r1, 0; mov.f32 %f1, 0f00000000; L: {}
  add.u64 %rd1, %rd1, 32; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {}; @%p1 bra L; st.global.f32 [%rd1], %f1;"""
"""A loop of {} and so many iterations."""

SUM = "ld.global.f32 %f2, [%rd1]; add.f32 %f1, %f1, %f2; "


def test_loads_of_several_iterations_overlap_in_an_unrolled_loop():
    rolled = longest(LOOP.format(f'.pragma "nounroll"; {SUM}', 16))
    assert rolled == pytest.approx(16 * 104, abs=8)
    assert longest(LOOP.format(SUM, 16)) == pytest.approx(100 + 16 * 4, abs=30)


def test_no_more_iterations_overlap_than_a_loop_has():
    # Each of the three takes a third of the time that all of them take together.
    assert longest(LOOP.format(SUM, 3)) == pytest.approx(100 + 3 * 4, abs=12)


def test_loads_of_an_unrolled_loop_overlap_as_far_as_there_are_registers(monkeypatch):
    monkeypatch.setattr(pieces_module, "EARLY_LOADS", 0)
    module = parse(HEAD + LOOP.format(SUM, 16) + " ret; }", "k.ptx")
    pieces = straight_pieces(lower_kernel(module, "k", {}, 0), live_registers(module, "k"))
    (loop,) = (piece for piece in pieces if piece.loop)
    one, two, many = (loop.longest_chain(LATENCIES, 4 + free, 16) for free in (1, 2, 16))
    assert one == pytest.approx(100, abs=8)
    assert two == pytest.approx(100 / 2, abs=8)
    assert many == pytest.approx((100 + 16 * 4) / 16, abs=8)


# ---- stores


def test_a_load_waits_for_a_store_that_may_change_its_data():
    store = "st.global.f32 [%rd2], %f1; "
    begin = "add.u64 %rd2, %rd1, 2048; mov.f32 %f1, 0f00000000; "
    loads = [
        f"ld.global{kind}.f32 %f2, [%rd1+{32 * at}]; add.f32 %f1, %f1, %f2; " for kind in ("", ".nc") for at in (0, 1)
    ]
    plain, unchanging = store.join(loads[:2]), store.join(loads[2:])
    assert longest(begin + plain + store) == pytest.approx(100 + 100, abs=24)
    assert longest(begin + unchanging + store) == pytest.approx(100, abs=24)


def test_a_loop_that_stores_waits_in_every_iteration_although_it_is_unrolled():
    body = LOOP.replace("mov.u32 %r1, 0;", "mov.u32 %r1, 0; add.u64 %rd2, %rd1, 2048;")
    assert longest(body.format(SUM + "st.global.f32 [%rd2], %f1;", 16)) == pytest.approx(16 * 104, abs=100)


def test_fetches_of_a_texture_do_not_lead_each_other():
    fetch = "tex.1d.v4.f32.s32 {{%f1, %f2, %f3, %f4}}, [t, {{{}}}]; "
    text = ".version 8.0 .target sm_80 .address_size 64 .global .texref t; " + HEAD.partition(".address_size 64 ")[2]
    module = parse(text + fetch.format("%r1") + fetch.format("%r2") + "st.global.f32 [%rd1], %f1; ret; }", "k.ptx")
    kernel = lower_kernel(module, "k", {"t": 1 << 20}, 0)
    links = [link for piece in straight_pieces(kernel, live_registers(module, "k")) for link in piece.links]
    assert sum(link.latency != "" and link.memory for link in links) == 2
    assert all(link.leader == NONE for link in links)
