"""Define `Trace`: the memory instructions of one kernel launch, ordered only within each warp.

A trace is not a schedule (Nugteren et al., HPCA 2014, section 4.6). It has two forms. `Columns` hold one row per warp
instruction and one address per active lane. A `Segment` holds a loop: a body of memory instructions whose addresses
advance by a constant per iteration, so that a few kilobytes describe a kernel with 10^8 accesses. All readers of traces
go block by block, through `Trace.block`, and accept both forms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rdmodel.common.presentation import frame, table_html
from rdmodel.errors import TraceError
from rdmodel.trace.columns import Columns, Program, slice_warps
from rdmodel.trace.lanes import check_lanes
from rdmodel.trace.launch import Launch
from rdmodel.trace.local_memory import LocalMemory
from rdmodel.trace.mapped_pages import Pages
from rdmodel.trace.presentation import instruction_columns, launch_rows
from rdmodel.trace.registers import GIVEN, RegisterUse
from rdmodel.trace.sources import InstructionSource
from rdmodel.trace.work import Work

if TYPE_CHECKING:
    import pandas as pd

ShortenedBlocks = tuple[Callable[[int, float], Columns | Program], Callable[[int], float]]
"""The two functions of `Trace.shortened`: (block, start) -> instructions, and block -> remaining share."""


@dataclass(eq=False, repr=False)
class Trace:
    """A launch and the memory instructions of some or all of its blocks.

    A subclass may make its blocks on demand: it overrides `block`, and `columns` need not exist. `stored` tells the two
    kinds apart.

    Parameters
    ----------
    launch
        Name, shape and resources of the launch.
    columns
        Instructions of all warps of the blocks, block by block; a block has ``launch.block_warps`` warps, in order, and
        a warp may be empty.
    blocks
        Ids of the blocks that `columns` hold, ascending. None: all blocks of the grid.
    trusted
        Skip the check that the columns agree with each other.
    pages
        Pages of columns that are mapped from files. Readers report to them what they have read.

    Raises
    ------
    TraceError
        If the columns are inconsistent, or do not fit the launch and the blocks: for example, if the lane of a thread
        that a block does not have is active.
    """

    launch: Launch
    columns: Columns
    blocks: Sequence[int] | None = None
    trusted: bool = field(default=False, repr=False)
    pages: Pages | None = field(default=None, repr=False)
    address_bounds: tuple[int, int] | None = field(default=None, init=False, repr=False)
    """The lowest and the highest address of a lane in `columns`; None if they are not known."""

    def __post_init__(self) -> None:
        """Check everything once, so that no reader of the trace has to."""
        self.blocks = check_blocks(self.launch, self.blocks)
        warps = len(self.blocks) * self.launch.block_warps
        if self.columns.warps != warps:
            shape = f"{len(self.blocks)} blocks of {self.launch.block_warps} warps"
            raise TraceError(f"{self.columns.warps} warps, but {shape} need {warps}")
        if not self.trusted:
            self.address_bounds = self.columns.check(self.pages)
            check_lanes(self.launch, self.columns, self.blocks, self.pages)

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.columns)

    def __repr__(self) -> str:
        """Return one line with the name and the shape of the launch."""
        return f"{type(self).__name__}({self.launch.kernel!r}, grid={self.launch.grid}, block={self.launch.block})"

    def _repr_html_(self) -> str:
        """Return the properties of the launch as a table; notebooks call this."""
        held = self.launch.blocks if self.blocks is None else len(self.blocks)
        return table_html(repr(self), launch_rows(self.launch, held, self.params))

    def to_frame(self, blocks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return a data frame with a row per warp instruction of some blocks (None: of all); needs pandas.

        Its columns are the block, the warp in the block, pc, op, space, bytes per lane (`size`), active `lanes`, the
        `address` of the lowest one (-1: there is none) and the `gap`. O(instructions + active lanes): few blocks are
        enough to look at a long trace. Raises `TraceError` for a block that the trace does not hold, and `RdmodelError`
        without pandas (extra ``frame``).
        """
        held = range(self.launch.blocks) if self.blocks is None else self.blocks
        return frame(instruction_columns(self.block, self.launch.block_warps, held if blocks is None else blocks))

    @property
    def stored(self) -> bool:
        """True if `columns` hold all blocks; False if `block` makes each block on demand."""
        return type(self).block is Trace.block

    @property
    def any_order(self) -> bool:
        """True if the content of a block does not depend on the blocks that were read before it."""
        return True

    @property
    def may_have_cache_ops(self) -> bool:
        """False if no instruction has a cache operator; True also for a trace that does not know before it is made."""
        return not self.stored or self.columns.cache_op is not None

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the kernel by name; empty if they are unknown."""
        return {}

    @cached_property
    def number(self) -> int | None:
        """Number of the launch in the recording of a program, from 1 on; None for other traces."""
        return None

    @property
    def local_memory(self) -> LocalMemory | None:
        """Addresses of the local memory that each block has of its own; None if they are unknown, or there is none."""
        return None

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The sources of instructions by `pc`; a trace that does not know leaves them out.

        Read it after the blocks: a trace that makes its blocks on demand may learn it from them.
        """
        return {}

    def chains(
        self, block: int, latencies: Mapping[str, float], together: int = 1
    ) -> list[tuple[float, Mapping[str, float], float]] | None:
        """Return the straight pieces of code that a block executes, or None if the trace does not tell dependences.

        Each is (cycles of its longest chain of dependent instructions, its instructions by class without accesses to
        memory, its accesses), summed over its executions, for an average warp. `latencies` has the cycles of an
        instruction by class of `Work` (``load_global``, ``fp32``, ...), of an ``atomic``, and of a load that no other
        one overlaps (``load_alone``); and the cycles for which instructions occupy their units
        (`rdmodel.timing.latency.unit_cycles`). A piece with matrix products (class ``matrix``) takes at least as long
        as units are occupied, by all warps that a sub-core executes `together`.
        """
        return None

    def crowding(self, block: int, latencies: Mapping[str, float], resident: int) -> float | None:
        """Return how many times as long a block takes if `resident` of them are on an SM, or None if it is not known.

        The blocks share the units of the SM and its port to the L2; the L2 and the DRAM are as if the SM were alone.
        `latencies` are those of `chains`.
        """
        return None

    def shortened(self, share: float) -> ShortenedBlocks | None:
        """Return functions that make blocks with about `share` of their iterations, or None if there are none.

        The first function makes the block of an id and a start; it leaves out the start, a share of the iterations,
        before those that it makes. The second function returns the share of a block's iterations that remain. A trace
        without them has its blocks made whole and cut afterwards, which takes longer.
        """
        return None

    def block_work(self, block: int) -> Work | None:
        """Return the instructions of one block by class, with its arithmetic and its accesses to shared memory.

        Traces that record memory instructions only return None. The requests of memory instructions are left 0:
        `rdmodel.trace.counting.count_work` adds them, from the instructions of the block, for the lines of a GPU.
        """
        return None

    def assembled_for(self, capability: tuple[int, int]) -> Trace:
        """Return the trace of the code that is made for a compute capability, such as (8, 0); itself if it is the same.

        The accesses to global memory are the same, but the instructions between them may differ.
        """
        return self

    def register_use(self, capability: tuple[int, int] | None = None) -> RegisterUse | None:
        """Return the registers of a thread: those of the launch if they are given, else what the trace can tell.

        `capability` is the compute capability of the GPU, such as (8, 0); None: unknown. None is returned if nothing is
        known.
        """
        return RegisterUse(self.launch.registers, GIVEN) if self.launch.registers else None

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks, ascending, will be read next, in about this order.

        Nothing depends on it but time: a trace may make several of them at once.
        """

    def spills(self, block: int, capability: tuple[int, int] | None = None) -> tuple[float, float]:
        """Return the loads and the stores of spilled registers by the warps of a block; they are not in the trace.

        `capability` is that of `register_use`. Both are 0 where nothing is known.
        """
        return 0.0, 0.0

    def spill_frame(self, capability: tuple[int, int] | None = None) -> int:
        """Return the bytes of local memory in which a thread has its spilled registers; 0 where nothing is known."""
        return 0

    def operand_stalls(self, capability: tuple[int, int] | None = None) -> float:
        """Return the cycles for which a multiply-add waits for its operands; 0.0 where nothing is known of the code."""
        return 0.0

    def block(self, block: int) -> Columns | Program:
        """Return the instructions of one block: `Columns` with its warps, or a `Program`.

        Raises `TraceError` if the trace does not hold the block.
        """
        first = self._first_warp(block)
        return slice_warps(self.columns, first, first + self.launch.block_warps)

    def locate(self, block: int) -> tuple[Columns | Program, int]:
        """Return what contains a block, and the number of the block's first warp in it; `locate_block` calls this."""
        return (self.columns, self._first_warp(block)) if self.stored else (self.block(block), 0)

    def count_lanes(self, block: int) -> int | None:
        """Return the number of addresses of a block, or None if it is not known before the block is made.

        Raises `TraceError` if the trace does not hold the block.
        """
        if not self.stored:
            return None
        first = self._first_warp(block)
        rows = self.columns.warp_start[[first, first + self.launch.block_warps]]
        begin, end = self.columns.address_start[rows].tolist()
        return int(end - begin)

    def _first_warp(self, block: int) -> int:
        """Return the number of the block's first warp in `columns`."""
        assert self.blocks is not None
        at = bisect_left(self.blocks, block)
        if at == len(self.blocks) or self.blocks[at] != block:
            raise missing_block(self, block)
        return at * self.launch.block_warps


def locate_block(trace: Trace, block: int) -> tuple[Columns | Program, int]:
    """Return the columns or program that contain a block, and the number of the block's first warp in them.

    For a trace with columns in memory, or mapped, these are the columns of the whole trace: nothing is copied, however
    long the block. Raises `TraceError` if the trace does not hold the block.
    """
    return trace.locate(block)


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
