"""Launches of Triton kernels become traces with the accesses that a derivation by hand finds; no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from rdmodel.integrations.triton import trace
from rdmodel.trace import Op

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def centred(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(out + at, values - tl.sum(values, 0) / BLOCK, mask=at < n)


@triton.jit
def product(a, b, c, K, stride_a, stride_b, stride_c, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, STEP):
        inner = k + tl.arange(0, STEP)
        left = tl.load(a + row[:, None] * stride_a + inner[None, :])
        right = tl.load(b + inner[:, None] * stride_b + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * stride_c + column[None, :], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, scale, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    row, inner, start = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D), tl.program_id(1) * length * D
    query = tl.load(q + start + row[:, None] * D + inner[None, :])
    most = tl.full((M,), -float("inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    for at in range(0, (tl.program_id(0) + 1) * M, N):
        key = at + tl.arange(0, N)
        keys = tl.load(k + start + key[None, :] * D + inner[:, None])
        scores = tl.dot(query, keys) * scale
        scores = tl.where(row[:, None] >= key[None, :], scores, -1.0e6)
        higher = tl.maximum(most, tl.max(scores, 1))
        parts = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(most - higher)
        weight = weight * shrink + tl.sum(parts, 1)
        values = tl.load(v + start + key[:, None] * D + inner[None, :])
        total = tl.dot(parts.to(tl.float16), values, total * shrink[:, None])
        most = higher
    tl.store(out + start + row[:, None] * D + inner[None, :], (total / weight[:, None]).to(tl.float16))


@triton.jit
def grouped(lefts, rights, results, depths, count, PROGRAMS: tl.constexpr, T: tl.constexpr, STEP: tl.constexpr):
    for g in range(tl.program_id(0), count, PROGRAMS):
        depth = tl.load(depths + g)
        a = tl.load(lefts + g).to(tl.pointer_type(tl.float16))
        b = tl.load(rights + g).to(tl.pointer_type(tl.float16))
        c = tl.load(results + g).to(tl.pointer_type(tl.float16))
        at, total = tl.arange(0, T), tl.zeros((T, T), tl.float32)
        for k in range(0, depth, STEP):
            inner = k + tl.arange(0, STEP)
            left = tl.load(tl.multiple_of(a + at[:, None] * depth + inner[None, :], [16, 16]))
            right = tl.load(tl.multiple_of(b + inner[:, None] * T + at[None, :], [16, 16]))
            total = tl.dot(left, right, total)
        tl.store(c + at[:, None] * T + at[None, :], total.to(tl.float16))


def halves(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def operations(traced) -> dict[str, int]:
    found = traced.columns.op
    return {name: int((found == op).sum()) for name, op in (("loads", Op.LOAD), ("stores", Op.STORE))}


def lines_per_array(traced, op) -> dict[str, int]:
    """Return the 128-byte lines that all loads or stores together touch, by array."""
    columns = traced.columns
    lanes = np.repeat(columns.op == op, np.diff(columns.address_start))
    touched = np.unique(columns.addresses[lanes] // 128)
    arrays = {
        a.name: ((touched * 128 + 127 >= a.base) & (touched * 128 < a.base + a.bytes)) for a in traced.launch.arrays
    }
    return {name: int(inside.sum()) for name, inside in arrays.items() if inside.any()}


@pytest.mark.parametrize(("n", "elements"), [(1008, 4), (1000, 1)])
def test_an_elementwise_kernel_accesses_the_elements_inside(n, elements):
    x, y, out = (np.zeros(n, np.float32) for _ in range(3))
    traced = trace(add, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), x, y, out, n, BLOCK=512, num_warps=4)
    # A lane loads four elements at once if 16 divides n, since the guard is then equal for all of them.
    assert traced.launch.grid == (2, 1, 1)
    assert traced.launch.block == (128, 1, 1)
    assert operations(traced) == {"loads": 2 * 1024 // 32 // elements, "stores": 1024 // 32 // elements}
    assert len(traced.columns.addresses) == 3 * n // elements
    assert [a.name for a in traced.launch.arrays][:3] == ["x", "y", "out"]
    assert lines_per_array(traced, Op.LOAD) == {"x": 32, "y": 32}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_product_of_matrices_loads_every_tile_once_per_block(architecture):
    a, b, c = halves(128, 96), halves(96, 128), halves(128, 128)
    traced = trace(
        product, (2, 2), a, b, c, 96, 96, 128, 128, M=64, N=64, STEP=32, num_warps=4, architecture=architecture
    )
    # A warp instruction moves 32 x 16 bytes: a tile of 64 x 32 halves takes 8. Three steps, two tiles, four blocks.
    assert operations(traced) == {"loads": 3 * 2 * 8 * 4, "stores": 64 * 64 * 2 // 512 * 4}
    assert set(traced.columns.size[traced.columns.op != Op.BARRIER].tolist()) == {16}
    assert lines_per_array(traced, Op.LOAD) == {"a": 128 * 96 * 2 // 128, "b": 96 * 128 * 2 // 128}
    assert lines_per_array(traced, Op.STORE) == {"c": 128 * 128 * 2 // 128}


@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_the_blocks_of_a_program_share_its_elements(ctas):
    x, out = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    options = {"BLOCK": 1024, "num_warps": 2, "num_ctas": ctas, "architecture": "sm_90"}
    traced = trace(centred, 4, x, out, 4096, **options)
    assert traced.launch.grid == (4 * ctas, 1, 1)
    # A lane moves four elements at once; blocks add their sums through the shared memory of each other.
    assert operations(traced) == {"loads": 4096 // 128, "stores": 4096 // 128}
    assert lines_per_array(traced, Op.STORE) == {"out": 128}
    per_block = [int((traced.block(block).op == Op.LOAD).sum()) for block in range(4 * ctas)]
    assert per_block == [1024 // 128 // ctas] * (4 * ctas)


def test_causal_attention_loads_the_keys_up_to_its_rows():
    q, k, v, out = (halves(2, 256, 64) for _ in range(4))
    traced = trace(attention, (4, 2), q, k, v, out, 0.1, 256, D=64, M=64, N=32, num_warps=4)
    # Block m: 16 for the queries (64 x 64 halves), then 2 (m + 1) steps of 8 for 32 keys and 8 for their values.
    assert operations(traced) == {
        "loads": 2 * sum(16 + 2 * (m + 1) * 16 for m in range(4)),
        "stores": 2 * 4 * 16,
    }
    assert not traced.launched.data_dependent


def test_a_grouped_product_follows_the_pointers_in_memory():
    from tracegen.arrays import BASE

    depths = np.array([64, 128, 32], np.int32)
    pool, size = halves(1 << 16), 1 << 13
    # The pool is the first argument, so it begins at the first address; its parts are addressed through pointers.
    bases = np.array([BASE + 2 * size * part for part in range(8)], np.int64)
    traced = trace(
        pooled, (2,), pool, bases[:3], bases[3:6], np.full(3, bases[6], np.int64), depths, 3,
        PROGRAMS=2, T=64, STEP=32, num_warps=4,
    )  # fmt: skip
    # Two blocks share three problems of 2, 4 and 1 steps: 8 + 8 loads each. The four warps read four scalars each time.
    # The alignment of the results is unknown, so a lane stores one half at a time.
    assert operations(traced) == {"loads": (2 + 4 + 1) * 16 + 3 * 4 * 4, "stores": 3 * 64 * 64 // 32}
    assert traced.launched.data_dependent


@triton.jit
def pooled(pool, lefts, rights, results, depths, count, PROGRAMS: tl.constexpr, T: tl.constexpr, STEP: tl.constexpr):
    grouped(lefts, rights, results, depths, count, PROGRAMS, T, STEP)


def test_a_number_that_is_one_or_a_multiple_of_sixteen_is_specialised():
    # With a stride of 1, known to the compiler, a lane loads 16 bytes; an unknown one makes loads of 2 bytes.
    @triton.jit
    def strided(x, out, stride, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at * stride))

    x, out = halves(4096), halves(1024)
    assert trace(strided, 1, x, out, 1, BLOCK=1024).columns.size.tolist()[0] == 16
    assert trace(strided, 1, x, out, 3, BLOCK=1024).columns.size.tolist()[0] == 2


def test_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    x = torch.zeros(64, 32, dtype=torch.bfloat16).T
    traced = trace(add, 4, x, x, torch.zeros(2048, dtype=torch.bfloat16), 2048, BLOCK=512)
    assert traced.launch.arrays[0].bytes == 4096
    assert sum(a.name in ("x", "y") for a in traced.launch.arrays) == 1


@pytest.mark.parametrize(
    ("args", "meta", "message"),
    [
        ((1, 2), {}, "add: missing argument out, n, BLOCK"),
        ((np.zeros(4), np.zeros(4), np.zeros(4), 4), {"BLOCK": 16, "WARPS": 4}, "add: unknown argument WARPS"),
        ((np.zeros(4), np.zeros(4), np.zeros(4), 4, 16), {"BLOCK": 16}, "add: BLOCK is given twice"),
        ((np.zeros(4), np.zeros(4), np.zeros(4), "4"), {"BLOCK": 16}, "n='4': must be a NumPy array"),
        ((np.zeros(4, complex), 0, 0, 4), {"BLOCK": 16}, "x: elements of type complex128: must be one of"),
        ((np.zeros(4)[::-1], np.zeros(4), np.zeros(4), 4), {"BLOCK": 16}, "x: has a negative stride"),
        ((np.zeros(4), np.zeros(4), np.zeros(4), 4), {"BLOCK": 17}, "add: Triton cannot compile it for sm_80"),
        ((np.zeros(4), np.zeros(4), np.zeros(4), 4), {"BLOCK": 16, "architecture": "gfx90"}, "architecture='gfx90'"),
    ],
)
def test_a_wrong_launch_says_what_is_wrong(args, meta, message):
    with pytest.raises(ConfigError) as caught:
        trace(add, 1, *args, **meta)
    assert str(caught.value).startswith(message)


def test_a_function_without_jit_is_refused():
    with pytest.raises(ConfigError, match=r"must be a function with @triton\.jit"):
        trace(lambda: None, 1)
