"""Correct the counts of excerpts by the transactions of whole blocks, which do not depend on time.

A block that is written out without loops has different instructions at its beginning and at its end, such as loads and
stores. A part of it is no sample of the whole. Its rates are better than its counts: misses per sector that is loaded,
or sectors found in the L2 per sector that is stored. These rates are applied to the sectors of whole blocks, as the
sampling of grids does (`rdmodel.model.sample_grid`).
"""

from __future__ import annotations

from math import hypot

from rdmodel.model.count_blocks import BlockCounts

LOOKUPS = ("requests", "transactions")
"""Counters of loads that follow their transactions, not their sectors."""

BYPASSED = ("bypassed_requests", "bypassed_transactions", "bypassed_sectors")
"""Counters of loads that do not look into the L1."""

L2_LOADS = ("l2_reads", "l2_hits", "l2_misses", "l2_dram_read_sectors", "l2_partition_sectors")
"""Counters of the L2 that follow the sectors of all loads."""

L2_STORES = ("l2_writes", "l2_write_hits", "l2_dirtied", "l2_atomic_sectors")
"""Counters of the L2 that follow the sectors of stores."""

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


def _ratio(known: float, count: float) -> float:
    return known / count if count else 1.0
