"""Find which reads of bulk copies the L2 serves for several SMs at once.

The L2 Request Coalescer (NVIDIA, Nsight Compute, Profiling Guide, "Metrics Decoder") merges reads of the same data
before they reach the L2. It serves the copies to several SMs of a cluster, which lie in one GPC, so that it is taken to
merge the reads of a GPC. Blocks that copy the same tiles wait for the same data, and read them at about the same time.
Single loads are merged less (`validation/h100/RESULTS.md`); they are counted as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rdmodel.timing.sharing import Sharing
from rdmodel.trace import Columns, Op, Trace
from rdmodel.trace.cache_ops import CacheOp
from rdmodel.trace.trace import locate_block

GPCS = 8
"""Graphics processing clusters of the GPUs with bulk copies (NVIDIA, H100 whitepaper: 8 GPCs)."""


def bulk_share(trace: Trace, block: int) -> float:
    """Return the share of the bytes that a block loads which bulk copies load."""
    source, first = locate_block(trace, block)
    if not isinstance(source, Columns) or source.cache_op is None:
        return 0.0
    rows = slice(source.warp_start[first], source.warp_start[first + trace.launch.block_warps])
    loads = source.op[rows] == int(Op.LOAD)
    sizes = np.bitwise_count(source.mask[rows]).astype(np.int64) * source.size[rows] * loads
    total = int(sizes.sum())
    return float(sizes[source.cache_op[rows] == int(CacheOp.BULK)].sum()) / total if total else 0.0


def merged_share(sharings: Sequence[Sharing], concurrent: int) -> float:
    """Return the share of the reads of blocks, if bulk copies make them, that are merged with those of other blocks.

    Of the `concurrent` blocks, those that read a piece together are spread over the GPCs by chance.
    """
    return float(np.mean([_merged(each, concurrent) for each in sharings]))


def _merged(sharing: Sharing, concurrent: int) -> float:
    merged = 0.0
    for each in sharing.shared:
        if each.lag < concurrent:
            served = GPCS * (1 - (1 - 1 / GPCS) ** each.readers)
            merged += each.together * max(0.0, 1 - served / each.readers)
    return min(1.0, merged / sharing.reads) if sharing.reads else 0.0
