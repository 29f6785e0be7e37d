"""Define `AffineKernel`: a loop nest as compilers know it, and the trace of its accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracegen.affine.statements import KernelForm
from tracegen.affine.trace import AffineTrace


@dataclass(frozen=True, slots=True)
class AffineKernel(KernelForm):
    """A kernel made of loops, guards and accesses that are affine in block ids, thread ids and loop variables.

    `parameters` are sizes by name, with their values; every other number of the kernel may be an expression of them.
    `arrays` lie in memory in the order given. `block` is (x, y, z) threads; the grid is given as `grid`, in blocks, or
    covers `threads`. `shared_memory` is in bytes per block, `registers` per thread. `requires` are conditions on
    parameters. Raises `TraceError` that says where in the kernel something cannot be; what depends on the parameters'
    values is checked by `tracegen.affine_kernel`.
    """

    def trace(
        self,
        *,
        block: Sequence[int] | None = None,
        blocks: Sequence[int] | None = None,
        base: int | None = None,
        **params: int,
    ) -> AffineTrace:
        """Return the trace for `params` instead of the values of its own; as ``tracegen.affine_kernel(self, ...)``."""
        return AffineTrace(self, params, block=block, blocks=blocks, base=base)
