"""Name the counters of the reference machine, and log its events."""

from __future__ import annotations

from collections.abc import Iterable

SM_COUNTERS = (
    "blocks",
    "transactions",
    "hits",
    "pending_hits",
    "compulsory",
    "capacity",
    "associativity",
    "writes",
    "bypassed",
    "warp_instructions",
    "thread_instructions",
    "fail_line_alloc",
    "fail_mshr_entry",
    "fail_mshr_merge",
    "fail_miss_queue",
    "intra_warp",
    "cross_warp_intra_block",
    "cross_block",
    "read_messages",
    "write_messages",
    "acknowledgements",
    "sectors",
    "tag_misses",
    "sector_misses",
    "store_sectors",
    "store_hits",
    "read_sectors",
    "write_sectors",
)
"""Counters of one SM; those from `sectors` on stay 0 where lines have no sectors."""
SLICE_COUNTERS = (
    "reads",
    "hits",
    "pending_hits",
    "misses",
    "bypassed",
    "writes",
    "write_hits",
    "partition_sectors",
    "atomic_sectors",
    "fail_line_alloc",
    "fail_mshr_entry",
    "fail_mshr_merge",
    "fail_dram_queue",
)
"""Counters of one slice of the L2."""
CHANNEL_COUNTERS = ("reads", "writes", "activations")
"""Counters of one DRAM channel."""

NON_MEMORY, MEMORY, BARRIER = range(3)
"""Kinds of an ``issue`` in the log."""

HIT, PENDING, MISS, WRITE, BYPASSED = range(5)
"""Outcomes of an ``access`` in the log."""

WRITE_HIT, WRITE_MISS, SLICE_BYPASSED, SENT_ON = 3, 4, 5, 6
"""Outcomes of a ``slice`` in the log, beside `HIT`, `PENDING` and `MISS`."""

Counters = dict[str, int]
"""Counters by name."""
Entry = tuple[object, ...]
"""One event of the log: its name, its time and its details."""


def zero_counters(names: Iterable[str]) -> Counters:
    """Return a counter at 0 for every name."""
    return dict.fromkeys(names, 0)


class EventLog:
    """Events in order; `events` counts them even where the `entries` are not kept."""

    def __init__(self, *, keep: bool) -> None:
        self.entries: list[Entry] = []
        self.events = 0
        self._keep = keep

    def record(self, *entry: object) -> None:
        """Record one event: its name, its time and its details."""
        self.events += 1
        if self._keep:
            self.entries.append(entry)
