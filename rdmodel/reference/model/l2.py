"""Restate the L2 that the modelled SMs share: without latency, LRU replacement (docs/model.md section 12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.reference.model.record import L2Request


@dataclass(slots=True)
class SharedL2Counts:
    """Counters of the reference model's L2; `dirty` is the number of dirty lines left at the end."""

    reads: int = 0
    hits: int = 0
    writes: int = 0
    write_hits: int = 0
    write_backs: int = 0
    dirty: int = 0


def shared_l2(logs: Sequence[Sequence[L2Request]], slices: int, sets: int, ways: int) -> SharedL2Counts:
    """Serve the requests that left the SMs, ordered by time, then by SM, then by their order within the SM.

    `logs` holds the requests of each SM. The L2 has `slices` of `sets` sets with `ways` lines each.
    """
    requests = sorted(
        ((request.time, sm, place), request) for sm, log in enumerate(logs) for place, request in enumerate(log)
    )
    counts = SharedL2Counts()
    lines_of_set: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # least recently used first
    dirty: set[int] = set()
    for _, (_, line, write, _) in requests:
        lines = lines_of_set[line % slices, line // slices % sets]
        hit = line in lines
        if write:
            counts.writes += 1
            counts.write_hits += hit
        else:
            counts.reads += 1
            counts.hits += hit
        if hit:
            lines.remove(line)
        elif len(lines) == ways:
            victim = lines.pop(0)
            counts.write_backs += victim in dirty
            dirty.discard(victim)
        lines.append(line)
        if write:
            dirty.add(line)
    counts.dirty = len(dirty)
    return counts
