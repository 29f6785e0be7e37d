"""Check the shape of a launch against the directives of its kernel, which the compiler relied on.

``.minnctapersm``, ``.maxnctapersm`` and ``.maxnreg`` guide the assembler and restrict no launch.
"""

from __future__ import annotations

import re
from math import prod

from rdmodel.common.kernel_names import base_name
from rdmodel.common.text import shape_text
from rdmodel.errors import LaunchError, TraceError
from rdmodel.trace import Launch
from tracegen.ptx.isa._code import CLUSTER_RANK_BITS
from tracegen.ptx.syntax.ast import Function

MAX_CLUSTER_BLOCKS = 16
"""Largest number of blocks of a cluster on all GPUs."""

_SIZES = re.compile(r"\d{1,10}(?:\s*,\s*\d{1,10}){0,2}")
_ADVICE = "change the block, or compile the kernel for it"


def check_directives(function: Function, launch: Launch) -> None:
    """Raise `LaunchError` if the launch contradicts ``.reqntid``, ``.maxntid`` or ``.reqnctapercluster``.

    The message names the shape and the directive. A directive that is not PTX raises `TraceError`.
    """
    kernel = base_name(launch.kernel)
    required = _sizes(function, "reqntid")
    if required is not None and launch.block != required:
        raise LaunchError(
            f"block={shape_text(launch.block)}: {kernel} has .reqntid {shape_text(required)}, which requires "
            f"exactly this block: {_ADVICE}"
        )
    most = _sizes(function, "maxntid")
    if most is not None and launch.block_threads > prod(most):
        raise LaunchError(
            f"block={shape_text(launch.block)}: {launch.block_threads} threads, but {kernel} has .maxntid "
            f"{shape_text(most)}, at most {prod(most)} threads (__launch_bounds__): {_ADVICE}"
        )
    cluster = _sizes(function, "reqnctapercluster")
    if cluster is not None and any(blocks % size for blocks, size in zip(launch.grid, cluster, strict=True)):
        raise LaunchError(
            f"grid={shape_text(launch.grid)}: {kernel} has .reqnctapercluster {shape_text(cluster)}: "
            "must be a multiple of it along each axis (__cluster_dims__)"
        )


def required_block(function: Function) -> tuple[int, int, int]:
    """Return the block that a kernel requires; raises `LaunchError` if it requires none."""
    required = _sizes(function, "reqntid")
    if required is None:
        raise LaunchError(
            f"block: is missing; give one (--block X,Y,Z): {base_name(function.name)} requires none (.reqntid)"
        )
    return required


def check_cluster(function: Function, shared: int) -> None:
    """Raise `LaunchError` for a cluster of too many blocks, or whose blocks have too much shared memory."""
    cluster = cluster_shape(function)
    if prod(cluster) > MAX_CLUSTER_BLOCKS:
        kernel = base_name(function.name)
        raise LaunchError(f"cluster={shape_text(cluster)} of {kernel}: must have at most {MAX_CLUSTER_BLOCKS} blocks")
    if prod(cluster) > 1 and shared > 1 << CLUSTER_RANK_BITS:
        raise LaunchError(f"shared={shared}: a block of a cluster must have at most {1 << CLUSTER_RANK_BITS} bytes")


def cluster_shape(function: Function) -> tuple[int, int, int]:
    """Return the blocks of a cluster of a kernel along x, y and z."""
    return _sizes(function, "reqnctapercluster") or (1, 1, 1)


def _sizes(function: Function, directive: str) -> tuple[int, int, int] | None:
    """Return the sizes along x, y and z in a directive; None if the kernel has none."""
    text = function.directives.get(directive)
    if text is None:
        return None
    sizes = tuple(int(size) for size in text.split(",")) if _SIZES.fullmatch(text) else ()
    if not sizes or min(sizes) < 1:
        raise TraceError(
            f"{function.name}: PTX line {function.line}: .{directive} {text}: must be one to three sizes of at least 1"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
