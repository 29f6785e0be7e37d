"""Asynchronous copies: the accesses that they make, what waits for them, and the barriers that they complete."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import Op, Space
from tests.support.ptx_kernels import HEAD, module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.tensor_map import tensor_map

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .f32 %f<5>; .reg .pred %p<5>; .reg .b64 %x, %out;
    .shared .align 128 .b8 s[16384]; .shared .align 8 .b64 m[4];
    ld.param.u64 %x, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 16;
    add.s64 %out, %x, %rd2;
    mov.u32 %r9, s;
    mad.lo.u32 %r10, %r1, 16, %r9;
    setp.eq.u32 %p1, %r1, 0;
"""


def launch(body: str, x=None, *, threads: int = 32, values: bool = False, map=bytes(128)):
    """Return the columns of k(x, map) and the address of x.

    %x is x, %out is x[4 thread], and %r10 the address of 16 bytes of shared memory of each thread.
    """
    head = f"{HEAD}.visible .entry k(.param .u64 x, .param .align 64 .b8 map[128])"
    machine = LoadedModule(module_of(f"{head}\n{{{REGISTERS}{body}\n ret;\n}}"))
    buffer = machine.allocate(np.zeros(1 << 16, np.uint8) if x is None else x, "x")
    given = map(buffer.base) if callable(map) else map
    columns = machine.launch("k", 1, threads, [buffer, given], values=values, max_instructions=10**5).run(0)
    return columns, buffer.base


# ---- copies of 4, 8 or 16 bytes per thread

WAIT = "cp.async.wait_all; bar.sync 0;"


def test_a_copy_is_a_load_of_global_memory_with_its_size_per_lane():
    body = "cp.async.ca.shared.global [%r10], [%out], 4; cp.async.cg.shared.global.L2::128B [%r10], [%out+64], 16;"
    columns, base = launch(body)
    assert columns.op.tolist() == [Op.LOAD, Op.LOAD]
    assert columns.space.tolist() == [Space.GLOBAL] * 2
    assert columns.size.tolist() == [4, 16]
    assert (columns.addresses - base).tolist() == [16 * t for t in range(32)] + [16 * t + 64 for t in range(32)]


def test_a_copy_brings_its_bytes_and_zeros():
    x = np.arange(256, dtype=np.uint32)
    body = f"""setp.lt.u32 %p2, %r1, 8; selp.u32 %r2, 16, 0, %p2; st.shared.u32 [%r10], 77;
    cp.async.cg.shared.global [%r10], [%out], 16, %r2; {WAIT}
    ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r10]; st.global.v4.u32 [%out+512], {{%r2, %r3, %r4, %r5}};"""
    columns, _ = launch(body, x, values=True)
    assert x[128:].tolist() == [*range(32), *[0] * 96]
    assert columns.mask.tolist()[0] == 0xFF
    assert columns.op.tolist() == [Op.LOAD, Op.BARRIER, Op.STORE]


def test_a_copy_under_a_guard_reads_only_where_both_hold():
    body = """setp.lt.u32 %p2, %r1, 8; setp.lt.u32 %p3, %r1, 4; selp.u32 %r2, 16, 0, %p2;
    @!%p3 cp.async.cg.shared.global [%r10], [%out], 16, %r2;
    @%p3 cp.async.ca.shared.global [%r10], [%out], 16, %p2;"""
    columns, _ = launch(body)
    assert columns.mask.tolist() == [0xF0]  # the predicate of the second copy says to ignore the source


def test_what_follows_a_wait_needs_the_copies_of_its_groups():
    body = """
    cp.async.ca.shared.global [%r10], [%out], 16; cp.async.commit_group;
    cp.async.ca.shared.global [%r10+512], [%out+512], 16; cp.async.commit_group;
    st.global.u32 [%out], 0;
    cp.async.wait_group 1; st.global.u32 [%out], 1;
    cp.async.wait_group 0; st.global.u32 [%out], 2;"""
    columns, _ = launch(body)
    assert columns.op.tolist() == [Op.LOAD, Op.LOAD, Op.STORE, Op.STORE, Op.STORE]
    # Bit i stands for the row i + 1 before: the first wait is for the older copy, the second one for the newer copy.
    assert columns.needs.tolist() == [0, 0, 0, 0b100, 0b100]


