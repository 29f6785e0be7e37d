"""Tell which set gives up data that belong to no set, for the references of both engines."""

from __future__ import annotations

from collections.abc import Iterator


class Turns:
    """The turns of the sets of an L1, of which each of `pools` equal parts shares data (docs/gpus.md)."""

    def __init__(self, sets: int, pools: int) -> None:
        self._parts = [range(first, first + sets // pools) for first in range(0, sets, sets // pools)]
        self._next = [part[0] for part in self._parts]

    def part_of(self, number: int) -> range:
        """Return the sets that share data with a set, itself included."""
        return next(part for part in self._parts if number in part)

    def order(self, number: int) -> Iterator[int]:
        """Yield the sets that share data with a set, from the one whose turn it is."""
        part = self.part_of(number)
        first = self._next[self._parts.index(part)]
        yield from range(first, part.stop)
        yield from range(part.start, first)

    def give(self, number: int) -> None:
        """Note that a set has given data."""
        part = self.part_of(number)
        self._next[self._parts.index(part)] = number + 1 if number + 1 in part else part[0]
