"""Some blocks of a trace as a trace of their own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from rdmodel.trace.columns import Columns, Program
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.trace import Trace, missing_block


class PartialTrace(DerivedTrace):
    """A view of the trace `original` that has those of the given blocks which it holds; nothing is copied.

    All other properties are those of `original`. `blocks` are ascending ids.
    """

    def __init__(self, original: Trace, blocks: Iterable[int]) -> None:
        assert original.blocks is not None
        held = original.blocks
        places = ((block, bisect_left(held, block)) for block in blocks)
        self.launch, self.original = original.launch, original
        self.blocks = [block for block, at in places if at < len(held) and held[at] == block]
        self.params, self.pages = original.params, original.pages

    def __len__(self) -> int:
        """Return the number of warp instructions in the blocks."""
        assert self.blocks is not None
        return sum(self._length(self.block(block)) for block in self.blocks)

    @staticmethod
    def _length(content: Columns | Program) -> int:
        return len(content) if isinstance(content, Columns) else sum(segment.instructions for segment in content)

    def block(self, block: int) -> Columns | Program:
        """Return one block; raise `TraceError` if this trace does not have it."""
        self._refuse_others(block)
        return self.original.block(block)

    def locate(self, block: int) -> tuple[Columns | Program, int]:
        """Return what contains a block, and the number of the block's first warp in it."""
        self._refuse_others(block)
        return self.original.locate(block)

    def count_lanes(self, block: int) -> int | None:
        """Return the number of addresses of a block, or None if it is not known."""
        self._refuse_others(block)
        return self.original.count_lanes(block)

    def _refuse_others(self, block: int) -> None:
        assert self.blocks is not None
        at = bisect_left(self.blocks, block)
        if at == len(self.blocks) or self.blocks[at] != block:
            raise missing_block(self, block)
