"""Define recorded traces whose instructions stay packed until a block is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rdmodel.trace import Columns, Launch, check_blocks
from rdmodel.trace.storage import find_pages
from tracegen.formats.ordering.packed import PackedInstructions
from tracegen.formats.recorded_trace import RecordedTrace, Skipped


class PackedTrace(RecordedTrace):
    """A recorded trace that is too long for memory, and whose blocks are unpacked one by one.

    `columns` are made in temporary files when they are asked for, and blocks are read from them from then on.
    """

    def __init__(self, launch: Launch, packed: PackedInstructions, *, skipped: Skipped, advice: str = "") -> None:
        self.launch, self.blocks = launch, check_blocks(launch, packed.blocks)
        self.trusted, self.skipped, self.advice, self.notes = True, skipped, advice, ()
        self.pages = None
        self._packed = packed

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return self._packed.accesses

    def __copy__(self) -> PackedTrace:
        """Return a trace that shares the instructions of this one."""
        other = object.__new__(PackedTrace)
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Give other processes the columns."""
        columns, blocks = self.columns, self._packed.blocks
        return _recorded, (self.launch, columns, blocks, self.blocks, self.skipped, self.advice)

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        """Instructions of all warps, mapped from temporary files."""
        columns = self._packed.columns()
        if self.pages is None:
            self.pages = find_pages(columns)
        return columns

    @property
    def stored(self) -> bool:
        """True, since there are columns of all blocks once they are asked for."""
        return True

    @property
    def may_have_cache_ops(self) -> bool:
        """False if no instruction has a cache operator."""
        return self._packed.has_cache_ops

    def block(self, block: int) -> Columns:
        """Return the instructions of one block; raise `TraceError` if the trace does not hold it."""
        self._first_warp(block)
        return self._packed.block(block)

    def locate(self, block: int) -> tuple[Columns, int]:
        """Return columns that contain a block, and the number of its first warp in them."""
        self._first_warp(block)
        return self._packed.locate(block)

    def count_lanes(self, block: int) -> int:
        """Return the number of addresses of a block."""
        self._first_warp(block)
        return self._packed.lanes(block)


def _recorded(
    launch: Launch,
    columns: Columns,
    held: Sequence[int],
    blocks: Sequence[int],
    skipped: Skipped,
    advice: str,
) -> RecordedTrace:
    trace = RecordedTrace(launch, columns, held, trusted=True, skipped=skipped, advice=advice)
    trace.blocks = blocks  # perhaps only the first ones
    return trace
