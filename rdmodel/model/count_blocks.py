"""Count the instructions and transactions of some blocks, which do not depend on time, and extrapolate them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypass_table, bypasses_l1
from rdmodel.model.cores import make_chunk, store_rule
from rdmodel.model.options import Options
from rdmodel.model.sample_sms import SAMPLE_SALT
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import BYPASS, Chunk, open_block
from rdmodel.trace.columns import Op

MIN_COUNTED_BLOCKS = 24
"""Fewest blocks that are counted, in a grid that has as many."""

COUNTED_SHARE = 0.03
"""Share of the work that goes into counting further blocks."""

COUNTING_SPEED = 4.0
"""Speed at which transactions are counted, relative to those of a run."""

OPENING_COST = 100
"""Cost of opening a warp of a block: the number of transactions that take the same time."""

LEAST_ERROR = 0.002
"""Least standard error of a count, relative to it, unless all blocks were counted: others may differ from these."""

BLOCK_COUNTS = (
    "rows",
    "loads",
    "stores",
    "all_transactions",
    "transactions",
    "sectors",
    "bypassed_transactions",
    "bypassed_sectors",
    "store_transactions",
    "writes",
)
"""Counts of a block: warp instructions (`rows`), `loads` and `stores` that have transactions, and their transactions.

`transactions` and `sectors` are those of loads that look into the L1, `writes` are the sectors of stores.
"""


@dataclass(frozen=True, slots=True)
class Total:
    """A count of the whole grid, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Means of `BLOCK_COUNTS` over the `blocks` blocks of a grid, from a sample of these, and the errors of means."""

    blocks: int
    means: Mapping[str, float]
    errors: Mapping[str, float]

    @property
    def work(self) -> float:
        """Instructions of a block that count as work: loads or, in a kernel without any, stores."""
        return self.means["loads"] or self.means["stores"]

    @property
    def cost(self) -> float:
        """Transactions of a block, of loads and stores."""
        return self.means["all_transactions"]

    @property
    def rows(self) -> float:
        """Warp instructions of a block."""
        return self.means["rows"]

    def total(self, name: str) -> Total:
        """Return a count of the whole grid; "work" is one, too."""
        if name == "work":
            name = "loads" if self.means["loads"] else "stores"
        return Total(self.blocks * self.means[name], self.blocks * self.errors[name])


def count_blocks(trace: Trace, gpu: GPU, options: Options, blocks: int, work: float, seed: int) -> BlockCounts:
    """Count a random sample of the first `blocks` blocks, which takes a small share of `work` transactions.

    The sample has one block of each of many strata of consecutive blocks.
    """
    first = _count_some(trace, gpu, options, _choose(blocks, MIN_COUNTED_BLOCKS, seed))
    cost = float(first[:, BLOCK_COUNTS.index("all_transactions")].mean()) / COUNTING_SPEED
    opening = OPENING_COST * trace.launch.block_warps
    number = int(COUNTED_SHARE * min(work / (cost + opening), blocks))
    counts = first
    if number > 2 * len(first):
        counts = _count_some(trace, gpu, options, _choose(blocks, number, seed))
    means, errors = counts.mean(axis=0), np.zeros(len(BLOCK_COUNTS))
    if len(counts) < blocks:
        # Neighbouring strata differ less than distant ones; half their mean square difference is the variance of one.
        variance = (np.diff(counts, axis=0) ** 2).sum(axis=0) / 2 / max(1, len(counts) - 1) / len(counts)
        errors = np.maximum(np.sqrt(variance * (1 - len(counts) / blocks)), LEAST_ERROR * means)
    columns = (dict(zip(BLOCK_COUNTS, column.tolist(), strict=True)) for column in (means, errors))
    return BlockCounts(blocks, *columns)


def _choose(blocks: int, number: int, seed: int) -> NDArray[np.int64]:
    """Return the ids of `number` blocks, one of each stratum at random; of all blocks if there are no more."""
    if number >= blocks:
        return np.arange(blocks)
    edges = np.arange(number + 1) * blocks / number
    at = edges[:-1] + np.random.default_rng([SAMPLE_SALT, seed, number]).random(number) * np.diff(edges)
    return np.minimum(at.astype(np.int64), blocks - 1)


def _count_some(trace: Trace, gpu: GPU, options: Options, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a row with the counts of each block."""
    chunk, rule = make_chunk(gpu, options), store_rule(options)
    bypass = bypass_table(gpu.l1) if bypasses_l1(gpu.l1, trace) else None
    counts = np.zeros((len(ids), len(BLOCK_COUNTS)))
    for row, block in zip(counts, ids.tolist(), strict=True):
        for stream in open_block(trace, block, gpu.l1.line, rule, gpu.l1.request_bytes, bypass):
            more = True
            while more:
                more = stream.fill(chunk)
                row += _count_chunk(chunk)
    return counts


def _count_chunk(chunk: Chunk) -> list[int]:
    """Return the counts of the instructions in a chunk, in the order of `BLOCK_COUNTS`."""
    op, count = chunk.op[: chunk.n], chunk.count[: chunk.n]
    sectors = np.bitwise_count(chunk.masks[: chunk.used]) if len(chunk.masks) else np.ones(chunk.used, np.uint8)
    ends = np.concatenate([[0], np.cumsum(sectors, dtype=np.int64)])[np.cumsum(count)]
    of_row = np.diff(ends, prepend=0)
    looks, passes = op == int(Op.LOAD), op == BYPASS
    stores = ~(looks | passes)
    kinds = [(int(count[kind].sum()), int(of_row[kind].sum())) for kind in (looks, passes, stores)]
    loads, written = (int(np.count_nonzero(count[kind])) for kind in (looks | passes, stores))
    return [chunk.n, loads, written, chunk.used, *(number for kind in kinds for number in kind)]
