"""Some blocks of a trace as a trace of their own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rdmodel.trace.caching import count_instructions
from rdmodel.trace.columns import Columns, Program
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.trace import Trace


class PartialTrace(DerivedTrace):
    """A view of the trace `original` that has those of the given blocks which it holds; nothing is copied.

    All other properties are those of `original`. `blocks` are ascending ids.
    """

    def __init__(self, original: Trace, blocks: Iterable[int]) -> None:
        assert original.blocks is not None
        self.launch, self.original = original.launch, original
        self.blocks = np.intersect1d(original.blocks, list(blocks)).tolist()
        self.params, self.pages = original.params, original.pages

    def __len__(self) -> int:
        """Return the number of warp instructions in the blocks."""
        assert self.blocks is not None
        return sum(count_instructions(self.block(block)) for block in self.blocks)

    def block(self, block: int) -> Columns | Program:
        """Return one block; raise `TraceError` if this trace does not have it."""
        self._first_warp(block)  # raises the error
        return self.original.block(block)

    def locate(self, block: int) -> tuple[Columns | Program, int]:
        """Return what contains a block, and the number of the block's first warp in it."""
        self._first_warp(block)  # raises the error
        return self.original.locate(block)

    def count_lanes(self, block: int) -> int | None:
        """Return the number of addresses of a block, or None if it is not known."""
        self._first_warp(block)  # raises the error
        return self.original.count_lanes(block)
