"""Correct the counts of excerpts by the transactions, or the stores, of whole blocks, which do not depend on time.

A block that is written out without loops has different instructions at its beginning and at its end, such as loads and
stores. A part of it is no sample of the whole. Its rates are better than its counts: misses per sector that is loaded,
or sectors found in the L2 per sector that is stored. These rates are applied to the sectors of whole blocks, as the
sampling of grids does (`rdmodel.model.sample_grid`).

Of a block that is a program of loops, a part has the right loads, but may have too many or too few of the stores that
stand between loops. These are counted without going through the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

import numpy as np

from rdmodel.model.count_blocks import BlockCounts
from rdmodel.trace import FIRST_NON_L1_SPACE, Columns, Op, Trace

LOOKUPS = ("requests", "transactions")
"""Counters of loads that follow their transactions, not their sectors."""

BYPASSED = ("bypassed_requests", "bypassed_transactions", "bypassed_sectors")
"""Counters of loads that do not look into the L1."""

L2_LOADS = ("l2_reads", "l2_hits", "l2_misses", "l2_dram_read_sectors", "l2_partition_sectors")
"""Counters of the L2 that follow the sectors of all loads."""

L2_STORES = ("l2_writes", "l2_write_hits", "l2_dirtied", "l2_atomic_sectors")
"""Counters of the L2 that follow the sectors of stores."""

_STORES = (int(Op.STORE), int(Op.ATOMIC))

APART = ("instructions", "steps", "stalls_mshr", "stalls_ways", "bypassed")
"""Counters that follow neither loads nor stores."""


def fit_to_blocks(counts: dict[str, float], errors: dict[str, float], counted: BlockCounts) -> None:
    """Scale counts of a grid to the transactions of its blocks, and widen errors by how much a count changes.

    Parameters
    ----------
    counts, errors : dict
        Counts of the whole grid from excerpts, and their standard errors. Both are changed.
    counted : BlockCounts
        Counts of whole blocks.
    """
    known = {name: counted.total(name) for name in counted.means}
    loads = counts["sectors"] + counts["bypassed_sectors"]
    factors = {
        **dict.fromkeys(LOOKUPS, _ratio(known["transactions"].value, counts["transactions"])),
        **dict.fromkeys(BYPASSED, _ratio(known["bypassed_sectors"].value, counts["bypassed_sectors"])),
        **dict.fromkeys(L2_LOADS, _ratio(known["sectors"].value + known["bypassed_sectors"].value, loads)),
    }
    stored = _ratio(known["writes"].value, counts.get("l2_writes", counts["stores_sectors"]))
    of_stores = {*L2_STORES, *(name for name in counts if name.startswith("stores_"))}
    sectors = _ratio(known["sectors"].value, counts["sectors"])
    for name in counts.keys() - APART:
        factor = stored if name in of_stores else factors.get(name, sectors)
        errors[name] = hypot(factor * errors[name], (factor - 1) * counts[name])
        counts[name] *= factor
    if "l2_writes" in counts and not counts["l2_writes"]:
        # No excerpt has a store: each one is taken to write a sector that was clean.
        counts["l2_writes"] = counts["l2_dirtied"] = known["writes"].value
        errors["l2_writes"] = errors["l2_dirtied"] = known["writes"].value
    for name, of in {"transactions": "transactions", "sectors": "sectors", "l2_writes": "writes"}.items():
        if name in counts:
            counts[name], errors[name] = known[of].value, known[of].error


def count_store_requests(trace: Trace, blocks: Sequence[int]) -> float | None:
    """Return the store and atomic instructions of warps in a block, a mean of some blocks; O(segments).

    None if a block is no program of loops.
    """
    requests = 0
    for block in blocks:
        program = trace.block(block)
        if isinstance(program, Columns):
            return None
        for segment in program:
            stores = np.isin(segment.op, _STORES) & (segment.space < FIRST_NON_L1_SPACE)
            requests += segment.trips * int(np.count_nonzero(segment.mask[:, stores]))
    return requests / len(blocks)


def fit_stores(counts: dict[str, float], errors: dict[str, float], requests: float) -> None:
    """Scale the counts of stores of a grid to the `requests` that it has, and their errors likewise.

    An L1 that writes through does not count stores: then those of the L2 stay. If no excerpt has a store, each one is
    taken to write one sector of the L2 that was clean.

    Parameters
    ----------
    counts, errors : dict
        Counts of the whole grid from excerpts, and their standard errors. Both are changed.
    requests : float
        Store and atomic instructions of all warps.
    """
    if counts["stores_requests"]:
        factor = requests / counts["stores_requests"]
        for name in counts:
            if name in L2_STORES or name.startswith("stores_"):
                counts[name], errors[name] = factor * counts[name], factor * errors[name]
        errors["stores_requests"] = 0.0
    elif "l2_writes" in counts and not counts["l2_writes"]:
        for name in ("l2_writes", "l2_dirtied"):
            counts[name] = errors[name] = requests


def _ratio(known: float, count: float) -> float:
    return known / count if count else 1.0
