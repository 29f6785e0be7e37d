"""Build the trace of an affine kernel from an object, a name, a JSON file or its content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tracegen.affine.json_form import load_affine
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.trace import AffineTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll


def affine_kernel(
    kernel: AffineKernel | str | os.PathLike[str] | Mapping[str, Any],
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    unroll: Unroll = DEFAULT_UNROLL,
    **params: int,
) -> AffineTrace:
    """Return the trace of an affine kernel.

    Parameters
    ----------
    kernel : AffineKernel, str, path or mapping
        The kernel, or a source that `load_affine` takes: the name of a bundled kernel, a JSON file, or its content.
    block : sequence of int, optional
        Shape of a block (x, y, z) instead of the kernel's own.
    blocks : sequence of int, optional
        Ids of the blocks that the trace holds; all blocks by default.
    base : int, optional
        Address of the first array, a multiple of 256; 2^28 by default.
    unroll : int or "none", optional
        How often compilers unroll an innermost loop that does not say otherwise. The loads of an unrolled body issue
        together, and the next body waits for them. "none": bodies do not wait for each other.
    **params : int
        Values of parameters instead of their defaults.

    Returns
    -------
    AffineTrace
        A trace that generates each block on demand.

    Raises
    ------
    TraceError
        If a part of the kernel is malformed, not affine or outside an array; the message names it.
    ConfigError
        For an invalid parameter, or an invalid `unroll`.
    LaunchError
        For an invalid launch.

    Examples
    --------
    >>> affine_kernel("gemm", NI=64)
    AffineTrace('gemm', grid=(16, 8, 1), block=(32, 8, 1), NI=64, NJ=512, NK=512)
    """
    if not isinstance(kernel, AffineKernel):
        kernel = load_affine(kernel)
    return AffineTrace(kernel, params, block=block, blocks=blocks, base=base, unroll=unroll)
