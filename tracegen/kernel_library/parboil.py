"""Declare kernels with the accesses of compiled Parboil code (Stratton et al., IMPACT-12-01)."""

from __future__ import annotations

from tracegen.kernel_library.registry import Benchmark
from tracegen.simt.kernel_trace import Array, Block

stencil3d = Benchmark(
    "stencil3d",
    {"NX": 512, "NY": 512, "NZ": 64},
    lambda NX, NY, NZ: {"A0": (NZ, NY, NX), "Anext": (NZ, NY, NX)},
)


@stencil3d.kernel(
    threads=lambda NX, NY, NZ: (NX - 1, NY - 2, NZ - 2),
    grid=lambda NY, NZ: (NY - 2, NZ - 2, 1),
    block=lambda NX: (NX - 1,),
    fixed=True,
)
def stencil3d_1(k: Block, A0: Array, Anext: Array) -> None:
    """7-point stencil, interior: A0 at z+1, z-1, y+1, y-1, x+1, x-1 and [z,y,x] -> Anext[z,y,x].

    The naive form: a block has the threads of one row, the first of which is idle, and the grid has one block for each
    row and plane of the interior.
    """
    x, y, z = k.thread_x, k.block_x + 1, k.block_y + 1
    with k.where(x > 0):
        k.load(A0, z + 1, y, x)
        k.load(A0, z - 1, y, x)
        k.load(A0, z, y + 1, x)
        k.load(A0, z, y - 1, x)
        k.load(A0, z, y, x + 1)
        k.load(A0, z, y, x - 1)
        k.load(A0, z, y, x)
        k.store(Anext, z, y, x)
