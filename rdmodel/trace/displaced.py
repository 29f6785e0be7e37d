"""Move the arrays of a trace to other addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace.columns import LAST_ADDRESS, Columns, Program
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.launch import ArrayInfo
from rdmodel.trace.local_memory import LocalMemory
from rdmodel.trace.trace import Trace
from rdmodel.trace.work import Work


class DisplacedTrace(DerivedTrace):
    """A trace whose arrays lie further apart, as though others had been allocated between them.

    Everything moves up by ``gaps[0]`` bytes, and what begins with the i-th array, in the order of addresses, by the sum
    of ``gaps[:i + 1]``. So no two addresses meet, and addresses outside all arrays move with the array before them.
    Gaps are multiples of 256, the alignment of allocations, so that instructions coalesce as before.

    Raises `TraceError` for other gaps, and if an array would leave the address space.
    """

    def __init__(self, trace: Trace, gaps: Sequence[int]) -> None:
        self.original = trace
        arrays = sorted(trace.launch.arrays, key=lambda array: array.base)
        if any(gap < 0 or gap % 256 for gap in gaps) or not 1 <= len(gaps) <= len(arrays) + 1:
            raise TraceError(f"gaps={list(gaps)!r:.60}: must be multiples of 256, at most one more than arrays")
        padded = [*gaps, *[0] * (len(arrays) + 1 - len(gaps))]
        self._bases = np.array([array.base for array in arrays], np.int64)
        self._moves = np.cumsum(padded, dtype=np.int64)
        moved = tuple(
            ArrayInfo(array.name, array.base + int(move), array.bytes)
            for array, move in zip(arrays, self._moves[1:], strict=True)
        )
        if any(array.base + array.bytes > LAST_ADDRESS for array in moved):
            raise TraceError(f"gaps={list(gaps)!r:.60}: an array would end above address {LAST_ADDRESS}")
        self.launch, self.blocks = replace(trace.launch, arrays=moved), trace.blocks

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the kernel by name."""
        return self.original.params

    @property
    def local_memory(self) -> LocalMemory | None:
        """Addresses of the local memory of blocks, moved as an array that begins there."""
        memory = self.original.local_memory
        return None if memory is None else memory._replace(first=int(self._moved(np.array([memory.first]))[0]))

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.original)

    def block_work(self, block: int) -> Work | None:
        """Return the work of one block."""
        return self.original.block_work(block)

    def block(self, block: int) -> Columns | Program:
        """Return the instructions of one block; raises `TraceError` if the trace does not hold it."""
        content = self.original.block(block)
        if isinstance(content, Columns):
            return replace(content, addresses=self._moved(content.addresses))
        return [segment.with_lanes(self._moved(segment.base)) for segment in content]

    def _moved(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        moved: NDArray[np.int64] = addresses + self._moves[np.searchsorted(self._bases, addresses, side="right")]
        return moved
