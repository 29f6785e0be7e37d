"""The L2 that the modelled SMs share: no time of its own, least recently used lines go (docs/model.md section 12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.reference.model.record import Request


@dataclass(slots=True)
class L2Counts:
    """What the L2 counted; `dirty` lines are still there at the end."""

    reads: int = 0
    hits: int = 0
    writes: int = 0
    write_hits: int = 0
    write_backs: int = 0
    dirty: int = 0


def shared_l2(logs: Sequence[Sequence[Request]], slices: int, sets: int, ways: int) -> L2Counts:
    """Serve what left each SM, by time, then by SM, then as it left, in `slices` of `sets` of `ways` lines."""
    requests = sorted(
        ((request.time, sm, place), request) for sm, log in enumerate(logs) for place, request in enumerate(log)
    )
    counts = L2Counts()
    held: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # least recently used first
    dirty: set[int] = set()
    for _, (_, line, write) in requests:
        lines = held[line % slices, line // slices % sets]
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
            old = lines.pop(0)
            counts.write_backs += old in dirty
            dirty.discard(old)
        lines.append(line)
        if write:
            dirty.add(line)
    counts.dirty = len(dirty)
    return counts
