"""Give compiled parsers room for warp instructions in a `Gathering`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from rdmodel.errors import TraceError
from rdmodel.trace import Columns
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.ordering.packed import PackedInstructions
from tracegen.formats.ordering.rows import NO_ACCESS_OP, ROW_TYPE, Rows, Words

R = TypeVar("R")

FULL_EVENT = 4
"""The event of parsers that ask for room: `ParsedInstructions.make_room`."""


class ParsedInstructions:
    """Instructions of a launch that a parser writes to `gathering`, which must be set by the time of the first one."""

    def __init__(self, gathering: Gathering | None = None) -> None:
        self.gathering = gathering
        self._accesses = 0

    @property
    def room(self) -> tuple[Rows, int, Words, int]:
        """The arrays of rows and of their packed addresses, each with the number that it holds already."""
        return (np.empty(0, ROW_TYPE), 0, np.empty(0, np.int64), 0) if self.gathering is None else self.gathering.room

    def take(self, row: int, used: int) -> None:
        """Take the rows and words that a parser has written: the arrays of `room` hold `row` and `used` now."""
        if self.gathering is None:
            return
        rows, before, _, _ = self.gathering.room
        self._accesses += int(np.count_nonzero(rows["op"][before:row] != NO_ACCESS_OP))
        self.gathering.take(row, used)

    def make_room(self) -> None:
        """Make room for at least one instruction; raise `TraceError` if a temporary file cannot be written."""
        assert self.gathering is not None
        self.gathering.make_room()

    def finish(self, launch_name: str) -> tuple[Columns, Sequence[int]]:
        """Return the columns and blocks as `Gathering.finish` does; raise `TraceError` for a launch without accesses.

        Messages begin with `launch_name`.
        """
        return self._finished(launch_name, Gathering.finish)

    def finish_packed(self, launch_name: str) -> PackedInstructions | None:
        """Return the packed instructions as `Gathering.finish_packed` does, or None if `finish` must be called."""
        return self._finished(launch_name, Gathering.finish_packed)

    def _finished(self, launch_name: str, finish: Callable[[Gathering], R]) -> R:
        if self.gathering is None or not self._accesses:
            raise TraceError(f"{launch_name}: no accesses to global or local memory")
        try:
            return finish(self.gathering)
        except TraceError as error:
            raise TraceError(f"{launch_name}: {error}") from None
