"""Define the forward pass of attention as a kernel of Triton; needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl

INFINITY = tl.constexpr(float("inf"))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit  # type: ignore[untyped-decorator]
def attention(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    tokens,
    width: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    """Let each program compute a tile of rows of the result of one head, from all keys and values tile by tile."""
    base = tl.program_id(1).to(tl.int64) * tokens * width
    rows = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    across = tl.arange(0, width)
    q = tl.load(q_ptr + base + rows[:, None] * width + across[None, :])
    most = tl.full([tile_rows], -INFINITY, tl.float32)
    total = tl.full([tile_rows], 1.0, tl.float32)
    sums = tl.zeros([tile_rows, width], tl.float32)
    for first in tl.range(0, tokens, tile_columns):
        columns = first + tl.arange(0, tile_columns)
        k = tl.load(k_ptr + base + columns[None, :] * width + across[:, None])
        scores = tl.dot(q, k)
        greatest = tl.maximum(most, tl.max(scores, 1) * scale * LOG2_E)
        weights = tl.math.exp2(scores * scale * LOG2_E - greatest[:, None])
        shrunk = tl.math.exp2(most - greatest)
        sums = sums * shrunk[:, None]
        total = total * shrunk + tl.sum(weights, 1)
        v = tl.load(v_ptr + base + columns[:, None] * width + across[None, :])
        sums = tl.dot(weights.to(tl.float16), v, sums)
        most = greatest
    tl.store(out_ptr + base + rows[:, None] * width + across[None, :], (sums / total[:, None]).to(tl.float16))