def test_a_pipeline_waits_for_the_oldest_of_many_groups():
    copies = "cp.async.ca.shared.global [%r10], [%out], 4; cp.async.commit_group;" * 12
    columns, _ = launch(f"{copies} cp.async.wait_group 9; st.global.u32 [%out], 1;")
    assert columns.needs.tolist()[-1] == 0b111 << 9


def test_data_that_was_copied_may_be_an_address():
    body = f"""cp.async.ca.shared.global [%r10], [%out], 4; {WAIT} ld.shared.u32 %r2, [%r10]; cvt.u64.u32 %rd3, %r2;
    add.s64 %rd3, %x, %rd3; ld.global.u32 %r2, [%rd3];"""
    columns, base = launch(body, np.arange(256, dtype=np.uint32))
    assert (columns.addresses[32:] - base).tolist() == [4 * t for t in range(32)]
    assert columns.needs.tolist() == [0, 1, 0]


@pytest.mark.parametrize("size", [2, 12, 32])
def test_a_copy_of_another_size_is_refused(size):
    with pytest.raises(TraceError, match=r"PTX line \d+: cp\.async\.ca\.shared\.global: must copy 4, 8 or 16 bytes"):
        launch(f"cp.async.ca.shared.global [%r10], [%out], {size};")


# ---- mbarriers


def test_threads_wait_for_the_arrivals_of_a_phase():
    body = """@%p1 mbarrier.init.shared.b64 [m], 64; bar.sync 0;
    setp.ge.u32 %p2, %r1, 32; @%p2 bra PRODUCE;
    mbarrier.arrive.shared.b64 _, [m];
    CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra CONSUME;
    ld.global.u32 %r2, [%out]; bra END;
    PRODUCE: st.global.u32 [%out], %r1; mbarrier.arrive.shared.b64 %rd3, [m];
    mbarrier.test_wait.shared.b64 %p3, [m], %rd3; @%p3 st.global.u32 [%out], 5; END: """
    columns, _ = launch(body, threads=64)
    per_warp = [columns.op[a:b].tolist() for a, b in zip(columns.warp_start, columns.warp_start[1:], strict=False)]
    assert per_warp == [[Op.BARRIER, Op.LOAD], [Op.BARRIER, Op.STORE, Op.STORE]]


def test_a_barrier_of_several_phases_alternates_its_parity():
    step = """mbarrier.arrive.shared.b64 _, [m]; W{0}: mbarrier.try_wait.parity.shared.b64 %p3, [m], {1};
    @!%p3 bra W{0}; st.global.u32 [%out], {0};"""
    body = "@%p1 mbarrier.init.shared.b64 [m], 32; bar.sync 0;" + "".join(step.format(i, i % 2) for i in range(4))
    assert launch(body)[0].op.tolist() == [Op.BARRIER] + [Op.STORE] * 4


def test_a_barrier_that_lacks_an_arrival_is_a_deadlock():
    body = """@%p1 mbarrier.init.shared.b64 [m], 33; bar.sync 0; mbarrier.arrive.shared.b64 _, [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;"""
    with pytest.raises(TraceError, match=r"deadlock in block 0: 32 threads at an mbarrier in PTX line \d+"):
        launch(body)


def test_threads_that_drop_out_are_no_longer_expected():
    body = """@%p1 mbarrier.init.shared.b64 [m], 32; bar.sync 0; setp.lt.u32 %p2, %r1, 8;
    @%p2 mbarrier.arrive_drop.shared.b64 _, [m]; @%p2 ret;
    mbarrier.arrive.shared.b64 _, [m]; W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;
    mbarrier.arrive.shared.b64 _, [m]; V: mbarrier.try_wait.parity.shared.b64 %p3, [m], 1; @!%p3 bra V;
    st.global.u32 [%out], 1;"""
    assert launch(body)[0].mask.tolist()[-1] == 0xFFFFFF00


# ---- bulk copies

PARAMETER = "mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5;"
LOAD_BOX = """
    @%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], {bytes};
    mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5; mov.u32 %r4, {column}; mov.u32 %r5, {row};
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r9], [%rd5, {{%r4, %r5}}], [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;
    st.global.u32 [%out], 1;"""


