"""Blocks whose warps wait for mbarriers take the time of their own recurrences: copies, products and other warps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ptx_kernels import module_of
from tracegen import cuda
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.timing.block_run import Groups, Mbarrier
from tracegen.ptx.timing.timeline import ENTRY

L2, DRAM, FAR, BYTE, STEP, PRODUCT, DEPTH = 700.0, 400.0, 200.0, 1 / 64, 10.0, 256.0, 14.0
"""Cycles of a bulk copy, those that it waits longer for DRAM and another partition of the L2, those of a byte, of an
addition, and of a product of 128 x 128 x 16 on all sub-cores; and those from its end to its result."""

LATENCIES = {
    "fp32": STEP, "int": 0.0, "load_global": 500.0, "load_again": 30.0, "load_alone": 500.0, "load_constant": 0.0,
    "load_shared": 0.0, "branch": 0.0, "other": 0.0, "barrier": 0.0, "shuffle": 0.0, "matrix": 18.0,
    "bulk": L2, "bulk_far": FAR, "bulk_far_share": 0.0, "bulk_dram": DRAM, "bulk_dram_share": 0.0, "bulk_byte": BYTE,
    "matrix_fp16_busy": 4 * PRODUCT / (2 * 128 * 128 * 16), "matrix_depth": DEPTH, "sub_cores": 4.0,
}  # fmt: skip

HEAD = """.version 8.6 .target TARGET .address_size 64
.visible .entry k(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<19>; .reg .f32 %f<140>; .reg .pred %p<9>;
  .shared .align 128 .b8 tiles[65536]; .shared .align 8 .b64 full[8]; .shared .align 8 .b64 empty[8];
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, full; mov.u32 %r3, tiles;
  mov.f32 %f1, 0f3F800000; mov.u32 %r4, 0; mov.u32 %r9, empty; setp.lt.u32 %p5, %r1, 32;
"""

FETCH = """@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], SIZE;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], SIZE, [%r5];
"""

WAIT = "W{0}: mbarrier.try_wait.parity.shared.b64 %p3, [{1}], {2}; @!%p3 bra W{0};\n"


def place(register, number, ring):
    """Return the instructions that put one of 2^n mbarriers into `register`, and the parity into %r7."""
    return (
        f"and.b32 %r6, {number}, {ring - 1}; shl.b32 %r6, %r6, 3; add.u32 {register}, %r2, %r6; "
        f"shr.u32 %r7, {number}, {ring.bit_length() - 1}; and.b32 %r7, %r7, 1; "
    )


def work(steps, register="%f1"):
    return f"add.f32 {register}, {register}, {register}; " * steps


def ring_kernel(ahead, steps, iterations, size):
    """A kernel of one warp that copies `ahead` iterations before it waits, and then adds `steps` times."""
    ring = ahead + 1
    init = "".join(f"@%p1 mbarrier.init.shared.b64 [full+{8 * at}], 1;\n" for at in range(ring))
    fetch = FETCH.replace("SIZE", str(size))
    prologue = "".join(f"mov.u32 %r8, {at}; {place('%r5', '%r8', ring)} {fetch}" for at in range(ahead))
    body = f"""L: add.u32 %r8, %r4, {ahead}; {place("%r5", "%r8", ring)} {fetch}
      {place("%r5", "%r4", ring)} {WAIT.format("", "%r5", "%r7")} {work(steps)}
      add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {iterations}; @%p2 bra L;"""
    return f"{HEAD.replace('TARGET', 'sm_90')} {init} bar.sync 0; {prologue} {body} st.global.f32 [%rd1], %f1; ret; }}"


def cycles(source, threads=32, **changed):
    """Return the cycles of the only block of a kernel."""
    trace = cuda.trace(source, "k", 1, threads, [f"float[{1 << 16}]:zeros"])
    (found,) = trace.chains(0, {**LATENCIES, **changed})
    return found[0]


def expected(ahead, steps, iterations, size):
    """Return the cycles of `ring_kernel`, copy by copy and wait by wait."""
    port, time, there = 0.0, 0.0, []
    for iteration in range(-ahead, iterations):
        port = max(port, time) + size * BYTE
        there.append(port + L2)
        if iteration >= 0:
            time = max(time, there[iteration]) + steps * STEP
    return time


# ---- copies


@given(st.sampled_from([0, 1, 3, 7]), st.integers(0, 150), st.integers(1, 24), st.sampled_from([16, 1024, 4096, 16384]))
@examples(40)
def test_a_copy_is_waited_for_where_its_mbarrier_is(ahead, steps, iterations, size):
    found = cycles(ring_kernel(ahead, steps, iterations, size))
    least = expected(ahead, steps, iterations, size)
    # Beside the additions, an iteration issues a dozen instructions without latency.
    assert least <= found <= least + 30 * (iterations + ahead + 1)


@pytest.mark.parametrize(("ahead", "steps", "period"), [
    (0, 100, L2 + 1024 * BYTE + 100 * STEP),
    (1, 100, 100 * STEP),
    (1, 20, (L2 + 1024 * BYTE + 20 * STEP) / 2),
    (3, 20, (L2 + 1024 * BYTE + 20 * STEP) / 4),
])  # fmt: skip
def test_copies_ahead_hide_their_latency(ahead, steps, period):
    each = (cycles(ring_kernel(ahead, steps, 60, 1024)) - cycles(ring_kernel(ahead, steps, 40, 1024))) / 20
    assert each == pytest.approx(period, abs=45)


def test_many_copies_are_bound_by_the_port_of_the_sm():
    each = (cycles(ring_kernel(7, 0, 60, 16384)) - cycles(ring_kernel(7, 0, 40, 16384))) / 20
    assert each == pytest.approx(16384 * BYTE, abs=1)


@pytest.mark.parametrize(("share", "waits"), [("bulk_far_share", FAR), ("bulk_dram_share", DRAM)])
def test_a_copy_waits_for_the_slowest_of_its_lines(share, waits):
    source = ring_kernel(0, 0, 1, 1024)  # eight lines
    fast = cycles(source)
    assert cycles(source, **{share: 1.0}) - fast == waits
    assert cycles(source, **{share: 0.5}) - fast == pytest.approx(waits * (1 - 0.5**8))


def test_a_long_block_is_extrapolated_from_its_first_events():
    few, many = (cycles(ring_kernel(1, 20, iterations, 1024)) for iterations in (2_000, 60_000))
    assert many == pytest.approx(30 * few, rel=0.01)


def stored(wait):
    return f"""{HEAD.replace("TARGET", "sm_90")} @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
      mov.u32 %r5, full; {FETCH.replace("SIZE", "1024")} {WAIT.format("", "%r5", 0)}
      @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tiles], 16384;
      cp.async.bulk.commit_group; {wait} {work(10)} st.global.f32 [%rd1], %f1; ret; }}"""


def test_a_store_in_bulk_is_waited_for_until_its_bytes_are_read():
    without = cycles(stored(""))
    assert cycles(stored("cp.async.bulk.wait_group.read 0;")) - without == pytest.approx(16384 * BYTE, abs=8)
    assert cycles(stored("cp.async.bulk.wait_group.read 1;")) - without == pytest.approx(0, abs=8)


# ---- other warps


def handed_on(buffers, make, use, iterations=40):
    """A kernel whose first warp copies and adds `make` times, and whose second warp adds `use` times."""
    init = "".join(
        f"@%p1 mbarrier.init.shared.b64 [{name}+{8 * at}], 1;\n" for name in ("full", "empty") for at in range(buffers)
    )
    at = place("%r5", "%r4", buffers) + f"add.u32 %r10, %r9, %r6; add.u32 %r11, %r7, {1}; and.b32 %r11, %r11, 1;"
    end = f"add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {iterations}; @%p2 bra"
    return f"""{HEAD.replace("TARGET", "sm_90")} {init} bar.sync 0; setp.eq.u32 %p6, %r1, 32; @%p5 bra MAKE;
    USE: {at} {WAIT.format("U", "%r5", "%r7")} {work(use)} @%p6 mbarrier.arrive.shared.b64 _, [%r10]; {end} USE;
    bra END;
    MAKE: {at} {WAIT.format("M", "%r10", "%r11")} {work(make)} {FETCH.replace("SIZE", "1024")} {end} MAKE;
    END: st.global.f32 [%rd1], %f1; ret; }}"""


@pytest.mark.parametrize(("buffers", "make", "use", "period"), [
    (1, 0, 50, L2 + 1024 * BYTE + 50 * STEP),  # the copy waits until its buffer is used
    (2, 0, 50, (L2 + 1024 * BYTE + 50 * STEP) / 2),
    (4, 0, 50, 50 * STEP),
    (4, 90, 50, 90 * STEP),
    (1, 90, 50, L2 + 1024 * BYTE + 140 * STEP),
])  # fmt: skip
def test_a_warp_that_copies_and_one_that_uses_the_data_wait_for_each_other(buffers, make, use, period):
    few, many = (cycles(handed_on(buffers, make, use, iterations), 64) for iterations in (40, 80))
    assert (many - few) / 40 == pytest.approx(period, abs=45)


def test_warps_of_a_sub_core_share_its_units_and_those_of_others_do_not():
    # Each warp executes 400 independent additions, and the units of a sub-core need two cycles for one.
    body = "".join(work(1, f"%f{at % 100 + 2}") for at in range(400))
    source = f"""{HEAD.replace("TARGET", "sm_90")} @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0; {body}
      @%p1 mbarrier.arrive.shared.b64 _, [full]; {WAIT.format("", "full", 0)} st.global.f32 [%rd1], %f1; ret; }}"""
    one, four, five, eight = (cycles(source, 32 * warps, fp32_busy=2.0, fp32=1.0) for warps in (1, 4, 5, 8))
    assert one == four == pytest.approx(800, rel=0.1)
    assert five == eight == pytest.approx(one + 800, rel=0.05)


def test_a_barrier_of_the_block_waits_for_the_slowest_warp():
    source = f"""{HEAD.replace("TARGET", "sm_90")} @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
      @!%p5 bra B; {work(100)} B: bar.sync 1, 64; {work(50)} @%p1 mbarrier.arrive.shared.b64 _, [full];
      {WAIT.format("", "full", 0)} st.global.f32 [%rd1], %f1; ret; }}"""
    assert cycles(source, 64) == pytest.approx(150 * STEP, abs=40)


# ---- blocks on one SM


def crowding(source, resident, threads=32):
    return cuda.trace(source, "k", 1, threads, [f"float[{1 << 16}]:zeros"]).crowding(0, LATENCIES, resident)


@pytest.mark.parametrize("resident", [1, 2, 5, 16])
def test_blocks_on_an_sm_share_its_port_and_hide_each_others_latencies(resident):
    size = 16384
    period, port = L2 + size * BYTE + 20 * STEP, size * BYTE
    found = crowding(ring_kernel(0, 20, 50, size), resident)
    assert found == pytest.approx(max(1.0, resident * port / period), rel=0.12)


def test_blocks_on_an_sm_have_mbarriers_of_their_own():
    assert crowding(handed_on(2, 10, 50), 1, 64) == 1
    assert 1 <= crowding(handed_on(2, 10, 50), 3, 64) < 1.2


def test_blocks_without_mbarriers_tell_nothing_about_others_on_their_sm():
    source = f"{HEAD.replace('TARGET', 'sm_90')} {work(10)} st.global.f32 [%rd1], %f1; ret; }}"
    assert crowding(source, 4) is None


# ---- clusters


def in_cluster(body):
    head = HEAD.replace("TARGET", "sm_90").replace("(.param .u64 a) {", "(.param .u64 a) .reqnctapercluster 2, 1, 1 {")
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    return f"""{head} .reg .b32 %rank; mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %p6, %rank, 0;
      @%p1 mbarrier.init.shared.b64 [full], 1; {meet} {body} {meet} st.global.f32 [%rd1], %f1; ret; }}"""


def cycles_of_cluster(body, **changed):
    trace = cuda.trace(in_cluster(body), "k", 2, 32, [f"float[{1 << 16}]:zeros"])
    first, second = (trace.chains(block, {**LATENCIES, **changed})[0][0] for block in (0, 1))
    assert first == second
    return first


def test_a_block_waits_for_the_arrival_of_another_block_of_its_cluster():
    body = f"""@!%p6 bra OTHER; {WAIT.format("", "full", 0)} {work(30)} bra MET;
      OTHER: {work(100)} mov.u32 %r10, 0; mapa.shared::cluster.u32 %r11, %r2, %r10;
      @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11]; MET:"""
    assert cycles_of_cluster(body) == pytest.approx(130 * STEP, abs=40)


def test_the_barrier_of_a_cluster_waits_for_the_slowest_block():
    body = f"""@%p6 bra MET; {work(80)} MET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; {work(30)}
      @%p1 mbarrier.arrive.shared.b64 _, [full]; {WAIT.format("", "full", 0)}"""
    assert cycles_of_cluster(body) == pytest.approx(110 * STEP, abs=40)


@pytest.mark.parametrize(("mask", "copies"), [(1, 1), (3, 1), (3, 2)])
def test_a_copy_to_several_blocks_passes_the_port_of_each(mask, copies):
    size = 16384
    fetch = (
        f"""@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
      [tiles], [%rd1], {size}, [full], %h1; """
        * copies
    )
    reached = "" if mask == 3 else "@!%p6 bra MET;"
    body = f""".reg .b16 %h1; mov.u16 %h1, {mask}; {reached}
      @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], {size * copies};
      @!%p6 bra GO; {fetch} GO: {WAIT.format("", "full", 0)} MET:"""
    assert cycles_of_cluster(body) == pytest.approx(L2 + copies * size * BYTE, abs=40)


# ---- products

SUMS = ", ".join(f"%f{at + 2}" for at in range(64))
GROUP_PRODUCT = (
    f"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{SUMS}}}, %rd2, %rd2, 1, 1, 1, 0, 0; "
    "wgmma.commit_group.sync.aligned; "
)


def products_of_a_group(before, after, iterations):
    """A loop whose products are waited for behind `before` additions, which `after` others follow."""
    return f"""{HEAD.replace("TARGET", "sm_90a")} mov.b64 %rd2, 0; @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
    L: mov.u32 %r5, full; {FETCH.replace("SIZE", "16")} and.b32 %r7, %r4, 1; {WAIT.format("", "%r5", "%r7")}
    wgmma.fence.sync.aligned; {GROUP_PRODUCT} {work(before, "%f100")} wgmma.wait_group.sync.aligned 0;
    {work(after, "%f101")} add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {iterations}; @%p2 bra L;
    st.global.f32 [%rd1], %f2; ret; }}"""


@pytest.mark.parametrize(("before", "after"), [(0, 0), (5, 0), (100, 0), (0, 60), (30, 60)])
def test_a_group_of_products_goes_on_until_it_is_waited_for(before, after):
    few, many = (cycles(products_of_a_group(before, after, n), 128, bulk=0.0) for n in (20, 40))
    # A group of warps computes half of a product of 128 rows.
    period = max(PRODUCT / 2 + DEPTH, before * STEP) + after * STEP
    assert (many - few) / 20 == pytest.approx(period, abs=40)


def products_in_tensor_memory(count, steps, iterations):
    """A loop in which one thread starts `count` products of 128 x 128 x 16, and adds while they are computed."""
    descriptor = (128 // 16) << 24 | (128 // 8) << 17 | 1 << 4  # sums in single precision
    products = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd2, %rd2, %r12, %p1;\n" * count
    return f"""{HEAD.replace("TARGET", "sm_100a")} mov.b64 %rd2, 0; mov.b32 %r12, {descriptor};
    @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
    L: {products} @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];
    {work(steps)} and.b32 %r7, %r4, 1; {WAIT.format("", "full", "%r7")}
    add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {iterations}; @%p2 bra L;
    st.global.f32 [%rd1], %f1; ret; }}"""


@pytest.mark.parametrize(("count", "steps"), [(1, 0), (4, 0), (4, 60), (1, 100)])
def test_products_in_tensor_memory_arrive_when_all_sub_cores_have_computed_them(count, steps):
    few, many = (cycles(products_in_tensor_memory(count, steps, n), 128) for n in (20, 40))
    assert (many - few) / 20 == pytest.approx(max(count * PRODUCT + DEPTH, steps * STEP), abs=40)


# ---- parts


def test_an_mbarrier_ends_a_phase_when_all_arrivals_and_bytes_are_there():
    mbarrier = Mbarrier(2)
    assert not mbarrier.arrive(1, 100, 5.0)
    assert not mbarrier.arrive(0, -100, 30.0)
    assert mbarrier.arrive(1, 0, 10.0)
    assert mbarrier.ends == [30.0]
    assert mbarrier.arrive(2, 0, 50.0)
    assert mbarrier.ends == [30.0, 50.0]


def test_a_group_is_complete_when_those_before_it_are():
    groups = Groups()
    for time in (9.0, 4.0, 20.0):
        groups.add(time)
        groups.commit()
    assert [groups.wait(left) for left in range(4)] == [20.0, 9.0, 9.0, 0.0]
    groups.add(40.0)
    assert (groups.wait(0), groups.complete) == (20.0, 40.0)


def test_the_emulator_notes_what_warps_do_at_barriers():
    source = f"""{HEAD.replace("TARGET", "sm_90")} @%p1 mbarrier.init.shared.b64 [full], 64; bar.sync 3, 64;
      mbarrier.arrive.shared.b64 _, [full]; {WAIT.format("", "full", 0)} ret; }}"""
    machine = LoadedModule(module_of(source))
    launched = machine.launch("k", 1, 64, [machine.allocate(np.zeros(4, np.uint8), "a")], values=False)
    launched.run(0)
    events = launched._machines[0].events
    table = events.table()
    assert events.entries == np.count_nonzero(table[:, 2] == ENTRY)
    assert set(table[:, 0]) == {0, 1}
    acts = [(warp, amount, size) for warp, _, place, amount, size in table.tolist() if place != ENTRY]
    assert acts == [(0, 64, 0), (0, 64, 0), (1, 64, 0), (0, 32, 0), (1, 32, 0), (0, 0, 0), (1, 0, 0)]


def test_kernels_without_mbarriers_note_nothing():
    machine = LoadedModule(module_of(f"{HEAD.replace('TARGET', 'sm_90')} bar.sync 0; ret; }}"))
    launched = machine.launch("k", 1, 64, [machine.allocate(np.zeros(4, np.uint8), "a")], values=False)
    launched.run(0)
    assert not len(launched._machines[0].events.table())
