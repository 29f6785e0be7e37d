"""Measure reuse distances per set and classify misses by a fully associative shadow.

The rules are in docs/model.md, sections 5 and 8.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

import numpy as np
from sortedcontainers import SortedList

from rdmodel.gpu.config import CacheConfig
from rdmodel.reuse.histogram import INFINITE

Cause = Literal["compulsory", "capacity", "associativity"]
"""Cause of a miss."""


class ReuseStack:
    """Lines in the order of their last touch; a query takes O(log n) for n distinct lines."""

    def __init__(self) -> None:
        self._clock = 0
        self._last: dict[int, int] = {}
        self._times = SortedList()

    def distance(self, line: int) -> int:
        """Return the number of distinct other lines touched since `line` was, or `INFINITE`."""
        if line not in self._last:
            return INFINITE
        return len(self._times) - int(self._times.bisect_right(self._last[line]))

    def touch(self, line: int) -> None:
        """Move `line` to the top of the stack."""
        if line in self._last:
            self._times.remove(self._last[line])
        self._last[line] = self._clock
        self._times.add(self._clock)
        self._clock += 1


class Stacks:
    """A reuse stack for every set of a cache, one for the fully associative shadow, and the lines that have missed."""

    def __init__(self, cache: CacheConfig) -> None:
        self._cache = cache
        self._sets: defaultdict[int, ReuseStack] = defaultdict(ReuseStack)
        self._shadow = ReuseStack()
        self._set_of: dict[int, int] = {}
        self._missed: set[int] = set()

    def set_of(self, line: int) -> int:
        """Return the set of `line` under the cache's index function."""
        if line not in self._set_of:
            cache = self._cache
            sets = cache.index.set_of(np.array([line], dtype=np.int64), cache.sets, cache.line)
            self._set_of[line] = int(sets[0])
        return self._set_of[line]

    def distance(self, line: int) -> int:
        """Return the reuse distance of `line` within its set."""
        return self._sets[self.set_of(line)].distance(line)

    def cause(self, line: int) -> Cause:
        """Classify a miss of `line` and remember it; call once per miss, before `touch`."""
        if line not in self._missed:
            self._missed.add(line)
            return "compulsory"
        distance = self._shadow.distance(line)
        return "associativity" if INFINITE < distance < self._cache.lines else "capacity"

    def touch(self, line: int) -> None:
        """Move `line` to the top of its set's stack and of the shadow's."""
        self._sets[self.set_of(line)].touch(line)
        self._shadow.touch(line)


class SectoredShadow:
    """A fully associative LRU cache of sectored lines, and the sectors that loads have asked for.

    It classifies misses of the `hardware` definition by sector (docs/model.md section 13). Masks have a bit per sector.
    """

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._asked: defaultdict[int, int] = defaultdict(int)
        self._held: dict[int, int] = {}  # sectors of the lines in the cache, the least recently used line first

    def causes(self, line: int, missing: int) -> Iterator[Cause]:
        """Return the cause of the miss of each sector in the mask `missing`; call it before `load`."""
        for sector in range(missing.bit_length()):
            bit = missing & 1 << sector
            if not bit:
                continue
            if not bit & self._asked[line]:
                yield "compulsory"
            else:
                yield "associativity" if bit & self._held.get(line, 0) else "capacity"

    def load(self, line: int, sectors: int) -> None:
        """Serve a load of some sectors of a line."""
        self._asked[line] |= sectors
        self._held[line] = self._held.pop(line, 0) | sectors
        if len(self._held) > self._lines:
            del self._held[next(iter(self._held))]
