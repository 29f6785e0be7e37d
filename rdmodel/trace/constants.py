"""Collect the places of constant memory that blocks read, in the units in which a GPU fetches them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace.columns import Columns, Program, Segment, Space
from rdmodel.trace.launch import WARP, Launch
from rdmodel.trace.moved import segments_of

MAX_KNOWN_COLUMNS, MAX_KNOWN_INSTRUCTIONS = 256, 4096
"""Columns of segments whose loads from constant memory are remembered, and the longest one of them."""

_CONSTANT = int(Space.CONSTANT)


class ConstantReads:
    """The aligned units of constant memory that blocks read, each of them once.

    Loads outside all arrays are left out if the launch names arrays: they read parameters of the kernel, which are no
    data of it. Time O(instructions) per block, memory O(distinct units).

    Parameters
    ----------
    launch
        The launch of the blocks, with the places of its arrays.
    unit
        Bytes of a unit, a power of two; 0: unknown, nothing is collected.
    """

    def __init__(self, launch: Launch, unit: int) -> None:
        self.unit = unit
        self.numbers: set[int] = set()
        """Addresses of the units, divided by `unit`."""
        self._bases = np.array([array.base for array in launch.arrays], np.int64)
        self._ends = np.array([array.base + array.bytes for array in launch.arrays], np.int64)
        self._places: dict[int, tuple[NDArray[np.uint8], list[int]]] = {}

    def add(self, content: Columns | Program, first: int, warps: int) -> None:
        """Add what a block reads: `content` holds it, with its `warps` warps from the warp `first` on."""
        if not self.unit:
            return
        if isinstance(content, Columns):
            self._add_rows(content, int(content.warp_start[first]), int(content.warp_start[first + warps]))
            return
        if any(self._constant_loads(segment) for segment in segments_of(content)):
            for segment in content:
                self._add_segment(segment)

    def _constant_loads(self, segment: Segment) -> list[int]:
        """Return the places of the loads from constant memory; segments of many blocks share the column they have."""
        spaces = segment.space
        known = self._places.get(id(spaces))
        if known is not None:
            return known[1]
        places: list[int] = np.flatnonzero(spaces == _CONSTANT).tolist()
        if len(spaces) <= MAX_KNOWN_INSTRUCTIONS:
            if len(self._places) >= MAX_KNOWN_COLUMNS:
                self._places.clear()
            # The entry holds the column, so that no other one can get the id of its key.
            self._places[id(spaces)] = spaces, places
        return places

    def _add_rows(self, columns: Columns, first: int, end: int) -> None:
        rows = first + np.flatnonzero(columns.space[first:end] == _CONSTANT)
        if not len(rows):
            return
        starts = columns.address_start[rows]
        lanes = columns.address_start[rows + 1] - starts
        at = np.repeat(starts - (np.cumsum(lanes) - lanes), lanes) + np.arange(int(lanes.sum()))
        addresses, sizes = columns.addresses[at], np.repeat(columns.size[rows], lanes)
        for size in np.unique(sizes).tolist():
            self._add_units(self._inside(np.unique(addresses[sizes == size])), size)

    def _add_segment(self, segment: Segment) -> None:
        for at in self._constant_loads(segment):
            active = (segment.mask[:, at, None] >> np.arange(WARP, dtype=np.uint32) & 1).astype(np.bool_)
            begins = self._inside(np.unique(segment.base[:, at][active]))
            size, step = int(segment.size[at]), int(segment.step[at])
            way = step * (segment.trips - 1)
            if abs(step) <= self.unit:
                # No unit on the way is left out: a step is at most as long as one.
                for begin in begins.tolist():
                    low, high = min(begin, begin + way), max(begin, begin + way) + size - 1
                    self.numbers.update(range(low // self.unit, high // self.unit + 1))
            else:
                for begin in begins.tolist():
                    self._add_units(begin + step * np.arange(segment.trips, dtype=np.int64), size)

    def _add_units(self, places: NDArray[np.int64], size: int) -> None:
        """Add the units of accesses to `size` bytes, at most 16: an access lies in one unit or in two neighbours."""
        self.numbers.update((places // self.unit).tolist(), ((places + size - 1) // self.unit).tolist())

    def _inside(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the addresses that lie in arrays; all of them if no arrays are known."""
        if not len(self._bases):
            return addresses
        within = (addresses[:, None] >= self._bases) & (addresses[:, None] < self._ends)
        kept: NDArray[np.int64] = addresses[within.any(axis=1)]
        return kept
