"""Model sets of ways with LRU replacement, for the L1 and for the slices of the L2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rdmodel.reference.machine.instruction import Owner
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.turns import Turns

State = Literal["invalid", "reserved", "valid"]
"""State of a way; a reserved way waits for its line."""
NOBODY = Owner(-1, -1)
"""Owner of a line that no warp brought."""


@dataclass(slots=True, eq=False)
class Way:
    """One way: its line, its state, and the warp that brought the line.

    `last_use` and `placed` are the values of `Ways.uses` at the last use of the line, and when it got the way; `since`
    is the value since when its place in the order of its set is what it is. A `protected` line leaves last. A
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
    since: int = 0
    protected: bool = False
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


def leaving_order(way: Way) -> tuple[bool, int]:
    """Return the key by which the lines of a set leave: first those that are not protected, the oldest first."""
    return way.protected, way.since


class Ways:
    """All ways of a cache; the caller says to which set a line belongs. `uses` counts touches and placements.

    With a `pool`, the ways are tags alone, and so many lines have data, in `pools` equal parts (docs/gpus.md). If all
    data are in use, the way that a line takes may be one of another set: `place` then exchanges it for an empty one of
    the line's set, which `set_of` tells. Of the lines of a set that were used again, the `protected` most recent leave
    last.
    """

    def __init__(
        self,
        sets: int,
        ways: int,
        pool: int = 0,
        set_of: Callable[[int], int] | None = None,
        pools: int = 1,
        protected: int = 0,
    ) -> None:
        self._sets = [[Way() for _ in range(ways)] for _ in range(sets)]
        self._lines, self._set_of, self._protected = pool // pools, set_of, protected
        self._turns = Turns(sets, pools)
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
                return way if self._has_data(index) else self._way_whose_turn_it_is(index)
        return self._oldest(index, is_protected)

    def _oldest(self, index: int, is_protected: IsProtected = lambda way: False) -> Way | None:
        valid = [way for way in self._sets[index] if way.state == "valid" and not is_protected(way)]
        return min(valid, key=leaving_order, default=None)

    def _has_data(self, index: int) -> bool:
        part = [way for number in self._turns.part_of(index) for way in self._sets[number]]
        return not self._lines or sum(way.state != "invalid" for way in part) < self._lines

    def _way_whose_turn_it_is(self, index: int) -> Way | None:
        """Return the way that gives its data to a line of set `index`; None if all lines are reserved."""
        found = map(self._oldest, self._turns.order(index))
        return next((way for way in found if way is not None), None)

    def forget_ghosts(self) -> None:
        """Invalidate all ghosts."""
        for way in self:
            if way.state == "valid" and way.ghost:
                way.state = "invalid"

    def touch(self, way: Way) -> None:
        """Make `way` the most recently used; its line was used before."""
        self._use(way)
        if not self._protected:
            return
        way.protected = True
        ways = next(ways for ways in self._sets if any(each is way for each in ways))
        protected = [each for each in ways if each.state != "invalid" and each.protected]
        if len(protected) > self._protected:
            oldest = min(protected, key=lambda each: each.since)
            oldest.protected, oldest.since = False, self.uses

    def _use(self, way: Way) -> None:
        self.uses += 1
        way.last_use = way.since = self.uses

    def place(self, way: Way, line: int, state: State, bringer: Owner = NOBODY, *, dirty: bool = False) -> None:
        """Give `way` to `line` as the most recently used; drop the line that it held."""
        if self._set_of is not None:
            self._give_data(way, line)
        # A ghost whose data arrive had a way already.
        again = way.state != "invalid" and way.line == line
        way.line, way.state, way.dirty, way.bringer, way.ghost = line, state, dirty, bringer, False
        way.load, way.reuses = None, 0
        way.sectors = way.pending = way.written = way.cleaned = 0
        if again:
            self.touch(way)
        else:
            way.protected = False
            self._use(way)
        way.placed = way.last_use

    def _give_data(self, way: Way, line: int) -> None:
        """Take the way, or only the data, of the line that leaves for another one."""
        assert self._set_of is not None
        index = self._set_of(line)
        if way.state != "invalid" and way.line != line and any(each.state == "invalid" for each in self._sets[index]):
            self._turns.give(self._set_of(way.line))
        self._move(way, index)

    def _move(self, way: Way, index: int) -> None:
        """Exchange a way for an empty one of a set, unless it is in this set."""
        own = self._sets[index]
        if all(each is not way for each in own):
            others = next(ways for ways in self._sets if any(each is way for each in ways))
            empty = next(at for at, each in enumerate(own) if each.state == "invalid")
            at = next(at for at, each in enumerate(others) if each is way)
            own[empty], others[at] = way, Way()
