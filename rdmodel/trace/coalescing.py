"""Lane addresses to transactions: the lines that a warp requests (Nugteren et al., 4.1; CUDA guide G.4.2).

Requests of at most 4 bytes per lane are coalesced over the whole warp, up to 8 bytes per half-warp, up to 16 per
quarter-warp. Each group yields its distinct lines in the order in which lanes first touch them; a lane that straddles
a line boundary touches every line it covers; two groups may request the same line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

import numpy as np

from rdmodel.trace._coalesce import coalesce_columns, coalesce_segment
from rdmodel.trace.columns import Columns, Program, Segment
from rdmodel.trace.launch import WARP
from rdmodel.trace.mapped_pages import Pages
from rdmodel.trace.trace import Trace, locate_block

SECTOR = 32
"""Bytes of a sector: what GPUs since Volta fetch of a line, and what their profilers count."""

INSTRUCTIONS_PER_CHUNK = 2048
LINES_PER_CHUNK = 16384

ROWS_AT_A_TIME = 1 << 16
"""Instructions of mapped columns that are gone through before their pages may be given back."""


class StoreRule(IntEnum):
    """What becomes of stores and atomics on the way to the model."""

    DROP = 0
    """They vanish."""
    KEEP = 1
    """They keep their place in program order, without lines."""
    LINES = 2
    """They keep their place and their lines."""
    AS_LOAD = 3
    """They become loads."""
    MACHINE = 4
    """All instructions are kept as they are, barriers too: what the simulator executes."""
    MACHINE_LOADS = 5
    """As MACHINE, but stores and atomics have no lines."""


LOCAL = 1
"""Bit of `Chunk.flags`: the instruction addresses local memory."""

LOOP_EXIT = 2
"""Bit of `Chunk.flags`: the warp leaves the instruction's loop after it."""


class Chunk:
    """Room for consecutive instructions of one warp, coalesced: what the model reads.

    Instruction i < `n` has ``op[i]``, ``needs[i]``, ``gap[i]`` and ``count[i]`` transactions; the lines of all
    instructions follow one another in ``lines[:used]``. With `details` there are ``pc[i]``, the number of active
    ``lanes[i]`` and ``flags[i]`` (LOCAL, LOOP_EXIT) as well. With `masks`, bit l of ``masks[j]`` says that lane l
    asked for ``lines[j]``; with `sectors`, bit s says that a lane asked for bytes of its s-th `SECTOR`, and lines have
    at most 32 of them. Coalescing is slower then.
    """

    __slots__ = ("count", "flags", "gap", "lanes", "lines", "masks", "n", "needs", "op", "pc", "sectors", "used")

    def __init__(
        self,
        instructions: int = INSTRUCTIONS_PER_CHUNK,
        lines: int = LINES_PER_CHUNK,
        *,
        details: bool = False,
        masks: bool = False,
        sectors: bool = False,
    ) -> None:
        self.op = np.empty(instructions, np.uint8)
        self.needs = np.empty(instructions, np.uint64)
        self.gap = np.empty(instructions, np.int32)
        self.count = np.empty(instructions, np.int32)
        self.lines = np.empty(lines, np.int64)
        self.pc = np.empty(instructions if details else 0, np.int32)
        self.lanes = np.empty(instructions if details else 0, np.uint8)
        self.flags = np.empty(instructions if details else 0, np.uint8)
        self.masks = np.empty(lines if masks or sectors else 0, np.uint32)
        self.sectors = sectors
        self.n = 0
        self.used = 0


