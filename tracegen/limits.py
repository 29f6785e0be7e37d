"""Name the limits that CUDA sets on launches."""

MAX_BLOCK_THREADS = 1024
"""Threads that CUDA allows in a block."""

MAX_ROW_BLOCKS = (1 << 31) - 1
"""Blocks that CUDA allows along x: the largest grid of a format that knows only one row of blocks."""