def box(base: int) -> bytes:
    """A matrix of 50 rows of 100 halves (208 bytes apart), in boxes of 16 rows of 32."""
    return tensor_map(base, "f16", shape=(50, 100), strides=(208,), box=(16, 32))


def test_a_box_of_a_tensor_is_loaded_row_by_row():
    columns, base = launch(LOAD_BOX.format(bytes=1024, column=32, row=16), map=box)
    assert columns.op.tolist() == [Op.BARRIER, Op.LOAD, Op.LOAD, Op.STORE]
    assert columns.size.tolist()[1:3] == [16, 16]
    rows = [(16 + r) * 208 + 64 + 16 * chunk for r in range(16) for chunk in range(4)]
    assert (columns.addresses[:64] - base).tolist() == rows
    assert columns.needs.tolist() == [0, 0, 0, 0b11]


def test_a_box_that_leaves_the_tensor_reads_only_what_is_inside():
    columns, base = launch(LOAD_BOX.format(bytes=1024, column=80, row=46), map=box)
    # 20 of 32 columns (40 bytes: three pieces of 16 bytes) in 4 of 16 rows; the rest counts as arrived, too.
    assert columns.mask.tolist()[1:] == [0xFFF, 0xFFFFFFFF]
    assert (columns.addresses[:12] - base).tolist() == [
        (46 + r) * 208 + 160 + 16 * c for r in range(4) for c in range(3)
    ]
    columns, base = launch(LOAD_BOX.format(bytes=1024, column=-16, row=-15), map=box)
    assert (columns.addresses[:2] - base).tolist() == [0, 16]


def test_a_tensor_map_with_another_rank_is_refused():
    flat = tensor_map(1 << 30, "f16", shape=(512,), strides=(), box=(32,))
    with pytest.raises(TraceError, match="the tensor map describes no tensor of this rank"):
        launch(LOAD_BOX.format(bytes=64, column=0, row=0), map=flat)


def test_a_box_outside_its_array_is_refused():
    far = tensor_map(1 << 40, "f16", shape=(50, 100), strides=(208,), box=(16, 32))
    with pytest.raises(TraceError, match=r"cp\.async\.bulk\.tensor.* at address 0x10000000000"):
        launch(LOAD_BOX.format(bytes=1024, column=0, row=0), map=far)


def test_a_box_is_stored_and_reduced_row_by_row():
    body = """mov.b64 %rd5, map; mov.u32 %r4, 0; mov.u32 %r5, 8;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd5, {%r4, %r5}], [%r9];
    @%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd5, {%r4, %r5}], [%r9];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"""
    columns, base = launch(body, map=box)
    assert columns.op.tolist() == [Op.STORE] * 2 + [Op.ATOMIC] * 2
    assert (columns.addresses[:64] - base).tolist() == [(8 + r) * 208 + 16 * c for r in range(16) for c in range(4)]
    with pytest.raises(TraceError, match="stores a result that depends on a value that is not computed"):
        launch(body, map=box, values=True)


def test_a_kernel_can_make_its_tensor_map():
    fields = [
        ("global_address", "b64", "", "%x"), ("rank", "b32", "", "1"), ("elemtype", "b32", "", "6"),
        ("global_dim", "b32", "0, ", "100"), ("global_dim", "b32", "1, ", "50"), ("box_dim", "b32", "0, ", "32"),
        ("box_dim", "b32", "1, ", "16"), ("global_stride", "b64", "0, ", "208"), ("element_stride", "b32", "0, ", "1"),
        ("element_stride", "b32", "1, ", "1"), ("swizzle_mode", "b32", "", "3"), ("fill_mode", "b32", "", "0"),
        ("interleave_layout", "b32", "", "0"),
    ]  # fmt: skip
    body = "".join(
        f"@%p1 tensormap.replace.tile.{field}.shared::cta.b1024.{type} [s], {index}{value};\n"
        for field, type, index, value in fields
    )
    body += """add.s64 %rd5, %x, 32768;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd5], [%r9], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd5], 128;"""
    made, base = launch(body + LOAD_BOX.format(bytes=1024, column=32, row=16).replace(PARAMETER, ""))
    given, _ = launch(LOAD_BOX.format(bytes=1024, column=32, row=16), map=box)
    assert made.op.tolist() == [Op.STORE, *given.op.tolist()]
    assert made.addresses.tolist() == [base + 32768 + 4 * t for t in range(32)] + given.addresses.tolist()


