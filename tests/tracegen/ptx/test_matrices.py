"""Instructions on matrices that a warp holds together: exact accesses, exact moves, products without values."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import Op
from tests.support.ptx_kernels import HEAD, run_kernel
from tracegen.ptx.lowering.fragments import fragment_tiles

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<33>; .reg .f32 %f<9>; .reg .b16 %h<5>; .reg .pred %p<5>; .reg .b64 %out;
    .shared .align 16 .b8 s[4096];
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 16;
    add.s64 %out, %rd1, %rd2;
    mov.u32 %r9, s;
    mad.lo.u32 %r10, %r1, 16, %r9;
"""


def kernel(body: str) -> str:
    """A kernel k(x): %r1 is the thread, %out the 16 bytes x[4 thread], %r9 shared memory, %r10 16 bytes per thread."""
    return f"{HEAD}.visible .entry k(.param .u64 x)\n{{{REGISTERS}{body}\n ret;\n}}"


def run(body: str, given=None, threads: int = 32) -> np.ndarray:
    """Return x, (threads, 4) words, after the body; it is `given` before."""
    x = np.zeros(threads * 4, np.uint32) if given is None else given.copy()
    run_kernel(kernel(body), "k", 1, threads, [x])
    return x.reshape(threads, 4)


def columns_of(body: str, size: int = 1 << 16, threads: int = 32):
    return run_kernel(kernel(body), "k", 1, threads, [np.zeros(size, np.uint8)], values=False)[0]


# ---- matrices in shared memory

MATRICES = np.arange(4 * 8 * 8, dtype=np.uint16).reshape(4, 8, 8)
"""Four matrices of 16-bit elements; thread t has row t % 8 of matrix t / 8 in its words."""

FILL = "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%out]; st.shared.v4.u32 [%r10], {%r2, %r3, %r4, %r5};"


def fragment(matrix: np.ndarray) -> np.ndarray:
    """Return what the lanes hold of a matrix: the two elements at row t / 4 and columns 2 (t % 4), as one word."""
    return np.ascontiguousarray(matrix).view(np.uint32).reshape(32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_each_lane_its_elements(count, transposed):
    registers = ", ".join(f"%r{12 + i}" for i in range(count))
    trans = ".trans" if transposed else ""
    body = f"""{FILL} mov.u32 %r12, 0; mov.u32 %r13, 0; mov.u32 %r14, 0; mov.u32 %r15, 0; bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r10];
    st.global.v4.u32 [%out], {{%r12, %r13, %r14, %r15}};"""
    found = run(body, MATRICES.view(np.uint32).reshape(-1))
    for i in range(4):
        matrix = MATRICES[i].T if transposed else MATRICES[i]
        assert found[:, i].tolist() == (fragment(matrix).tolist() if i < count else [0] * 32)


@pytest.mark.parametrize("transposed", [False, True])
def test_stmatrix_is_the_inverse_of_ldmatrix(transposed):
    trans = ".trans" if transposed else ""
    body = f"""ld.global.v4.u32 {{%r12, %r13, %r14, %r15}}, [%out];
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r10], {{%r12, %r13, %r14, %r15}};
    ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r10]; st.global.v4.u32 [%out], {{%r2, %r3, %r4, %r5}};"""
    held = np.stack([fragment(m.T if transposed else m) for m in MATRICES], axis=1)
    assert (run(body, held.reshape(-1)) == MATRICES.view(np.uint32).reshape(32, 4)).all()


def test_movmatrix_transposes():
    body = """ld.global.u32 %r2, [%out]; movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2; st.global.u32 [%out], %r3;"""
    x = np.zeros((32, 4), np.uint32)
    x[:, 0] = fragment(MATRICES[0])
    assert run(body, x.reshape(-1))[:, 0].tolist() == fragment(MATRICES[0].T).tolist()


@pytest.mark.parametrize("values", [True, False])
def test_a_row_of_ldmatrix_outside_shared_memory_is_refused(values):
    body = "add.u32 %r10, %r10, 3840; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r10];"
    with pytest.raises(TraceError, match=r"ldmatrix.* at offset 4096 of shared memory .*thread \(16, 0, 0\)"):
        run_kernel(kernel(body), "k", 1, 32, [np.zeros(128, np.uint32)], values=values)
    # The rows of x1 come from the first eight lanes; the addresses of the others do not matter.
    run(body.replace("x4", "x1").replace("%r2, %r3, %r4, %r5", "%r2"))


# ---- products


@pytest.mark.parametrize(
    "product",
    [
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd3, %rd4}, {%rd5}, {%rd6}, {%rd3, %rd4};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8},"
        " {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8},"
        " {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};",
        "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd3, %rd4,"
        " 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "fma.rn.bf16x2 %r2, %r3, %r4, %r5; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
    ],
)
def test_products_and_narrow_types_are_passed_over(product):
    assert columns_of(f"{product} st.global.f32 [%out], %f1;").op.tolist() == [Op.STORE]


