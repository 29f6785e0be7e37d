"""Special registers: what every thread of a block reads in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Launch

Value = int | NDArray[np.uint64]


def _thread(dimension: int) -> Callable[[Launch, int], Value]:
    def read(launch: Launch, block: int) -> Value:
        x, y, _ = launch.block
        thread = np.arange(launch.block_threads, dtype=np.uint64)
        return (thread % np.uint64(x), thread // np.uint64(x) % np.uint64(y), thread // np.uint64(x * y))[dimension]

    return read


def _block(dimension: int) -> Callable[[Launch, int], Value]:
    def read(launch: Launch, block: int) -> Value:
        return block_index(launch, block)[dimension]

    return read


def block_index(launch: Launch, block: int) -> tuple[int, int, int]:
    """Return (x, y, z) of a block."""
    x, y, _ = launch.grid
    return block % x, block // x % y, block // (x * y)


def _lane(launch: Launch) -> NDArray[np.uint64]:
    return np.arange(launch.block_threads, dtype=np.uint64) % np.uint64(WARP)


_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFF)

SPECIAL: dict[str, Callable[[Launch, int], Value]] = {
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
    "%lanemask_ge": lambda launch, block: _ALL & ~((_ONE << _lane(launch)) - _ONE),
    "%lanemask_gt": lambda launch, block: _ALL & ~((_ONE << (_lane(launch) + _ONE)) - _ONE),
    "%dynamic_smem_size": lambda launch, block: launch.shared_memory,
    "%total_smem_size": lambda launch, block: launch.shared_memory,
    **dict.fromkeys(
        ("%smid", "%gridid", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"),
        lambda launch, block: 0,
    ),
    "%nsmid": lambda launch, block: 1,
}
"""Readers by name: (launch, block) to one number, or one per thread. Clocks stand still; there is one SM."""
