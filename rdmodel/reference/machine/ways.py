"""Model sets of ways with LRU replacement, for the L1 and for the slices of the L2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rdmodel.reference.machine.instruction import Owner
from rdmodel.reference.machine.messages import Transaction

State = Literal["invalid", "reserved", "valid"]
"""State of a way; a reserved way waits for its line."""
NOBODY = Owner(-1, -1)
"""Owner of a line that no warp brought."""


@dataclass(slots=True, eq=False)
class Way:
    """One way: its line, its state, and the warp that brought the line.

    `last_use` and `placed` are the values of `Ways.uses` at the last use of the line, and when it got the way. A
    `ghost` is a valid line without data: the tag only records that the line would be there. In the L1, `load` is the
    load transaction that brought the line, if one did. `reuses` counts the loads that found the line since it is valid,
    or waited for it. In a cache with sectors, `sectors` are those whose data is there, `pending` those in flight, and
    `written` those that were written in place; the way is reserved while some sector is in flight. In the L2, `cleaned`
    are sectors that were written, and then written back while the line stayed.
    """

    line: int = -1
    state: State = "invalid"
    dirty: bool = False
    last_use: int = 0
    placed: int = 0
    bringer: Owner = NOBODY
    ghost: bool = False
    load: Transaction | None = None
    reuses: int = 0
    sectors: int = 0
    pending: int = 0
    written: int = 0
    cleaned: int = 0


IsProtected = Callable[[Way], bool]
"""A function that says whether the line of a valid way must not be replaced."""


class Ways:
    """All ways of a cache; the caller says to which set a line belongs. `uses` counts touches and placements."""

    def __init__(self, sets: int, ways: int) -> None:
        self._sets = [[Way() for _ in range(ways)] for _ in range(sets)]
        self.uses = 0

    def __iter__(self) -> Iterator[Way]:
        return (way for ways in self._sets for way in ways)

    def find(self, index: int, line: int) -> Way | None:
        """Return the way of set `index` that holds `line` or is reserved for it."""
        for way in self._sets[index]:
            if way.state != "invalid" and way.line == line:
                return way
        return None

    def of_set(self, index: int) -> list[Way]:
        """Return the ways of set `index`."""
        return self._sets[index]

    def victim(self, index: int, is_protected: IsProtected = lambda way: False) -> Way | None:
        """Return the way that a new line of set `index` would take; None if all are reserved or protected."""
        for way in self._sets[index]:
            if way.state == "invalid":
                return way
        valid = [way for way in self._sets[index] if way.state == "valid" and not is_protected(way)]
        return min(valid, key=lambda way: way.last_use, default=None)

    def forget_ghosts(self) -> None:
        """Invalidate all ghosts."""
        for way in self:
            if way.state == "valid" and way.ghost:
                way.state = "invalid"

    def touch(self, way: Way) -> None:
        """Make `way` the most recently used."""
        self.uses += 1
        way.last_use = self.uses

    def place(self, way: Way, line: int, state: State, bringer: Owner = NOBODY, *, dirty: bool = False) -> None:
        """Give `way` to `line` as the most recently used; drop the line that it held."""
        way.line, way.state, way.dirty, way.bringer, way.ghost = line, state, dirty, bringer, False
        way.load, way.reuses = None, 0
        way.sectors = way.pending = way.written = way.cleaned = 0
        self.touch(way)
        way.placed = way.last_use