class WarpStream:
    """One warp's instructions, coalesced a chunk at a time, so that a long loop never lies in memory as a whole.

    `pages`, if the columns are mapped, are told what was read.
    """

    def __init__(
        self, source: Columns | Program, warp: int, line: int, rule: StoreRule, pages: Pages | None = None
    ) -> None:
        self._pages = pages
        self._warp = warp
        self._rule = int(rule)
        self._line_bits = line.bit_length() - 1
        self._most_lines = WARP * (16 // line + 2)
        self._columns = source if isinstance(source, Columns) else None
        self._segments: Program = () if isinstance(source, Columns) else source
        self._segment = 0
        self._carry = 0
        self._position = 0 if self._columns is None else int(self._columns.warp_start[warp])

    def fill(self, chunk: Chunk) -> bool:
        """Replace the content of `chunk` by the next instructions; return whether more may follow."""
        assert len(chunk.lines) >= self._most_lines, "a chunk must hold at least one instruction"
        chunk.n = chunk.used = 0
        if self._columns is not None:
            return self._fill_from_columns(self._columns, chunk)
        while self._segment < len(self._segments):
            segment = self._segments[self._segment]
            if not self._fill_from_segment(segment, chunk):
                return True
            self._segment += 1
            self._position = 0
        return False

    def _fill_from_columns(self, columns: Columns, chunk: Chunk) -> bool:
        end = int(columns.warp_start[self._warp + 1])
        while self._position < end:
            begun, stop = self._position, min(end, self._position + ROWS_AT_A_TIME)
            self._append_columns(columns, stop, chunk)
            if self._pages is not None:
                lanes = columns.address_start.item(begun), columns.address_start.item(self._position)
                self._pages.read(begun, self._position, *lanes)
            if self._position < stop:
                return True
        return False

    def _append_columns(self, columns: Columns, stop: int, chunk: Chunk) -> None:
        self._position, chunk.n, chunk.used, self._carry = coalesce_columns(
            columns.pc,
            columns.op,
            columns.space,
            columns.size,
            columns.gap,
            columns.loop_exit.view(np.uint8),
            columns.needs,
            columns.mask,
            columns.address_start,
            columns.addresses,
            self._position,
            stop,
            self._rule,
            self._line_bits,
            self._most_lines,
            chunk.op,
            chunk.needs,
            chunk.gap,
            chunk.count,
            chunk.lines,
            chunk.pc,
            chunk.lanes,
            chunk.flags,
            chunk.masks,
            chunk.sectors,
            chunk.n,
            chunk.used,
            self._carry,
        )

    def _fill_from_segment(self, segment: Segment, chunk: Chunk) -> bool:
        """Return whether the segment is done, as opposed to the chunk being full."""
        self._position, chunk.n, chunk.used, self._carry = coalesce_segment(
            segment.pc,
            segment.op,
            segment.space,
            segment.size,
            segment.gap,
            segment.loop_exit.view(np.uint8),
            segment.step,
            segment.needs,
            segment.mask,
            segment.base,
            self._warp,
            self._position,
            segment.trips,
            self._rule,
            self._line_bits,
            self._most_lines,
            chunk.op,
            chunk.needs,
            chunk.gap,
            chunk.count,
            chunk.lines,
            chunk.pc,
            chunk.lanes,
            chunk.flags,
            chunk.masks,
            chunk.sectors,
            chunk.n,
            chunk.used,
            self._carry,
        )
        return self._position == len(segment.op) * segment.trips


def open_block(trace: Trace, block: int, line: int, rule: StoreRule) -> list[WarpStream]:
    """Return a stream for every warp of a block; `line` is the line size in bytes, a power of two."""
    source, first = locate_block(trace, block)
    return [WarpStream(source, first + warp, line, rule, trace.pages) for warp in range(trace.launch.block_warps)]


def coalesce(columns: Columns, line: int, rule: StoreRule) -> Iterator[Chunk]:
    """Yield all instructions of all warps in order, coalesced; the chunk is one and the same, refilled.

    Coalescing looks at one instruction at a time, so columns may pass for one long warp.
    """
    stream, chunk = WarpStream(replace(columns, warp_start=np.array([0, len(columns)])), 0, line, rule), Chunk()
    more = len(columns) > 0
    while more:
        more = stream.fill(chunk)
        yield chunk
