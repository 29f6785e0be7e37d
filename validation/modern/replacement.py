"""Replay the measured scans through caches with other replacement, in plain Python.

`again` and `reverse` read with one thread, so the order of their accesses is known. The warps of `rounds` are taken to
be in step here: they read all data in a circle.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Protocol

import numpy as np

from rdmodel.policies import BXor, Linear, PMod
from rdmodel.policies.index import IndexFunction
from validation.modern.cases import Point

WARM_UP, COUNTED = 5, 10
"""Rounds of `rounds` before counting begins, and those that are counted."""

LINE = 128


class Set(Protocol):
    """A set of ways with some replacement."""

    def access(self, line: int) -> bool:
        """Look up a line, and bring it if it is absent; return whether it was there."""


class LeastRecent:
    """Replace the least recently used line."""

    def __init__(self, ways: int) -> None:
        self._ways = ways
        self._lines: OrderedDict[int, None] = OrderedDict()

    def access(self, line: int) -> bool:
        """Look up a line, and bring it if it is absent; return whether it was there."""
        found = line in self._lines
        if not found and len(self._lines) == self._ways:
            self._lines.popitem(last=False)
        self._lines[line] = None
        self._lines.move_to_end(line)
        return found


class NotRecent:
    """Replace the first line whose bit is 0; an access sets the bit, and the last bit to be set clears all others."""

    def __init__(self, ways: int) -> None:
        self._lines: list[int] = [-1] * ways
        self._used = [False] * ways
        self._places: dict[int, int] = {}

    def access(self, line: int) -> bool:
        """Look up a line, and bring it if it is absent; return whether it was there."""
        found = line in self._places
        if not found:
            place = self._used.index(False)
            self._places.pop(self._lines[place], None)
            self._lines[place], self._places[line] = line, place
        self._used[self._places[line]] = True
        if all(self._used):
            self._used = [False] * len(self._used)
            self._used[self._places[line]] = True
        return found


class AnyLine:
    """Replace a random line of a full set."""

    def __init__(self, ways: int) -> None:
        self._ways = ways
        self._lines: list[int] = []
        self._present: set[int] = set()
        self._random = random.Random(0)

    def access(self, line: int) -> bool:
        """Look up a line, and bring it if it is absent; return whether it was there."""
        if line in self._present:
            return True
        self._present.add(line)
        if len(self._lines) < self._ways:
            self._lines.append(line)
        else:
            place = self._random.randrange(self._ways)
            self._present.remove(self._lines[place])
            self._lines[place] = line
        return False


REPLACEMENTS: dict[str, type[LeastRecent | NotRecent | AnyLine]] = {
    "LRU": LeastRecent,
    "not recently used": NotRecent,
    "random": AnyLine,
}
SHARES = (1.0, 0.95, 0.82)
"""Shares of the lines of the nominal size that hold data; the others are reserved for something else."""


def organisations(nominal: int) -> Iterator[tuple[str, IndexFunction, int, int]]:
    """Yield descriptions, index functions, numbers of sets and of ways of caches of up to `nominal` lines."""
    for share in SHARES:
        lines = int(share * nominal)
        yield f"{share:.0%} of the lines, 4 sets, linear", Linear(), 4, lines // 4
        if share == 1:
            yield f"{share:.0%} of the lines, 64 sets, bxor", BXor(), 64, lines // 64
        yield f"{share:.0%} of the lines, 6 ways, pmod", PMod(), lines // 6, 6


def miss_ratio(point: Point, index: IndexFunction, sets: int, ways: int, replacement: str) -> float:
    """Return the percentage of accesses that miss at a point of a curve, as it was measured."""
    lines = point.kib << 10 >> 7
    places = index.set_of(np.arange(lines), sets, LINE).tolist()
    cache = [REPLACEMENTS[replacement](ways) for _ in range(sets)]

    def misses(order: Iterable[int]) -> int:
        return sum(not cache[places[line]].access(line) for line in order)

    if point.curve == "rounds":
        misses(chain.from_iterable(repeat(range(lines), WARM_UP)))
        return 100 * misses(chain.from_iterable(repeat(range(lines), COUNTED))) / (COUNTED * lines)
    back = range(lines - 1, -1, -1)
    return 100 * (misses(range(lines)) + misses(range(lines) if point.curve == "again" else back)) / (2 * lines)
