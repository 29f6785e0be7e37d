"""Test whole PTX kernels: results against NumPy, accesses against the same kernels in Python."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tracegen
from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.trace import Op, Space
from rdmodel.trace.expansion import expand
from tests.support.ptx_kernels import module_of, read_kernel, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace

RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return RNG.random(shape).astype(dtype)


# ---- results


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000])
def test_saxpy(n):
    x, y = random(n), random(n)
    wanted = np.float64(1.5) * x + y
    run_kernel(read_kernel("saxpy"), "saxpy", -(-n // 96), 96, [n, 1.5, x, y])
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


@pytest.mark.parametrize(("ni", "nj", "nk"), [(8, 32, 5), (13, 37, 11), (1, 1, 1), (16, 64, 0)])
def test_gemm(ni, nj, nk):
    a, b, c = random(ni, nk + 1)[:, :nk].copy(), random(nk + 1, nj)[:nk].copy(), random(ni, nj)
    wanted = 1.5 * (a.astype(np.float64) @ b) + 2.5 * c
    run_kernel(read_kernel("gemm"), "gemm", (-(-nj // 32), -(-ni // 8)), (32, 8), [a, b, c, 1.5, 2.5, ni, nj, nk])
    np.testing.assert_allclose(c, wanted, rtol=1e-5)


def test_tiled_product_in_shared_memory():
    a, b, c = random(24, 24), random(24, 24), np.zeros((24, 24), np.float32)
    columns = run_kernel(read_kernel("tiled"), "tiled", (3, 3), (8, 8), [a, b, c, 24])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5)
    assert (columns[0].op == Op.BARRIER).sum() == 2 * 2 * 3
    assert set(columns[0].space.tolist()) == {Space.GLOBAL}


@pytest.mark.parametrize(("n", "block"), [(1000, 256), (64, 64), (7, 128), (2048, 1024)])
def test_reduction_by_tree_shuffle_and_atomic(n, block):
    x, out = RNG.integers(0, 1000, n, dtype=np.uint32), np.zeros(1, np.uint32)
    run_kernel(read_kernel("reduce"), "reduce", -(-n // block), block, [x, out, n], shared=4 * block)
    assert out[0] == x.sum()


def test_transpose_through_generic_addresses_of_shared_memory():
    x, out = random(16, 16, dtype=np.float64), np.zeros((16, 16))
    columns = run_kernel(read_kernel("transpose"), "transpose", (2, 2), (8, 8), [x, out, 16])
    np.testing.assert_array_equal(out, x.T)
    assert (columns[0].size[columns[0].op != Op.BARRIER] == 8).all()


def spmv_arguments(rows=100, columns=80):
    matrix = scipy.sparse.random_array((rows, columns), density=0.1, rng=RNG, dtype=np.float32, format="csr")
    x, y = random(columns), np.zeros(rows, np.float32)
    indices = [matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)]
    return matrix, x, y, [rows, *indices, matrix.data.copy(), x, y]


@pytest.mark.parametrize("block", [32, 48, 256])
def test_sparse_product_with_rows_of_many_lengths(block):
    matrix, x, y, args = spmv_arguments()
    run_kernel(read_kernel("spmv"), "spmv", -(-100 // block), block, args)
    np.testing.assert_allclose(y, matrix @ x, rtol=1e-5)


def test_what_lanes_do_in_a_diverged_loop_is_the_accesses_of_their_rows():
    matrix, _, _, args = spmv_arguments()
    (columns,) = run_kernel(read_kernel("spmv"), "spmv", 1, 128, args)
    row_loads = np.bitwise_count(columns.mask[columns.op == Op.LOAD]).sum()
    assert row_loads == 2 * 100 + 3 * matrix.nnz


# ---- only what decides


def test_a_kernel_is_data_dependent_if_loaded_values_reach_an_address_or_a_branch():
    def dependent(name, args, **options):
        machine = LoadedModule(module_of(read_kernel(name)))
        given = [machine.allocate(a, "a") if isinstance(a, np.ndarray) else a for a in args]
        return machine.launch(name, 1, 32, given, **options).data_dependent

    x = np.zeros(64, np.float32)
    assert not dependent("saxpy", [64, 1.0, x, x.copy()])
    assert not dependent("reduce", [x, x.copy(), 64])
    assert dependent("spmv", spmv_arguments()[3])


@pytest.mark.parametrize("name", ["saxpy", "gemm", "spmv", "reduce"])
def test_addresses_are_the_same_without_the_values(name):
    arguments = {
        "saxpy": (4, 64, lambda: [200, 2.0, random(200), random(200)]),
        "gemm": ((2, 2), (32, 8), lambda: [random(99), random(320), random(352), 1.0, 2.0, 11, 32, 9]),
        "reduce": (2, 128, lambda: [np.arange(256, dtype=np.uint32), np.zeros(1, np.uint32), 250]),
        "spmv": (2, 64, lambda: fixed),
    }
    fixed = spmv_arguments()[3]
    grid, block, make = arguments[name]
    args = make()
    full = run_kernel(
        read_kernel(name), name, grid, block, [a.copy() if isinstance(a, np.ndarray) else a for a in args], shared=512
    )
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    bare = run_kernel(read_kernel(name), name, grid, block, args, shared=512, values=False)
    for one, other in zip(full, bare, strict=True):
        for column in ("pc", "op", "space", "size", "gap", "needs", "mask", "addresses", "warp_start"):
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column))
    # A kernel that reads addresses from memory might read what it has stored itself: its stores are needed.
    for old, new in zip(before, args, strict=True):
        assert name == "spmv" or np.array_equal(old, new)


# ---- streams


def stream(trace):
    """The (op, addresses) of every warp, without the barriers."""
    for block in trace.blocks:
        columns = trace.block(block)
        columns = columns if hasattr(columns, "addresses") else expand(columns, trace.launch.block_warps)
        for w in range(columns.warps):
            rows = range(columns.warp_start[w], columns.warp_start[w + 1])
            starts = columns.address_start
            yield [(int(columns.op[r]), columns.addresses[starts[r] : starts[r + 1]].tolist()) for r in rows]


def check_stream(reference, kernel, arrays, numbers):
    """Check that `kernel`, with buffers at the addresses of the reference, makes the same accesses as the reference."""
    machine = LoadedModule(module_of(read_kernel(kernel)))
    buffers = {array.name: machine.allocate(array.bytes, array.name) for array in reference.launch.arrays}
    given = [buffers[name] for name in arrays]
    launched = machine.launch(kernel, reference.launch.grid, reference.launch.block, [*given, *numbers], values=False)
    assert launched.launch.arrays == reference.launch.arrays
    for one, other in zip(stream(EmulatedTrace(launched)), stream(reference), strict=True):
        assert one == other


def test_the_stream_of_gemm_is_that_of_the_kernel_in_python():
    ni, nj, nk = 13, 37, 6
    check_stream(tracegen.kernel("gemm", NI=ni, NJ=nj, NK=nk), "gemm", "abc", [1.0, 2.0, ni, nj, nk])


def test_the_stream_of_atax_is_that_of_the_kernel_in_python():
    check_stream(tracegen.kernel("atax.1", NX=300, NY=9), "atax", ["A", "x", "tmp"], [300, 9])


# ---- dependences


def needs_of(text, kernel, args, block=32):
    machine = LoadedModule(module_of(text))
    given = [machine.allocate(a, f"a{i}") if isinstance(a, np.ndarray) else a for i, a in enumerate(args)]
    columns = machine.launch(kernel, 1, block, given).run(0)
    return [int(n) for n in columns.needs], columns


def test_a_store_waits_for_the_loads_of_its_value_and_a_load_for_those_of_its_address():
    needs, columns = needs_of(read_kernel("saxpy"), "saxpy", [32, 1.0, random(32), random(32)])
    assert columns.op.tolist() == [Op.LOAD, Op.LOAD, Op.STORE]
    assert needs == [0, 0, 0b11]
    args = [1, np.array([0, 2], np.int32), np.array([1, 0], np.int32), random(2), random(2), random(1)]
    needs, columns = needs_of(read_kernel("spmv"), "spmv", args)
    # Bounds; then column, value and x[column] twice. Columns have been waited for when the sum is stored.
    assert needs == [0, 0, 0b11, 0, 0b10, 0, 0, 0b10, 0b11011]


def test_a_sum_in_a_register_is_waited_for_after_each_unrolled_body():
    text = """.visible .entry k(.param .u64 x) {
        .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .b32 %r<3>; .reg .pred %p;
        ld.param.u64 %rd1, [x]; mov.b64 %rd2, %rd1; mov.f32 %f1, 0f00000000; mov.u32 %r1, 0;
        L: ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2; add.s64 %rd2, %rd2, 4;
        add.s32 %r1, %r1, 1; setp.lt.s32 %p, %r1, 5; @%p bra L;
        st.global.f32 [%rd1], %f1; st.global.f32 [%rd1+4], %f1; ret; }"""
    needs, _ = needs_of(text, "k", [random(5)])
    assert needs == [0, 0, 0, 0, 0b1111, 0b1, 0]


def test_waits_of_branches_go_to_the_next_access_and_those_of_shared_stores_to_the_barrier():
    text = """.visible .entry k(.param .u64 x) {
        .shared .b32 s[32]; .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .pred %p;
        ld.param.u64 %rd1, [x]; mov.u32 %r4, s;
        ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; st.shared.u32 [%r4], %r1;
        ld.global.u32 %r3, [%rd1+8]; setp.eq.u32 %p, %r2, 77; @%p bra L;
        L: bar.sync 0; ld.global.u32 %r3, [%rd1+12]; ret; }"""
    needs, columns = needs_of(text, "k", [np.zeros(4, np.uint32)])
    assert columns.op.tolist() == [Op.LOAD, Op.LOAD, Op.LOAD, Op.BARRIER, Op.LOAD]
    assert needs == [0, 0, 0, 0b110, 0]


def test_what_reads_shared_memory_waits_for_what_was_stored_there():
    text = """.visible .entry k(.param .u64 x) {{
        .shared .b32 s[32]; .reg .b64 %rd<3>; .reg .b32 %r<5>; ld.param.u64 %rd1, [x]; mov.u32 %r4, s;
        ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; st.shared.u32 [%r4], %r1; {0}
        st.global.u32 [%rd1+8], 5; bar.sync 0; ret; }}"""
    reads = {"ld.shared.u32 %r3, [%r4];": 0b10, "atom.shared.add.u32 %r3, [%r4], %r2;": 0b11, "": 0}
    for instruction, first in reads.items():
        needs, _ = needs_of(text.format(instruction), "k", [np.zeros(4, np.uint32)])
        assert needs == [0, 0, first, 0 if first else 0b100]


def test_registers_written_by_some_lanes_depend_on_the_loads_of_all():
    text = """.visible .entry k(.param .u64 x) {
        .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .pred %p;
        ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; setp.lt.u32 %p, %r1, 16;
        @%p ld.global.u32 %r2, [%rd1]; @!%p ld.global.u32 %r2, [%rd1+4];
        st.global.u32 [%rd1+8], %r2; ret; }"""
    needs, columns = needs_of(text, "k", [np.zeros(4, np.uint32)])
    assert columns.mask.tolist() == [0xFFFF, 0xFFFF0000, 0xFFFFFFFF]
    assert needs == [0, 0, 0b11]


def test_gaps_count_the_instructions_between():
    text = """.visible .entry k(.param .u64 x) {
        .reg .b64 %rd<3>; .reg .b32 %r<5>;
        ld.param.u64 %rd1, [x]; ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; mul.lo.u32 %r2, %r2, %r2;
        st.global.u32 [%rd1], %r2; bar.sync 0; add.u32 %r1, %r1, 1; ld.global.u32 %r2, [%rd1]; ret; }"""
    _, columns = needs_of(text, "k", [np.zeros(4, np.uint32)])
    assert columns.gap.tolist() == [0, 2, 0, 1]


# ---- broken texts


@pytest.mark.parametrize("name", ["saxpy", "gemm", "tiled", "reduce", "transpose", "spmv"])
def test_mutated_texts_give_an_error_or_a_result(name):
    rng = np.random.default_rng(3)
    lines = read_kernel(name).split("\n")
    words = sorted({word for line in lines for word in line.replace(",", " ").split()} | {"-1", str(1 << 63), "0"})
    for _ in range(150):
        mutated = list(lines)
        for at in rng.integers(0, len(lines), 2):
            parts = mutated[at].split(" ")
            parts[rng.integers(0, len(parts))] = words[rng.integers(0, len(words))]
            mutated[at] = " ".join(parts)
        message = outcome("\n".join(mutated))
        assert "\n" not in message


def outcome(text):
    """Execute the kernel of a text; the error's message, if there is one."""
    try:
        machine = LoadedModule(module_of(text))
        for kernel in machine.module.kernels:
            parameters = machine.module.functions[kernel].parameters
            args = [machine.allocate(512, p.name) if p.type == "u64" else 8 for p in parameters]
            machine.launch(kernel, 1, (8, 8), args, shared=256, max_instructions=2000).run(0).check()
    except RdmodelError as error:
        return str(error)
    return ""


# ---- traces


def test_blocks_are_executed_on_demand():
    x, y = random(256), random(256)
    old = y.copy()
    machine = LoadedModule(module_of(read_kernel("saxpy")))
    trace = EmulatedTrace(
        machine.launch("saxpy", 4, 64, [256, 1.0, machine.allocate(x, "x"), machine.allocate(y, "y")])
    )
    np.testing.assert_array_equal(y, old)
    first = trace.block(2)
    assert trace.block(2) is first
    np.testing.assert_array_equal(np.flatnonzero(y != old) // 64, np.full(64, 2))
    first.check()
    with pytest.raises(ValueError, match="holds 1 of 4"):
        EmulatedTrace(trace.launched, [3]).block(2)
    assert len(EmulatedTrace(trace.launched, [1, 3])) == 2 * 2 * 3
    assert "grid=(4, 1, 1)" in repr(trace)


@pytest.mark.parametrize("limit", [0, -1, 1 << 63, 10**20, 1.5, True])
def test_a_limit_of_instructions_that_cannot_be_is_refused(limit):
    with pytest.raises(ConfigError, match=r"max_instructions="):
        run_kernel(read_kernel("saxpy"), "saxpy", 1, 32, [1, 1.5, random(1), random(1)], max_instructions=limit)
