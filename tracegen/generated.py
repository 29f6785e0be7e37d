"""Define the base of traces that generate their blocks on demand."""

from __future__ import annotations

from collections.abc import Container, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Program, Trace, check_blocks
from rdmodel.trace.expansion import concatenate, expand


class GeneratedTrace(Trace):
    """A trace that takes no memory: each call of `block` generates the `Program` of a block.

    `launch` and `blocks` are as in `Trace`; `params` are the kernel's sizes. `columns` generates all instructions on
    first use and keeps them: a trace of 10^8 instructions is better read block by block.
    """

    params: dict[str, Any]

    def __repr__(self) -> str:
        sizes = "".join(f", {name}={value}" for name, value in self.params.items())
        return (
            f"{type(self).__name__}({self.launch.kernel!r}, grid={self.launch.grid}, block={self.launch.block}{sizes})"
        )

    def block(self, block: int) -> Program:
        """Generate the `Program` of one block; raise `TraceError` if the trace does not hold it."""
        raise TraceError(f"{type(self).__name__}: has no method block(block), which returns the Program of a block")

    def cut(self, blocks: Sequence[int]) -> Self:
        """Return the same trace with only some blocks of the grid; raise `TraceError` as `Trace` does."""
        other = copy(self)
        for cached in ("columns", "_block_ids", "_length"):
            other.__dict__.pop(cached, None)
        other.blocks = check_blocks(self.launch, blocks)
        return other

    @cached_property
    def _block_ids(self) -> Container[int]:
        assert self.blocks is not None
        return self.blocks if isinstance(self.blocks, range) else frozenset(int(block) for block in self.blocks)

    @cached_property
    def _length(self) -> int:
        assert self.blocks is not None
        return sum(segment.instructions for block in self.blocks for segment in self.block(block))

    def __len__(self) -> int:
        """Return the number of warp instructions; the first call generates every block."""
        return self._length

    @cached_property
    def columns(self) -> Columns:  # type: ignore[override]
        """All instructions of all blocks; the first use generates every block."""
        assert self.blocks is not None
        return concatenate([expand(self.block(block), self.launch.block_warps) for block in self.blocks])
