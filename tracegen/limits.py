"""Name the limits that CUDA sets on launches."""

MAX_BLOCK_THREADS = 1024
"""Maximum number of threads of a block, as in CUDA."""

MAX_ROW_BLOCKS = (1 << 31) - 1
"""Maximum number of blocks along x, as in CUDA: the largest grid of a format that has only one row of blocks."""
