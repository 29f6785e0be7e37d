"""Define a product of matrices as a kernel of Triton, which numbers its tiles in groups of rows; needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def dot(  # type: ignore[no-untyped-def]
    a_ptr,
    b_ptr,
    c_ptr,
    rows,
    columns,
    extent,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
    tile_extent: tl.constexpr,
    group: tl.constexpr,
):
    """Let each program compute a tile of the result from tiles of the factors."""
    wide = tl.cdiv(columns, tile_columns)
    of_group = tl.program_id(0) % (group * wide)
    first = tl.program_id(0) // (group * wide) * group
    size = min(tl.cdiv(rows, tile_rows) - first, group)
    row = (first + of_group % size) * tile_rows + tl.arange(0, tile_rows)
    column = of_group // size * tile_columns + tl.arange(0, tile_columns)
    k = tl.arange(0, tile_extent)
    a = a_ptr + row[:, None] * extent + k[None, :]
    b = b_ptr + k[:, None] * columns + column[None, :]
    total = tl.zeros([tile_rows, tile_columns], tl.float32)
    for _ in range(0, extent, tile_extent):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += tile_extent
        b += tile_extent * columns
    tl.store(c_ptr + row[:, None] * columns + column[None, :], total.to(tl.float16))
