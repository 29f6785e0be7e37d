"""Find out on which SMs the blocks of a grid run: `python places.py places.cubin > places.csv`, beside `launcher.py`.

Each row has the threads of a block, a block, and its SM. All blocks are resident at the same time.
"""

from __future__ import annotations

import array
import csv
import ctypes
import sys
from pathlib import Path

from launcher import Gpu  # type: ignore[import-not-found]  # beside this file

SMS = 132
RESIDENT = {1024: 2, 512: 4, 256: 8}
"""Resident blocks by their threads, if nothing else limits them."""

CYCLES = 400_000
"""Cycles that a block takes: the GPU starts all blocks in a part of this time."""


def places(gpu: Gpu, module: Path, threads: int, blocks: int) -> list[int]:
    """Return the SM of each block."""
    values = [ctypes.c_uint64(gpu.pool), ctypes.c_uint64(gpu.pool + 8 * blocks), ctypes.c_int64(CYCLES)]
    pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    function = gpu.function(module, "place", 0, None)
    gpu.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
    gpu.call("cuCtxSynchronize")
    found = array.array("I")
    found.frombytes(gpu.read(gpu.pool, 4 * blocks))
    return found.tolist()


def main(module: Path) -> None:
    """Launch grids of blocks of all sizes."""
    gpu = Gpu(1 << 20)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("threads", "block", "sm"))
    for threads, resident in RESIDENT.items():
        for block, sm in enumerate(places(gpu, module, threads, resident * SMS)):
            writer.writerow((threads, block, sm))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
