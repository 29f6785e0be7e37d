"""Compare the warps of a block: those that execute more than others keep their block and their sub-core busy longer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace import Columns, Op, Trace, locate_block


@dataclass(frozen=True, slots=True)
class WarpLoads:
    """The instructions of the warps of a block, relative to those of an average one.

    `each` are those of each warp, and `path` those on the longest path through the block: between two barriers, it has
    the instructions of the warp that executes the most.
    """

    each: tuple[float, ...]
    path: float = 1.0

    @staticmethod
    def even(warps: int) -> WarpLoads:
        """Return the loads of warps that execute the same."""
        return WarpLoads((1.0,) * warps)

    @staticmethod
    def mean(loads: Sequence[WarpLoads], weights: Sequence[float]) -> WarpLoads:
        """Return the mean of blocks of as many warps, each of which stands for so many blocks."""
        each = np.average([block.each for block in loads], axis=0, weights=weights)
        return WarpLoads(tuple(each.tolist()), float(np.average([block.path for block in loads], weights=weights)))

    def sub_cores(self, blocks: int, copies: int) -> float:
        """Return how many sub-cores of `copies` the warps of resident blocks keep as busy as the busiest one.

        The sub-cores take warps in turns, and a warp stays in its own (Jia et al., arXiv 1804.06826). Of five equal
        warps, one of four sub-cores has two: the five are served as by two and a half sub-cores with two warps each.
        """
        warps = np.tile(self.each, blocks)
        busy = np.bincount(np.arange(len(warps)) % copies, warps)
        return float(busy.sum() / busy.max())


def warp_loads(trace: Trace, block: int) -> WarpLoads:
    """Return the loads of the warps of a block; they are even if its warps are not recorded one by one.

    Takes O(memory instructions of the block).
    """
    source, first = locate_block(trace, block)
    warps = trace.launch.block_warps
    if not isinstance(source, Columns):
        return WarpLoads.even(warps)
    starts = source.warp_start[first : first + warps + 1]
    begin, end = int(starts[0]), int(starts[-1])
    sizes = np.diff(starts)
    warp = np.repeat(np.arange(warps), sizes)
    passed = np.concatenate([[0], np.cumsum(source.op[begin:end] == Op.BARRIER)])
    span = passed[:-1] - np.repeat(passed[starts[:-1] - begin], sizes)  # a barrier ends the span that it is in
    executed = np.zeros((warps, int(span.max(initial=0)) + 1), np.int64)
    np.add.at(executed, (warp, span), source.gap[begin:end].astype(np.int64) + 1)
    mean = float(executed.sum()) / warps
    if not mean:
        return WarpLoads.even(warps)
    return WarpLoads(tuple((executed.sum(axis=1) / mean).tolist()), float(executed.max(axis=0).sum()) / mean)
