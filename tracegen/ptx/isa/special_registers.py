"""Compute the values that the threads of a block read from special registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Launch
from tracegen.ptx.isa._code import CLUSTER_RANK_BITS

RegisterValue = int | NDArray[np.uint64]
"""One number for the whole block, or one per thread."""


def _thread(dimension: int) -> Callable[[Launch, int], RegisterValue]:
    def read(launch: Launch, block: int) -> RegisterValue:
        x, y, _ = launch.block
        thread = np.arange(launch.block_threads, dtype=np.uint64)
        return (thread % np.uint64(x), thread // np.uint64(x) % np.uint64(y), thread // np.uint64(x * y))[dimension]

    return read


def _block(dimension: int) -> Callable[[Launch, int], RegisterValue]:
    def read(launch: Launch, block: int) -> RegisterValue:
        return block_index(launch, block)[dimension]

    return read


def block_index(launch: Launch, block: int) -> tuple[int, int, int]:
    """Return the index (x, y, z) of a block in its grid."""
    x, y, _ = launch.grid
    return block % x, block // x % y, block // (x * y)


def _lane(launch: Launch) -> NDArray[np.uint64]:
    return np.arange(launch.block_threads, dtype=np.uint64) % np.uint64(WARP)


_ONE = np.uint64(1)
_ALL_LANES = np.uint64(0xFFFFFFFF)
"""Mask of the 32 lanes of a warp."""

SPECIAL_REGISTERS: dict[str, Callable[[Launch, int], RegisterValue]] = {
    **{f"%tid.{axis}": _thread(d) for d, axis in enumerate("xyz")},
    **{f"%ctaid.{axis}": _block(d) for d, axis in enumerate("xyz")},
    "%ntid.x": lambda launch, block: launch.block[0],
    "%ntid.y": lambda launch, block: launch.block[1],
    "%ntid.z": lambda launch, block: launch.block[2],
    "%nctaid.x": lambda launch, block: launch.grid[0],
    "%nctaid.y": lambda launch, block: launch.grid[1],
    "%nctaid.z": lambda launch, block: launch.grid[2],
    "%laneid": lambda launch, block: _lane(launch),
    "%warpid": lambda launch, block: np.arange(launch.block_threads, dtype=np.uint64) // np.uint64(WARP),
    "%nwarpid": lambda launch, block: launch.block_warps,
    "%lanemask_eq": lambda launch, block: _ONE << _lane(launch),
    "%lanemask_lt": lambda launch, block: (_ONE << _lane(launch)) - _ONE,
    "%lanemask_le": lambda launch, block: (_ONE << (_lane(launch) + _ONE)) - _ONE,
    "%lanemask_ge": lambda launch, block: _ALL_LANES & ~((_ONE << _lane(launch)) - _ONE),
    "%lanemask_gt": lambda launch, block: _ALL_LANES & ~((_ONE << (_lane(launch) + _ONE)) - _ONE),
    "%dynamic_smem_size": lambda launch, block: launch.shared_memory,
    "%total_smem_size": lambda launch, block: launch.shared_memory,
    **dict.fromkeys(
        ("%smid", "%gridid", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"),
        lambda launch, block: 0,
    ),
    "%nsmid": lambda launch, block: 1,
}
"""Readers by register name: (launch, block) to one number, or one per thread. Clocks are 0, and there is one SM."""

Cluster = tuple[int, int, int]
"""Blocks of a cluster along x, y and z."""


def _in_cluster(dimension: int) -> Callable[[Launch, int, Cluster], int]:
    return lambda launch, block, cluster: block_index(launch, block)[dimension] % cluster[dimension]


def _cluster(dimension: int) -> Callable[[Launch, int, Cluster], int]:
    return lambda launch, block, cluster: block_index(launch, block)[dimension] // cluster[dimension]


def _clusters(dimension: int) -> Callable[[Launch, int, Cluster], int]:
    return lambda launch, block, cluster: -(-launch.grid[dimension] // cluster[dimension])


def _cluster_size(dimension: int) -> Callable[[Launch, int, Cluster], int]:
    return lambda launch, block, cluster: cluster[dimension]


def _rank(launch: Launch, block: int, cluster: Cluster) -> int:
    x, y, z = (place % size for place, size in zip(block_index(launch, block), cluster, strict=True))
    return x + cluster[0] * (y + cluster[1] * z)


CLUSTER_REGISTERS: dict[str, Callable[[Launch, int, Cluster], int]] = {
    **{f"%cluster_ctaid.{axis}": _in_cluster(d) for d, axis in enumerate("xyz")},
    **{f"%cluster_nctaid.{axis}": _cluster_size(d) for d, axis in enumerate("xyz")},
    **{f"%clusterid.{axis}": _cluster(d) for d, axis in enumerate("xyz")},
    **{f"%nclusterid.{axis}": _clusters(d) for d, axis in enumerate("xyz")},
    "%cluster_ctarank": _rank,
    "%cluster_nctarank": lambda launch, block, cluster: cluster[0] * cluster[1] * cluster[2],
    "%is_explicit_cluster": lambda launch, block, cluster: int(cluster != (1, 1, 1)),
}
"""Readers of the registers of clusters, by name: (launch, block, blocks of a cluster) to one number."""


_BY_BLOCK = frozenset(
    [f"{start}.{axis}" for start in ("%ctaid", "%cluster_ctaid", "%clusterid") for axis in "xyz"] + ["%cluster_ctarank"]
)
"""The registers whose values differ between the blocks of a launch."""


def is_special(name: str) -> bool:
    """Return whether a register has a value that the launch determines."""
    return name in SPECIAL_REGISTERS or name in CLUSTER_REGISTERS


SHARED_ADDRESS = "%shared+"
"""Start of the name of a constant of the block: the address of an offset in its shared memory, in a cluster."""


def cluster_blocks(launch: Launch, block: int, cluster: Cluster) -> list[int]:
    """Return the blocks of the cluster of a block, by rank."""
    first = [place // size * size for place, size in zip(block_index(launch, block), cluster, strict=True)]
    x, y, _ = launch.grid
    return [
        first[0] + dx + x * (first[1] + dy + y * (first[2] + dz))
        for dz in range(cluster[2])
        for dy in range(cluster[1])
        for dx in range(cluster[0])
    ]


def read_special_register(name: str, launch: Launch, block: int, cluster: Cluster) -> RegisterValue:
    """Return the value of a special register in a block, or of another constant of the block."""
    if name.startswith(SHARED_ADDRESS):
        return int(name.removeprefix(SHARED_ADDRESS)) + (_rank(launch, block, cluster) << CLUSTER_RANK_BITS)
    if name in CLUSTER_REGISTERS:
        return CLUSTER_REGISTERS[name](launch, block, cluster)
    return SPECIAL_REGISTERS[name](launch, block)


def differs_by_block(name: str) -> bool:
    """Return whether the blocks of a launch have different values of a register or of another constant."""
    return name in _BY_BLOCK or name.startswith(SHARED_ADDRESS)
