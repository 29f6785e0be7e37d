"""The log of a run and the names of what is counted."""

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
)
SLICE_COUNTERS = (
    "reads",
    "hits",
    "pending_hits",
    "misses",
    "bypassed",
    "writes",
    "write_hits",
    "fail_line_alloc",
    "fail_mshr_entry",
    "fail_mshr_merge",
    "fail_dram_queue",
)
CHANNEL_COUNTERS = ("reads", "writes", "activations")

NON_MEMORY, MEMORY, BARRIER = range(3)
"""Kinds of an ``issue`` in the log."""

HIT, PENDING, MISS, WRITE, BYPASSED = range(5)
"""Outcomes of an ``access`` in the log."""

WRITE_HIT, WRITE_MISS, SLICE_BYPASSED = 3, 4, 5
"""Outcomes of a ``slice`` in the log, beside `HIT`, `PENDING` and `MISS`."""

Counters = dict[str, int]
Entry = tuple[object, ...]


def zero_counters(names: Iterable[str]) -> Counters:
    """Return a counter at 0 for every name."""
    return dict.fromkeys(names, 0)


class EventLog:
    """What events, in order; its length is known (`events`) even where the entries are not kept."""

    def __init__(self, *, keep: bool) -> None:
        self.entries: list[Entry] = []
        self.events = 0
        self._keep = keep

    def record(self, *entry: object) -> None:
        """Take note of one event: its name, its time, and what the contract of the log says of it."""
        self.events += 1
        if self._keep:
            self.entries.append(entry)
