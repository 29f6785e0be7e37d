"""The `Trace`: what one kernel launch asks of memory, ordered only within each warp.

A trace is not a schedule (Nugteren et al., HPCA 2014, section 4.6). It has two forms. `Columns` holds one row per
warp instruction and one address per active lane. A `Segment` holds a loop: a body of memory instructions whose
addresses advance by a constant per iteration, so that a kernel with 10^8 accesses is described by a few kilobytes.
Everything that reads traces takes them block by block, through `Trace.block`, and accepts both forms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rdmodel.errors import TraceError
from rdmodel.trace.columns import Columns, Program, slice_warps
from rdmodel.trace.launch import Launch
from rdmodel.trace.mapped_pages import Pages


@dataclass(eq=False)
class Trace:
    """A launch and the memory instructions of some or all of its blocks.

    `blocks` are the ids of the blocks that `columns` holds, ascending (None: all of the grid), each with
    ``launch.block_warps`` warps in order; a warp may be empty. `pages` are those of mapped columns; who reads
    the columns block by block tells them. Raises `TraceError` if the columns are inconsistent.
    """

    launch: Launch
    columns: Columns
    blocks: Sequence[int] | None = None
    trusted: bool = field(default=False, repr=False)
    pages: Pages | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check once, here; whoever holds a Trace need not check again."""
        self.blocks = check_blocks(self.launch, self.blocks)
        warps = len(self.blocks) * self.launch.block_warps
        if self.columns.warps != warps:
            shape = f"{len(self.blocks)} blocks of {self.launch.block_warps} warps"
            raise TraceError(f"{self.columns.warps} warps, but {shape} need {warps}")
        if not self.trusted:
            self.columns.check(self.pages)

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.columns)

    @property
    def any_order(self) -> bool:
        """Whether a block is the same whichever blocks were asked for before it."""
        return True

    def block(self, block: int) -> Columns | Program:
        """Return the instructions of one block: `Columns` with its warps, or a `Program`.

        Raises `TraceError` if the trace does not hold the block.
        """
        first = self._first_warp(block)
        return slice_warps(self.columns, first, first + self.launch.block_warps)

    def _first_warp(self, block: int) -> int:
        assert self.blocks is not None
        at = bisect_left(self.blocks, block)
        if at == len(self.blocks) or self.blocks[at] != block:
            raise missing_block(self, block)
        return at * self.launch.block_warps


def held(trace: Trace, block: int) -> tuple[Columns | Program, int]:
    """Return what has the instructions of a block, and the number of the block's first warp there.

    Columns are those of the whole trace where it has them: nothing is copied, however long the block. Raises
    `TraceError` if the trace does not hold the block.
    """
    if type(trace).block is Trace.block:
        return trace.columns, trace._first_warp(block)
    return trace.block(block), 0


def check_blocks(launch: Launch, blocks: Sequence[int] | None) -> Sequence[int]:
    """Return `blocks` (None = the whole grid) if they are ascending ids of the grid; raise `TraceError` if not."""
    if blocks is None:
        return range(launch.blocks)
    if isinstance(blocks, range) and blocks.step > 0:
        wrong = len(blocks) > 0 and (blocks[0] < 0 or blocks[-1] >= launch.blocks)
    else:
        ids = np.asarray(blocks)
        wrong = ids.ndim != 1 or (len(ids) > 0 and ids.dtype.kind not in "iu")
        wrong = wrong or bool((ids[1:] <= ids[:-1]).any())
        wrong = wrong or (len(ids) > 0 and bool(ids[0] < 0 or ids[-1] >= launch.blocks))
    if wrong:
        raise TraceError(f"blocks: must be ascending block ids below {launch.blocks}")
    return blocks


def missing_block(trace: Trace, block: int) -> TraceError:
    """Return the error for a block that the trace does not hold."""
    assert trace.blocks is not None
    return TraceError(
        f"block {block} is not in the trace of {trace.launch.kernel}: "
        f"it holds {len(trace.blocks)} of {trace.launch.blocks} blocks"
    )
