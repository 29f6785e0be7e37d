"""Every instruction of matrices, asynchronous copies and cache hints runs, with the accesses counted here by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import Op
from tracegen.ptx import parse
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.tensor_map import tensor_map

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
REGISTERS = """
    .reg .b64 %rd<20>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .f64 %d<8>; .reg .b16 %h<20>; .reg .pred %p<8>;
    .reg .b64 %x, %map; .reg .b128 %q<4>;
    .shared .align 128 .b8 s[8192]; .shared .align 8 .b64 m[4];
    ld.param.u64 %x, [x]; mov.b64 %map, map; cvta.param.u64 %map, %map;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 64; add.s64 %rd2, %x, %rd1;
    mov.u32 %r9, s; mad.lo.u32 %r10, %r1, 16, %r9; mov.u64 %rd18, s; mov.u32 %r30, m;
    setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;
"""
LETTERS = {Op.LOAD: "L", Op.STORE: "S", Op.ATOMIC: "A"}


def machine_of(body: str, *, bytes_of_x: int = 1 << 14):
    """Return a launch of k(x, map): %rd2 is the address of x + 64 thread, %r10 of s + 16 thread."""
    parameters = ".param .u64 x, .param .align 64 .b8 map[128]"
    machine = LoadedModule(parse(f"{HEAD}.visible .entry k({parameters})\n{{{REGISTERS}{body}\nret;\n}}", "k"))
    x = machine.allocate(np.zeros(bytes_of_x, np.uint8), "x")
    return machine, x, tensor_map(x.base, "f32", shape=(8, 16), strides=(64,), box=(2, 16))


def columns_of(body: str, *, values: bool = False):
    machine, x, map = machine_of(body)
    return machine.launch("k", 1, 32, [x, map], values=values, max_instructions=10**5).run(0), x


def accesses(body: str) -> str:
    """The accesses of a warp, such as ``L4 S16`` for a load of 4 bytes per lane and a store of 16."""
    columns, _ = columns_of(body)
    kinds = zip(columns.op.tolist(), columns.size.tolist(), strict=True)
    return " ".join(f"{LETTERS[op]}{size}" for op, size in kinds if op != Op.BARRIER)


@pytest.mark.parametrize(
    ("wanted", "instruction"),
    [
        # Fragments: 16 x 16 elements of 2 bytes are 512 bytes, which 32 lanes load in four accesses of 4 bytes.
        ("L4 L4 L4 L4", "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 <r8>, [%x], 16;"),
        ("L8 L8 L8 L8", "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 <f8>, [%x], 16;"),
        ("S8 S8 S8 S8", "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%x], <f8>, 16;"),
        ("L8", "wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%d1}, [%x], 4;"),
        ("L4 L4 L4 L4", "wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 <r4>, [%x], 8;"),
        ("L4", "wmma.load.a.sync.aligned.row.m8n8k128.global.b1 {%r2}, [%x], 128;"),
        ("L4 L4", "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r2,%r3}, [%x], 16;"),
        # Packed and vector atomics, whose type stands last or before the operation.
        ("A16", "atom.global.v4.f32.add <f4>, [%rd2], <f4>;"),
        ("A16", "atom.global.add.v4.f32 <f4>, [%rd2], <f4>;"),
        ("A4", "atom.global.add.noftz.f16x2 %r2, [%rd2], %r3;"),
        ("A8", "atom.global.v2.f16x2.add.noftz {%r2,%r3}, [%rd2], {%r2,%r3};"),
        ("A2", "atom.global.add.noftz.bf16 %h1, [%rd2], %h2;"),
        (
            "A16",
            "atom.global.v8.bf16.max.noftz <h8>, [%rd2], <h8>;",
        ),
        ("A4", "red.global.add.noftz.f16x2 [%rd2], %r3;"),
        ("A8", "red.global.v2.f32.add [%rd2], {%f1,%f2};"),
        ("A4", "red.async.relaxed.cluster.global.add.u32 [%rd2], %r3;"),
        ("S4", "st.async.weak.global.u32 [%rd2], %r3;"),
        ("A4", "red.relaxed.gpu.global.add.L2::cache_hint.u32 [%rd2], %r3, %rd9;"),
        ("A16", "atom.global.cas.b128 %q1, [%rd2], %q2, %q3;"),
        ("A16", "atom.global.exch.b128 %q1, [%rd2], %q2;"),
        # Asynchronous copies; every one of 32 lanes issues a bulk copy of its own.
        ("L4", "cp.async.ca.shared.global [%r10], [%rd2], 4;"),
        ("L16", "cp.async.cg.shared.global.L2::256B [%r10], [%rd2], 16, 8;"),
        ("L16", "cp.async.ca.shared.global.L2::cache_hint [%r10], [%rd2], 16, %rd9;"),
        ("L16", "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [%x], 64, [m];"),
        ("L16 L16", "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [%x], 1024, [m];"),
        ("S16", "@%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%x], [%r9], 64, %h1;"),
        ("A16", "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%x], [%r9], 64;"),
        (
            "L16",
            "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::1 "
            "[%r9], [%map, {%r2,%r3}], [m];",
        ),
        ("A16", "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {%r2,%r3}], [%r9];"),
        ("S8", "@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%x], %rd3;"),
        # Cache hints; vectors of 32 bytes are two accesses of 16.
        ("L4", "ld.global.L2::128B.u32 %r2, [%rd2];"),
        ("L16", "ld.global.L1::evict_last.L2::evict_first.L2::64B.v4.f32 <f4>, [%rd2];"),
        ("L16 L16", "ld.global.L2::evict_last.v8.f32 <f8>, [%rd2];"),
        ("L16 L16", "ld.global.nc.L1::no_allocate.L2::evict_first.v4.b64 <rd4>, [%rd2];"),
        ("S16 S16", "st.global.L2::evict_last.v8.b32 [%rd2], <r8>;"),
        ("S4", "st.global.L1::no_allocate.L2::cache_hint.u32 [%rd2], %r2, %rd9;"),
        ("L16 S16", "ld.global.b128 %q1, [%rd2]; st.global.b128 [%rd2+16], %q1;"),
        ("L4", "ld.global.unified.u32 %r2, [%rd2];"),
        ("L4", "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd2];"),
        # Within the shared memory, hints, and registers: no access is recorded.
        ("", "cp.async.bulk.prefetch.L2.global [%x], 64;"),
        ("", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {%r2,%r3}];"),
        ("", "@%p1 st.bulk.weak.shared::cta [%r9], 64, 0;"),
        (
            "",
            "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
            "[%r9], [%r9], 64, [m];",
        ),
        ("", "cvt.rn.f16x2.f32 %r2, %f1, %f2;"),
        ("", "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;"),
        ("", "cvt.rn.f16x2.e5m2x2 %r2, %h1;"),
        ("", "cvt.rn.bf16.f32 %h1, %f1;"),
        ("", "cvt.rn.relu.bf16x2.f32 %r2, %f1, %f2;"),
        ("", "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;"),
        ("", "cvt.rna.tf32.f32 %r2, %f1;"),
        ("", "cvt.rn.satfinite.e3m2x2.f32 %h1, %f1, %f2;"),
        ("", "cvt.pack.sat.s16.s32 %r2, %r3, %r4;"),
        ("", "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 <f4>, <r4>, <r4>, <f4>, %r12, 0x0;"),
        ("", "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
             "<f4>, <r4>, {%r6,%r7}, <f4>, %r8, {0, 1}, %r9, {0, 1};"),
        ("", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d1,%d2};"),
        ("", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 <f4>, <r4>, %rd7, %p1, 1, 1, 0;"),
        ("", "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r2,%r3}, [%r10];"),
        ("", "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r2}, [%r10];"),
        ("", "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r10], {%r2};"),
        ("", "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %rd3, [%x], 0x100, 0x200;"),
        ("", "createpolicy.cvt.L2.b64 %rd3, 0x10; applypriority.global.L2::evict_normal [%x], 128; prefetchu.L1 [%x];"),
        ("", "prefetch.global.L2::evict_last [%x]; prefetch.tensormap [%map]; discard.global.L2 [%x], 128;"),
        ("", "elect.sync _|%p2, 0xffffffff; setmaxnreg.dec.sync.aligned.u32 40; griddepcontrol.launch_dependents;"),
        ("", "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r30], 0;"),
        ("", "mbarrier.pending_count.b64 %r2, %rd3;"),
        ("", "redux.sync.min.f32 %f1, %f2, -1; fma.rn.f32x2 %rd3, %rd4, %rd5, %rd6; max.NaN.f32 %f1, %f2, %f3, %f4;"),
        ("", "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r2, [%r30];"),
        ("", "mov.u32 %r2, %cluster_ctaid.x; mov.u32 %r3, %nclusterid.x; mov.u32 %r4, %dynamic_smem_size;"),
    ],
)  # fmt: skip
def test_an_instruction_makes_its_accesses(wanted, instruction):
    assert accesses(re.sub(r"<([a-z]+)(\d)>", vector, instruction)) == wanted


def vector(found: re.Match[str]) -> str:
    """The registers of ``<f4>``, from number 11 on."""
    return "{" + ", ".join(f"%{found[1]}{at}" for at in range(11, 11 + int(found[2]))) + "}"


@pytest.mark.parametrize(
    ("access", "registers"),
    [("v8.u32", "%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r11"), ("v4.u64", "%rd2,%rd3,%rd4,%rd5")],
)
def test_the_halves_of_a_vector_of_32_bytes_lie_side_by_side(access, registers):
    # The second vector overwrites the register of its address.
    body = f"ld.global.{access} {{{registers}}}, [%rd2]; st.global.{access} [%x+4096], {{{registers}}};"
    machine, x, map = machine_of(body)
    x.array[:] = np.arange(len(x.array)) % 251
    columns = machine.launch("k", 1, 32, [x, map], values=True).run(0)
    lanes = 64 * np.arange(32)
    assert columns.addresses[:32].tolist() == (x.base + lanes).tolist()
    assert columns.addresses[32:64].tolist() == (x.base + lanes + 16).tolist()
    last = 64 * 31
    assert x.array[4096 : 4096 + 32].tolist() == x.array[last : last + 32].tolist()


def test_rows_of_matrices_of_bytes_are_checked_and_spoil_what_they_are_stored_to():
    with pytest.raises(TraceError, match=r"ldmatrix\.sync\.aligned\.m16n16\.x1\.trans\.shared\.b8 of 16 bytes"):
        accesses("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r2,%r3}, [%r10+16384];")
    use = "cvt.u64.u32 %rd3, %r5; and.b64 %rd3, %rd3, 3; add.s64 %rd4, %x, %rd3; ld.global.u8 %r6, [%rd4];"
    stored = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r4}, {%r2,%r3};"
    stored += "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r10], {%r2};"
    with pytest.raises(TraceError, match="depends on a value that is not computed"):
        accesses(f"{stored} ld.shared.u32 %r5, [s]; {use}")
    assert accesses(f"{stored} ld.shared.u32 %r5, [s+128]; {use}") == "L1"  # the rows are those of eight lanes
    with pytest.raises(TraceError, match="depends on a value that is not computed"):
        accesses(f"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {{%r5,%r3}}, [%r10]; {use}")


def test_no_block_takes_over_the_work_of_another_one():
    body = """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r9], [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;
    ld.shared.b128 %q1, [%r9]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;
    @%p2 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2,%r3,%r4,_}, %q1;
    @%p2 ld.global.u32 %r5, [%rd2]; @!%p2 st.global.u32 [%rd2], 1;"""
    assert accesses(body) == "S4"


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r9], [%x, {0, 0, 0}], "
        "[m];",
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
        "[%r9], [m];",
    ],
)
def test_an_instruction_that_is_not_executed_stops_with_its_name(instruction):
    with pytest.raises(TraceError, match=f"{instruction.split()[0]} cannot be executed"):
        accesses(instruction)
