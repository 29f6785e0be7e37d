"""Build the trace of an affine kernel from a value, a name, a JSON file or the content of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tracegen.affine.json_form import load_affine
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.trace import AffineTrace


def affine_kernel(
    kernel: AffineKernel | str | os.PathLike[str] | Mapping[str, Any],
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    **params: int,
) -> AffineTrace:
    """Return the trace of an affine kernel, for `params` instead of the values of its own.

    `kernel` is an `AffineKernel`, or what `load_affine` takes: the name of one that comes with rdmodel, a JSON file, or
    its content. `block` overrides the shape of a block (x, y, z), `blocks` are the ids of the blocks that the trace
    holds (None: all), `base` is the address of the first array (default 2^28; a multiple of 256). Raises
    `TraceError` that says which part of the kernel is malformed, not affine or outside an array, `ConfigError` for
    a parameter that cannot be, and `LaunchError` for a launch that cannot be.

    >>> affine_kernel("gemm", NI=64)
    AffineTrace('gemm', grid=(16, 8, 1), block=(32, 8, 1), NI=64, NJ=512, NK=512)
    """
    if not isinstance(kernel, AffineKernel):
        kernel = load_affine(kernel)
    return AffineTrace(kernel, params, block=block, blocks=blocks, base=base)