def test_a_bulk_copy_is_recorded_in_pieces_of_sixteen_bytes():
    body = """@%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 1040;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x], 1040, [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%x], [s], 32;"""
    columns, base = launch(body)
    assert columns.op.tolist() == [Op.BARRIER, *[Op.LOAD] * 3, Op.STORE]
    assert columns.mask.tolist()[1:] == [0xFFFFFFFF, 0xFFFFFFFF, 1, 3]
    assert (columns.addresses - base).tolist() == [*range(0, 1040, 16), 0, 16]


def test_shared_memory_is_filled_with_zeros():
    x = np.arange(64, dtype=np.uint32)
    body = """shl.b32 %r2, %r1, 2; add.u32 %r3, %r9, %r2; st.shared.u32 [%r3], 77; bar.sync 0;
    @%p1 st.bulk.weak.shared::cta [s+8], 64, 0; bar.sync 0;
    ld.shared.u32 %r4, [%r3]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %x, %rd3; st.global.u32 [%rd4], %r4;"""
    columns, _ = launch(body, x, values=True)
    assert x[:32].tolist() == [77] * 2 + [0] * 16 + [77] * 14
    assert columns.op.tolist() == [Op.BARRIER, Op.BARRIER, Op.STORE]


UPDATE = """@%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 16;
    @%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s], [s+64], 16, [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;"""
"""An update of 16 bytes of shared memory."""

ADDRESS_IN_SHARED = (
    "ld.shared.u32 %r2, [s+{}]; cvt.u64.u32 %rd3, %r2; add.s64 %rd3, %x, %rd3; ld.global.u32 %r2, [%rd3];"
)


def test_an_update_in_shared_memory_completes_its_bytes_and_leaves_no_values():
    assert launch(UPDATE + ADDRESS_IN_SHARED.format(16))[0].op.tolist() == [Op.BARRIER, Op.LOAD]
    with pytest.raises(TraceError, match=r"ld\.shared\.u32 in PTX line \d+ <- cp\.reduce\.async\.bulk"):
        launch(UPDATE + ADDRESS_IN_SHARED.format(12))


def test_zeros_take_the_place_of_values_that_are_not_computed():
    clear = "@%p1 st.bulk.shared::cta [s], 16, 0; bar.sync 0;"
    assert launch(UPDATE + clear + ADDRESS_IN_SHARED.format(12))[0].op.tolist() == [Op.BARRIER, Op.BARRIER, Op.LOAD]


def test_zeros_beyond_shared_memory_are_refused():
    with pytest.raises(TraceError, match=r"st\.bulk\S* at offset \d+ of shared memory"):
        launch("@%p1 st.bulk.weak.shared::cta [s], 1048576, 0;")


def test_a_copy_that_cannot_be_followed_stops_with_its_name():
    copy = (
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [s], [%x, {0, 0, 0}], [m];"
    )
    with pytest.raises(TraceError, match=r"PTX line \d+: cp\.\S*async\.bulk\.\S+ cannot be executed"):
        launch(copy)


def test_only_copies_that_make_an_access_are_no_instructions_of_their_own():
    # Between the accesses lie the predicate, the copy or the zeros, and the address of the next load.
    load = "ld.global.u32 %r2, [%out];"
    ready = "@%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;"
    gaps = {
        "": 1,
        "@%p1 st.bulk.weak.shared::cta [s], 64, 0;": 2,
        "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s+64], 32, [m];": 2,
        "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x], 0, [m];": 2,
    }
    for body, gap in gaps.items():
        columns, _ = launch(f"{ready} {body} add.u32 %r3, %r1, 1; {load}")
        assert (columns.op.tolist(), columns.gap.tolist()[1:]) == ([Op.BARRIER, Op.LOAD], [gap])
    copy = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x], 528, [m];"
    columns, _ = launch(f"{ready} add.u32 %r3, %r1, 1; {copy} add.u32 %r3, %r1, 1; {load}")
    assert columns.op.tolist() == [Op.BARRIER, Op.LOAD, Op.LOAD, Op.LOAD]
    assert columns.gap.tolist()[1:] == [1, 0, 1]