def test_a_product_depends_on_the_loads_of_its_operands():
    body = """ld.global.u32 %r2, [%out]; ld.global.u32 %r3, [%out+4]; ld.global.u32 %r4, [%out+8];
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r2, %r1, %r1, %r1}, {%r3, %r1},
    {%f1, %f2, %f3, %f4}; st.global.f32 [%out], %f3;"""
    assert columns_of(body).needs.tolist() == [0, 0, 0, 0b110]  # not the load of %r4


# ---- fragments in memory


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("part", "shape", "bits"),
    [
        ("a", (16, 16, 16), 16),
        ("b", (32, 8, 16), 16),
        ("a", (16, 16, 16), 8),
        ("b", (16, 16, 8), 32),
        ("a", (8, 8, 4), 64),
        ("c", (16, 16, 16), 32),
        ("d", (8, 32, 16), 16),
        ("d", (8, 8, 4), 64),
    ],
)
def test_a_fragment_covers_every_byte_once(part, shape, bits, columns):
    m, n, k = shape
    height, width = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    runs, length = (width, height * bits // 8) if columns else (height, width * bits // 8)
    covered = np.zeros((runs, length), int)
    for tile in fragment_tiles(part, shape, bits, columns):
        for t in range(32):
            x, y = (t % 4, t // 4) if tile.crossed else (t // 4, t % 4)
            start = tile.offset + y * tile.bytes_per_step
            covered[tile.run + tile.runs_per_step * x, start : start + tile.bytes] += 1
    assert (covered == 1).all()


def test_wmma_loads_are_loads_of_the_fragments_of_mma():
    body = """wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], 64;
    wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, 32;"""
    columns = columns_of(body)
    base = int(columns.addresses.min())
    lane = np.arange(32)
    assert columns.op.tolist() == [Op.LOAD] * 4 + [Op.STORE] * 4
    assert columns.size.tolist() == [4] * 4 + [8] * 4
    expected = [r * 128 + 16 * c + lane // 4 * 128 + lane % 4 * 4 for r in (0, 8) for c in (0, 1)]
    expected += [r * 128 + 32 * c + lane // 4 * 128 + lane % 4 * 8 for r in (0, 8) for c in (0, 1)]
    assert (columns.addresses.reshape(8, 32) - base).tolist() == [row.tolist() for row in expected]
    assert columns.pc.tolist() == [columns.pc[0]] * 4 + [columns.pc[4]] * 4


# ---- conversions, reductions, elections


def test_two_numbers_become_one_register_of_halves():
    pairs = np.array([[1.0, -2.5], [65504.0, 1e9], [0.1, np.inf], [1e-8, -0.0]], np.float32)
    x = np.zeros((32, 4), np.uint32)
    x[:4, :2] = pairs.view(np.uint32)
    body = """ld.global.v2.u32 {%r2, %r3}, [%out]; mov.b32 %f1, %r2; mov.b32 %f2, %r3;
    cvt.rn.f16x2.f32 %r4, %f1, %f2; st.global.u32 [%out], %r4;"""
    with np.errstate(over="ignore"):
        wanted = pairs[:, ::-1].astype(np.float16).copy().view(np.uint32)[:, 0]
    assert run(body, x.reshape(-1))[:4, 0].tolist() == wanted.tolist()


def bfloats(numbers: np.ndarray) -> np.ndarray:
    """Return the upper halves of single-precision numbers, rounded to nearest even, by comparing both neighbours."""
    bits = numbers.view(np.uint32).astype(np.uint64)
    low, rest = bits >> np.uint64(16), bits & np.uint64(0xFFFF)
    up = (rest > 0x8000) | ((rest == 0x8000) & (low & np.uint64(1) == 1))
    return np.where(np.isnan(numbers), 0x7FFF, low + up)


def test_bfloat16_rounds_to_nearest_even():
    bits = np.array(
        [0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0xBF7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00001, 0x00000001, 0],
        np.uint32,
    )
    x = np.zeros((32, 4), np.uint32)
    x[: len(bits), 0] = bits
    body = """ld.global.u32 %r2, [%out]; mov.b32 %f1, %r2; cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r3, %h1;
    cvt.f32.bf16 %f2, %h1; cvt.rn.bf16x2.f32 %r4, %f1, %f2; cvt.rz.bf16.f32 %h2, %f1; cvt.u32.u16 %r5, %h2;
    mov.b32 %r6, %f2; st.global.v4.u32 [%out], {%r3, %r4, %r5, %r6};"""
    found = run(body, x.reshape(-1))[: len(bits)]
    rounded = bfloats(bits.view(np.float32))
    assert found[:, 0].tolist() == rounded.tolist()
    assert found[:, 1].tolist() == [int(v) << 16 | int(v) for v in rounded]
    assert found[:, 2].tolist() == [0x7FFF if (b & 0x7FFFFFFF) > 0x7F800000 else int(b) >> 16 for b in bits]
    assert found[:, 3].tolist() == [int(v) << 16 for v in rounded]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda v: int(v.sum()) % 2**32),
        ("min.s32", lambda v: int(v.view(np.int32).min()) % 2**32),
        ("max.s32", lambda v: int(v.view(np.int32).max()) % 2**32),
        ("min.u32", lambda v: int(v.min())),
        ("max.u32", lambda v: int(v.max())),
        ("and.b32", lambda v: int(np.bitwise_and.reduce(v))),
        ("or.b32", lambda v: int(np.bitwise_or.reduce(v))),
        ("xor.b32", lambda v: int(np.bitwise_xor.reduce(v))),
    ],
)
def test_redux_reduces_the_active_lanes_of_each_warp(operation, expected):
    x = np.random.default_rng(1).integers(0, 2**32, (64, 4), dtype=np.uint32)
    body = f"""ld.global.u32 %r2, [%out]; setp.ne.u32 %p1, %r1, 40; @!%p1 bra END;
    redux.sync.{operation} %r3, %r2, -1; st.global.u32 [%out], %r3; END: """
    found = run(body, x.reshape(-1), 64)[:, 0]
    assert set(found[:32].tolist()) == {expected(x[:32, 0])}
    rest = np.delete(np.arange(32, 64), 8)
    assert set(found[rest].tolist()) == {expected(x[rest, 0])}


def test_one_active_lane_of_a_warp_is_elected():
    body = """mov.u32 %r3, 9; mov.u32 %r4, 0; setp.lt.u32 %p1, %r1, 3; @%p1 bra END;
    elect.sync %r3|%p2, -1; selp.u32 %r4, 1, 0, %p2; END: st.global.v2.u32 [%out], {%r3, %r4};"""
    found = run(body, threads=64)
    assert np.flatnonzero(found[:, 1]).tolist() == [3, 32]
    assert found[3:32, 0].tolist() == [3] * 29
    assert found[32:, 0].tolist() == [0] * 32


# ---- atomics


@pytest.mark.parametrize(
    ("atomic", "size"),
    [
        ("atom.global.add.noftz.f16x2 %r2, [%out], %r3;", 4),
        ("red.global.add.noftz.f16 [%out], %h1;", 2),
        ("red.global.add.noftz.bf16x2 [%out], %r3;", 4),
        ("atom.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%out], {%f5, %f6, %f7, %f8};", 16),
        ("red.global.add.v2.f32 [%out], {%f5, %f6};", 8),
        ("multimem.red.global.add.f32 [%out], %f1;", 4),
    ],
)
def test_packed_and_vector_atomics_are_recorded(atomic, size):
    columns = columns_of(f"{atomic} st.global.f32 [%out], %f1;")
    assert columns.op.tolist() == [Op.ATOMIC, Op.STORE]
    assert columns.size.tolist() == [size, 4]
    assert columns.needs.tolist() == [0, 1 if "{%f1" in atomic else 0]


def test_a_packed_atomic_leaves_no_value_in_memory():
    body = """red.global.add.noftz.f16x2 [%out], %r3; ld.global.u32 %r2, [%out]; cvt.u64.u32 %rd3, %r2;
    add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r2, [%rd3];"""
    with pytest.raises(TraceError, match=r"ld\.global\.u32 in PTX line \d+ <- red\.global\.add\.noftz\.f16x2"):
        columns_of(body)


def test_an_atomic_takes_a_cache_policy():
    body = """createpolicy.fractional.L2::evict_last.b64 %rd3, 1.0;
    atom.global.add.L2::cache_hint.u32 %r2, [%out], %r1, %rd3; st.global.u32 [%out+4], %r2;"""
    assert run(body)[:, :2].tolist() == [[t, 0] for t in range(32)]


# ---- clusters


def test_blocks_know_their_place_in_their_cluster():
    text = f"""{HEAD}.visible .entry k(.param .u64 x) .explicitcluster .reqnctapercluster 2, 2, 1 {{
    .reg .b64 %rd<4>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 4, %r1;
    mul.wide.u32 %rd2, %r1, 16; add.s64 %rd1, %rd1, %rd2;
    mov.u32 %r3, %cluster_ctaid.x; mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, %clusterid.y;
    mov.u32 %r6, %cluster_nctarank; barrier.cluster.arrive; barrier.cluster.wait;
    st.global.v4.u32 [%rd1], {{%r3, %r4, %r5, %r6}}; ret; }}"""
    x = np.zeros((4, 4, 4), np.uint32)
    run_kernel(text, "k", (4, 4), 32, [x])
    assert x.tolist() == [[[i % 2, i % 2 + 2 * (j % 2), j // 2, 4] for i in range(4)] for j in range(4)]


def test_a_block_without_a_cluster_has_no_other_shared_memory():
    body = "mapa.shared::cluster.u32 %r2, %r10, RANK; ld.shared::cluster.u32 %r3, [%r2];"
    assert len(columns_of(body.replace("RANK", "0")).op) == 0
    with pytest.raises(TraceError, match=r"ld\.shared::cluster\.u32 of 4 bytes at offset \d+ of shared memory"):
        columns_of(body.replace("RANK", "1"))


@pytest.mark.parametrize("shape", ["m1000000000000000000n16k16", "m16n16k17"])
def test_a_fragment_of_an_unknown_shape_is_refused_at_once(shape):
    with pytest.raises(
        TraceError, match=rf"wmma\.load\.a\.sync\.aligned\.row\.{shape}\.global\.f16 cannot be executed"
    ):
        columns_of(f"wmma.load.a.sync.aligned.row.{shape}.global.f16 {{%r1, %r2}}, [%rd1], 16;")


def test_a_fragment_at_the_largest_offset_wraps_around():
    with pytest.raises(TraceError, match="at address 0x80000000"):
        columns_of("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%rd1+9223372036854775807], 16;")
