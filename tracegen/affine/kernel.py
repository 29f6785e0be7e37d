"""Define `AffineKernel`, the loop nest of a kernel as compilers represent it."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.affine.statements import KernelForm
from tracegen.affine.trace import AffineTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll


@dataclass(frozen=True, slots=True)
class AffineKernel(KernelForm):
    """A kernel made of loops, guards and accesses that are affine in block ids, thread ids and loop variables.

    Every number of the kernel may be an expression of its parameters. `tracegen.affine_kernel` checks what depends on
    the values of parameters.

    Parameters
    ----------
    name : str
        Name of the kernel.
    arrays : mapping of str to AffineArray
        Arrays by name, in the order in which they lie in memory; a shape stands for an array of float32.
    block : sequence of expressions
        Threads of a block: one to three constant expressions (x, y, z).
    body : sequence of statements
        `Load`, `Store`, `Atomic`, `Barrier`, `Wait`, `Gap`, `Compute`, `Guard` and `Loop`.
    parameters : mapping of str to int
        Sizes by name, with their default values.
    grid, threads : sequence of expressions
        The blocks of the grid, or the threads that it must cover; exactly one of the two.
    shared_memory, registers : expression
        Bytes per block, and registers per thread.
    description : str
        Text about the kernel.
    requires : sequence of str
        Conditions on parameters.

    Raises
    ------
    TraceError
        For a malformed part of the kernel; the message names its place.
    """

    def trace(
        self,
        *,
        block: Sequence[int] | None = None,
        blocks: Sequence[int] | None = None,
        base: int | None = None,
        unroll: Unroll = DEFAULT_UNROLL,
        **params: int,
    ) -> AffineTrace:
        """Return the trace for values of parameters; the same as ``tracegen.affine_kernel(self, ...)``."""
        return AffineTrace(self, params, block=block, blocks=blocks, base=base, unroll=unroll)
