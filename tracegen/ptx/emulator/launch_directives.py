"""Check the shape of a launch against the directives of its kernel, which the compiler relied on.

``.minnctapersm``, ``.maxnctapersm`` and ``.maxnreg`` guide the assembler and restrict no launch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from rdmodel.common.kernel_names import base_name
from rdmodel.common.text import shape_text
from rdmodel.errors import LaunchError, TraceError
from rdmodel.trace import Launch
from tracegen.ptx.isa._code import CLUSTER_RANK_BITS
from tracegen.ptx.isa.special_registers import Cluster
from tracegen.ptx.syntax.ast import Function
from tracegen.simt.kernel_trace import shape

ALONE = (1, 1, 1)
"""Cluster of a block alone."""

MAX_CLUSTER_BLOCKS = 16
"""Largest number of blocks of a cluster on all GPUs."""

_SIZES = re.compile(r"\d{1,10}(?:\s*,\s*\d{1,10}){0,2}")
_ADVICE = "change the block, or compile the kernel for it"


def check_directives(function: Function, launch: Launch) -> None:
    """Raise `LaunchError` if the launch contradicts ``.reqntid`` or ``.maxntid``.

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


def required_block(function: Function) -> tuple[int, int, int]:
    """Return the block that a kernel requires; raises `LaunchError` if it requires none."""
    required = _sizes(function, "reqntid")
    if required is None:
        raise LaunchError(
            f"block: is missing; give one (--block X,Y,Z): {base_name(function.name)} requires none (.reqntid)"
        )
    return required


def find_cluster(function: Function, given: int | Sequence[int] | None) -> Cluster:
    """Return the blocks of a cluster of a launch along x, y and z: those of ``.reqnctapercluster``, or the given ones.

    Raises `LaunchError` if both exist and differ.
    """
    required = _sizes(function, "reqnctapercluster")
    if given is None:
        return required or ALONE
    chosen = shape("cluster", given)
    if required is not None and chosen != required:
        raise LaunchError(
            f"cluster={shape_text(chosen)}: {base_name(function.name)} has .reqnctapercluster {shape_text(required)}, "
            "which requires exactly this cluster (__cluster_dims__)"
        )
    return chosen


def check_cluster(launch: Launch, cluster: Cluster) -> None:
    """Raise `LaunchError` for a cluster that the launch cannot have: the message names the cluster and the reason."""
    kernel = base_name(launch.kernel)
    if any(blocks % size for blocks, size in zip(launch.grid, cluster, strict=True)):
        raise LaunchError(
            f"grid={shape_text(launch.grid)}: {kernel} has clusters of {shape_text(cluster)} blocks: must be a "
            "multiple of it along each axis"
        )
    if prod(cluster) > MAX_CLUSTER_BLOCKS:
        raise LaunchError(f"cluster={shape_text(cluster)} of {kernel}: must have at most {MAX_CLUSTER_BLOCKS} blocks")
    if cluster != ALONE and launch.shared_memory > 1 << CLUSTER_RANK_BITS:
        most = 1 << CLUSTER_RANK_BITS
        raise LaunchError(f"shared={launch.shared_memory}: a block of a cluster must have at most {most} bytes")


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
