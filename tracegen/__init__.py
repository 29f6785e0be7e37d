"""tracegen: everything that produces a Trace.

>>> import tracegen
>>> tracegen.kernel("atax.1", NX=512, NY=512).launch.grid
(2, 1, 1)
"""

import tracegen.patterns as patterns
from tracegen.kernels import KernelSpec, kernel, kernels
from tracegen.simt import Array, Block, Buffer, KernelTrace, trace

__all__ = ["Array", "Block", "Buffer", "KernelSpec", "KernelTrace", "kernel", "kernels", "patterns", "trace"]
