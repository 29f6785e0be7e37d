"""Restore the blocks that access no memory: some formats do not mention them, as if their records had been lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Launch
from tracegen.formats.recorded_trace import Skipped

_MIN_ALLOWED_WARPS = 1 << 20
"""Number of warps that a file may claim even if it holds hardly any instructions."""


def max_warps(instructions: int) -> int:
    """Return how many warps a file with `instructions` may claim, so that its size bounds the memory it takes."""
    return _MIN_ALLOWED_WARPS + 8 * instructions


def can_fill(launch: Launch, instructions: int) -> bool:
    """Tell whether `fill_grid` may fill up the grid of a launch; the file holds `instructions` instructions of it."""
    return launch.blocks * launch.block_warps <= max_warps(instructions)


def insert_empty_blocks(
    columns: Columns, blocks: Sequence[int], all_blocks: Sequence[int] | NDArray[np.int64], block_warps: int
) -> Columns:
    """Return the columns of `blocks` as those of `all_blocks`, in which the other blocks are empty.

    `all_blocks` are ascending ids that include all of `blocks`.
    """
    lengths = np.zeros((len(all_blocks), block_warps), np.int64)
    lengths[np.searchsorted(all_blocks, blocks)] = np.diff(columns.warp_start).reshape(-1, block_warps)
    return replace(columns, warp_start=np.concatenate([[0], np.cumsum(lengths)]))


def advise_about_missing_blocks(*, lenient: bool) -> str:
    """Return the advice for a block without records; lenient readers have filled the grid (`fill_grid`) if they can."""
    if lenient:
        return "the grid is too large to treat blocks without records as blocks that access no memory"
    return "--lenient treats blocks without records as blocks that access no memory"


def fill_grid(
    launch: Launch, columns: Columns, blocks: Sequence[int], skipped: Skipped
) -> tuple[Columns, Sequence[int], Skipped]:
    """Return columns with all blocks of the grid, and `skipped` with the number of blocks that were added.

    A grid that is too large (`can_fill`) is left as it is.
    """
    missing = launch.blocks - len(blocks)
    if not missing or not can_fill(launch, len(columns)):
        return columns, blocks, skipped
    columns = insert_empty_blocks(columns, blocks, np.arange(launch.blocks), launch.block_warps)
    return columns, range(launch.blocks), replace(skipped, blocks=missing)
