"""Blocks without a single instruction: some files do not mention them, and so lack them as if they had been lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Launch
from tracegen.formats.recorded_trace import Skipped

_MOST_WARPS = 1 << 20


def most_warps(instructions: int) -> int:
    """Return how many warps a file with so many instructions may claim: memory is bounded by what is there."""
    return _MOST_WARPS + 8 * instructions


def fits(launch: Launch, instructions: int) -> bool:
    """Tell whether a grid may be filled up, whatever grid a file claims."""
    return launch.blocks * launch.block_warps <= most_warps(instructions)


def with_silent(
    columns: Columns, blocks: Sequence[int], seen: Sequence[int] | NDArray[np.int64], block_warps: int
) -> Columns:
    """Return the columns of `blocks` as those of `seen`, ascending ids with all of `blocks`; the others are empty."""
    lengths = np.zeros((len(seen), block_warps), np.int64)
    lengths[np.searchsorted(seen, blocks)] = np.diff(columns.warp_start).reshape(-1, block_warps)
    return replace(columns, warp_start=np.concatenate([[0], np.cumsum(lengths)]))


def whole_grid(
    launch: Launch, columns: Columns, blocks: Sequence[int], skipped: Skipped
) -> tuple[Columns, Sequence[int], Skipped]:
    """Return the columns with all blocks of the grid, those that a file lacks empty, and account for these.

    A grid that is too large (`fits`) is left as it is.
    """
    missing = launch.blocks - len(blocks)
    if not missing or not fits(launch, len(columns)):
        return columns, blocks, skipped
    columns = with_silent(columns, blocks, np.arange(launch.blocks), launch.block_warps)
    return columns, range(launch.blocks), replace(skipped, blocks=missing)
