"""Number the warps of a block so that its last warp, which may lack threads, has no active lanes without a thread.

Files that number warps by their slots on the SM do not say which warp of a block is the last one. Columns with the
warps in the order of their slots are kept unless the last warp has lanes that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch
from rdmodel.trace.lanes import last_warp_mask, wide_instructions
from rdmodel.trace.storage import find_pages
from tracegen.formats.ordering.columns import GrowingColumn

_WARPS_AT_ONCE = 1 << 18
"""Warps that are examined at a time."""

_ROWS_AT_ONCE = 1 << 14
"""Instructions that are copied at a time."""

_COPIED = ("pc", "op", "space", "size", "needs", "loop_exit", "cache_op")
"""Columns of instructions that do not change when lanes are dropped."""


def place_last_warps(
    columns: Columns, blocks: Sequence[int], launch: Launch, *, drop_lanes: bool
) -> tuple[Columns, int]:
    """Return columns in which no lane without a thread is active, and the number of lanes that were dropped.

    If the last warp of a block has such lanes, the highest other warp without them becomes the last one, one with
    instructions if there is any; the others keep their order. If all warps of the block have such lanes, those of the
    last warp are dropped. There must be no barriers.

    Raises
    ------
    TraceError
        If lanes would have to be dropped, unless `drop_lanes` is set.
    """
    copy = None
    for first, wide in _misplaced_blocks(columns, launch):
        copy = copy or _Copy(columns, launch)
        if wide.all() and not drop_lanes:
            raise TraceError(
                f"block {blocks[first // launch.block_warps]}: lanes without a thread are active: each of its "
                f"{launch.block_warps} warps has more lanes than the last warp of {launch.block_threads} threads"
            )
        copy.add_warps(first)
        if wide.all():
            copy.add_warps(first + launch.block_warps - 1)
            copy.add_narrowed_warp()
        else:
            copy.add_block_with_last(_choose_last(columns, first, wide))
    return (columns, 0) if copy is None else copy.finish()


def _misplaced_blocks(columns: Columns, launch: Launch) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield the blocks whose last warp has lanes that do not exist.

    A block is its first warp in the columns, and for each of its warps whether it fits no last warp.
    """
    warps, pages = launch.block_warps, find_pages(columns)
    step = max(_WARPS_AT_ONCE // warps, 1) * warps
    for first in range(0, columns.warps, step):
        end = min(first + step, columns.warps)
        wide = np.zeros(end - first, np.bool_)
        for _, of_warp in wide_instructions(launch, columns, first, end, pages):
            wide[of_warp - first] = True
        by_block = wide.reshape(-1, warps)
        for block in np.flatnonzero(by_block[:, -1]):
            yield first + int(block) * warps, by_block[block]


def _choose_last(columns: Columns, first: int, wide: NDArray[np.bool_]) -> int:
    """Return the warp that becomes the last one of a block, one of those that are not wide."""
    candidates = np.flatnonzero(~wide)
    lengths = np.diff(columns.warp_start[first : first + len(wide) + 1])
    return first + int(max(candidates, key=lambda warp: (lengths[warp] > 0, warp)))


class _Copy:
    """A copy of columns that is made warp by warp, in memory or in temporary files as the original is."""

    def __init__(self, columns: Columns, launch: Launch) -> None:
        self._source, self._launch = columns, launch
        self._pages = find_pages(columns)
        self._columns = {
            name: GrowingColumn(getattr(columns, name).dtype, in_memory=not self._pages.mapped)
            for name in Columns.__dataclass_fields__
            if getattr(columns, name) is not None
        }
        self._copied = [name for name in _COPIED if name in self._columns]
        for name in ("warp_start", "address_start"):
            self._columns[name].append(np.zeros(1, np.int64))
        self._next = 0
        self._dropped = 0

    def add_warps(self, end: int) -> None:
        """Copy all warps up to `end` that have not been copied."""
        self._add(self._next, end)
        self._next = max(self._next, end)

    def add_block_with_last(self, last: int) -> None:
        """Copy the next block with warp `last` behind its other warps."""
        end = self._next + self._launch.block_warps
        self._add(self._next, last)
        self._add(last + 1, end)
        self._add(last, last + 1)
        self._next = end

    def add_narrowed_warp(self) -> None:
        """Copy the next warp without the lanes that the last warp of a block does not have.

        Instructions that lose all their lanes count into the gap of the next one.
        """
        source, lanes = self._source, np.uint32(last_warp_mask(self._launch))
        first, end = (int(source.warp_start[self._next + i]) for i in (0, 1))
        left = 0
        for low in range(first, end, _ROWS_AT_ONCE):
            part = slice(low, min(low + _ROWS_AT_ONCE, end))
            before, mask = source.mask[part], source.mask[part] & lanes
            gap = source.gap[part].astype(np.int64)
            for row, some in enumerate(mask != 0):
                if not some:
                    left += int(gap[row]) + 1
                elif left:
                    gap[row] += left
                    left = 0
            kept = np.bitwise_count(mask).astype(np.int64)
            starts = source.address_start[part.start : part.stop]
            place = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
            self._add_rows(
                part,
                mask != 0,
                mask=mask,
                gap=np.minimum(gap, np.iinfo(np.int32).max),
                lanes=kept,
                addresses=source.addresses[np.repeat(starts, kept) + place],
            )
            self._dropped += int(np.bitwise_count(before).sum()) - int(kept.sum())
        self._columns["warp_start"].append(np.array([self._columns["pc"].count]))
        self._next += 1

    def _add(self, first: int, end: int) -> None:
        """Copy warps ``first:end`` as they are."""
        source = self._source
        if first >= end:
            return
        low, high = int(source.warp_start[first]), int(source.warp_start[end])
        shift = self._columns["pc"].count - low
        for row in range(low, high, _ROWS_AT_ONCE):
            part = slice(row, min(row + _ROWS_AT_ONCE, high))
            start = source.address_start[part.start : part.stop + 1]
            self._add_rows(
                part,
                slice(None),
                mask=source.mask[part],
                gap=source.gap[part],
                lanes=np.diff(start),
                addresses=source.addresses[int(start[0]) : int(start[-1])],
            )
        self._columns["warp_start"].append(source.warp_start[first + 1 : end + 1] + shift)

    def _add_rows(self, part: slice, chosen: slice | NDArray[np.bool_], **changed: NDArray[np.generic]) -> None:
        for name in self._copied:
            self._columns[name].append(getattr(self._source, name)[part][chosen])
        for name in ("mask", "gap"):
            self._columns[name].append(changed[name][chosen])
        ends = self._columns["addresses"].count + np.cumsum(changed["lanes"])
        self._columns["address_start"].append(ends[chosen])
        self._columns["addresses"].append(changed["addresses"])
        self._pages.read(part.start, part.stop)

    def finish(self) -> tuple[Columns, int]:
        """Copy the rest, and return all columns with the number of lanes that were dropped."""
        self.add_warps(self._source.warps)
        return Columns(**{name: column.finish() for name, column in self._columns.items()}), self._dropped
