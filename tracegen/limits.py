"""Name the limits that CUDA sets on launches."""

MAX_BLOCK_THREADS = 1024
"""Maximum number of threads of a block, as in CUDA."""

MAX_BLOCK_SIDES = (1024, 1024, 64)
"""Maximum number of threads of a block along x, y and z, as in CUDA."""

MAX_ROW_BLOCKS = (1 << 31) - 1
"""Maximum number of blocks along x, as in CUDA: the largest grid of a format that has only one row of blocks."""

MAX_GRID_SIDES = (MAX_ROW_BLOCKS, 65535, 65535)
"""Maximum number of blocks of a grid along x, y and z, as in CUDA."""
