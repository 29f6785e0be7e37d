"""Define `Launch`: the name and shape of a kernel launch and the resources that a block occupies."""

from __future__ import annotations

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import LaunchError, escape_unprintable

WARP = 32
"""Lanes in a warp."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """The place of a kernel's array in memory: `name`, first byte address `base`, length `bytes`."""

    name: str
    base: int
    bytes: int

    def __post_init__(self) -> None:
        """Escape characters of the name that cannot be printed."""
        object.__setattr__(self, "name", escape_unprintable(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch: its name, its shape and the resources that a block occupies on an SM.

    `grid` and `block` are (x, y, z). `registers` is per thread and `shared_memory` in bytes per block; 0 means unknown
    and limits nothing. Names are printable on one line: other characters become escapes. Raises `LaunchError` for
    dimensions below 1, for negative resources, and for values that are not whole numbers.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int = 0
    shared_memory: int = 0
    arrays: tuple[ArrayInfo, ...] = ()

    def __post_init__(self) -> None:
        """Reject shapes that no launch can have."""
        object.__setattr__(self, "kernel", escape_unprintable(self.kernel))
        for name in ("grid", "block"):
            shape = getattr(self, name)
            if np.size(shape) != 3 or not all(_is_whole(n, least=1) for n in shape):
                raise LaunchError(f"{name}={shape}: needs three dimensions of at least 1")
            object.__setattr__(self, name, tuple(map(int, shape)))
        for name in ("registers", "shared_memory"):
            need = getattr(self, name)
            if not _is_whole(need, least=0):
                raise LaunchError(f"{name}={need}: must be a whole number of at least 0 (0 = unknown)")
            object.__setattr__(self, name, int(need))

    @property
    def blocks(self) -> int:
        """Number of blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def block_threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def block_warps(self) -> int:
        """Warps per block; the last one may be partial."""
        return -(-self.block_threads // WARP)

    @property
    def threads(self) -> int:
        """Threads in the grid."""
        return self.blocks * self.block_threads


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least
