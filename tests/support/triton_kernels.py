"""Kernels of Triton; importing this module needs Triton."""

import triton
import triton.language as tl


@triton.jit
def transpose(x, y, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(y + column[None, :] * n + row[:, None], tl.load(x + row[:, None] * n + column[None, :]))
