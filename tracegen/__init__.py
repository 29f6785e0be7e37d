"""Generate traces: kernels in Python, loop nests, named kernels, access patterns, CUDA, and files of other tools.

>>> import tracegen
>>> tracegen.kernel("atax.1", NX=512, NY=512).launch.grid
(2, 1, 1)
"""

import tracegen.patterns as patterns
from tracegen.affine import AffineKernel, AffineTrace, affine_kernel, load_affine
from tracegen.kernel_library import KernelSpec, TiledSpec, kernel, kernels
from tracegen.simt.kernel_trace import Array, Block, Buffer, KernelTrace, trace

__all__ = [
    "AffineKernel",
    "AffineTrace",
    "Array",
    "Block",
    "Buffer",
    "KernelSpec",
    "KernelTrace",
    "TiledSpec",
    "affine_kernel",
    "kernel",
    "kernels",
    "load_affine",
    "patterns",
    "trace",
]
