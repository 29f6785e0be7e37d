"""Coalesce the lane addresses of warp instructions into transactions (Nugteren et al., 4.1; CUDA guide G.4.2).

The lanes of an instruction are cut into groups whose accesses fill `request_bytes`. With 128 bytes, the rule of the
CUDA guide, requests of at most 4 bytes per lane are coalesced over the whole warp, up to 8 bytes per half-warp, up to
16 per quarter-warp. Each group yields its distinct lines in the order in which lanes first touch them; a lane that
straddles a line boundary touches every line it covers; two groups may request the same line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace._coalesce import ChunkBuffers, SegmentBuffers, StreamBuffers
from rdmodel.trace.columns import Columns, Program
from rdmodel.trace.constants import ConstantReads
from rdmodel.trace.launch import WARP
from rdmodel.trace.mapped_pages import Pages
from rdmodel.trace.moved import MovedProgram
from rdmodel.trace.trace import Trace, locate_block

SECTOR = 32
"""Bytes of a sector: the unit that GPUs since Maxwell fetch of a line, and that their profilers count."""

WHOLE_WARP = 128
"""Bytes of the accesses that are coalesced together, where these are as many as possible."""

DEFAULT_CHUNK_INSTRUCTIONS = 512
"""Default capacity of a `Chunk` in instructions; buffers of all warps fit into the processor's caches."""

DEFAULT_CHUNK_LINES = 4096
"""Default capacity of a `Chunk` in lines."""

BYPASS = 4
"""In place of `Op.LOAD` in `Chunk.op`: a load that does not look into the L1."""

ROWS_PER_PASS = 1 << 16
"""Instructions of mapped columns that are read before their pages may be given back."""


class StoreRule(IntEnum):
    """The treatment of stores and atomics on the way to an engine."""

    DROP = 0
    """They are dropped."""
    KEEP = 1
    """They keep their place in program order, without lines."""
    LINES = 2
    """They keep their place and their lines."""
    AS_LOAD = 3
    """They become loads."""
    MACHINE = 4
    """All instructions are kept as they are, barriers too: the simulator executes them."""
    MACHINE_LOADS = 5
    """As MACHINE, but stores and atomics have no lines."""


LOCAL = 1
"""Bit of `Chunk.flags`: the instruction addresses local memory."""

LOOP_EXIT = 2
"""Bit of `Chunk.flags`: the warp leaves the instruction's loop after it."""

PASSES_L1 = 4
"""Bit of `Chunk.flags`: the load does not look into the L1."""


class Chunk(ChunkBuffers):
    """A buffer of consecutive coalesced instructions of one warp, which the engines read.

    Instruction i < `n` has ``op[i]`` (an `Op`, or BYPASS), ``needs[i]``, ``gap[i]`` and ``count[i]`` transactions; the
    lines of all instructions follow one another in ``lines[:used]``. With `pcs` there is also ``pc[i]``, and with
    `details` also the number of active ``lanes[i]`` and ``flags[i]`` (LOCAL, LOOP_EXIT, PASSES_L1), and no BYPASS. With
    `masks`, bit l of ``masks[j]`` says that lane l requested ``lines[j]``. With `sector`, bit s says instead that a
    lane requested bytes of the line's s-th sector of that many bytes; lines then have at most 32 of them. With `full`,
    too, bit s of ``full[j]`` says that the lanes of a store write every byte of that sector; it is 0 for loads. Masks
    of lanes make coalescing slower. With `barriers`, barriers are kept under every `StoreRule`; otherwise the simulator
    alone gets them.
    """

    __slots__ = ("count", "flags", "full", "gap", "lanes", "lines", "masks", "needs", "op", "pc")

    def __init__(
        self,
        instructions: int = DEFAULT_CHUNK_INSTRUCTIONS,
        lines: int = DEFAULT_CHUNK_LINES,
        *,
        details: bool = False,
        pcs: bool = False,
        masks: bool = False,
        sector: int | None = None,
        full: bool = False,
        barriers: bool = False,
    ) -> None:
        assert sector is not None or not full, "sectors that are written in full need sectors"
        self.op = np.empty(instructions, np.uint8)
        self.needs = np.empty(instructions, np.uint64)
        self.gap = np.empty(instructions, np.int32)
        self.count = np.empty(instructions, np.int32)
        self.lines = np.empty(lines, np.int64)
        self.pc = np.empty(instructions if details or pcs else 0, np.int32)
        self.lanes = np.empty(instructions if details else 0, np.uint8)
        self.flags = np.empty(instructions if details else 0, np.uint8)
        self.masks = np.empty(lines if masks or sector else 0, np.uint32)
        self.full = np.empty(lines if full else 0, np.uint32)
        super().__init__(
            self.op,
            self.needs,
            self.gap,
            self.count,
            self.lines,
            self.pc,
            self.lanes,
            self.flags,
            self.masks,
            self.full,
            -1 if sector is None else sector.bit_length() - 1,
            barriers,
        )


class WarpStream(StreamBuffers):
    """The instructions of one warp, coalesced chunk by chunk, so that a long loop is never in memory as a whole.

    `fill` replaces the content of a chunk by the next instructions, and returns whether more may follow.

    `pages`, if the columns are mapped from files, receive the ranges that were read. `request_bytes`, a power of two,
    are the bytes that a group of lanes may access. `bypass` has 1 for loads that do not look into the L1, at
    ``space * CACHE_OPS + cache_op``; None: all do. Streams of other warps of the block that `of_warps` returns share
    what they read of a program.
    """

    __slots__ = ()

    def __init__(
        self,
        source: Columns | Program,
        warp: int,
        line: int,
        rule: StoreRule,
        pages: Pages | None = None,
        request_bytes: int = WHOLE_WARP,
        bypass: NDArray[np.uint8] | None = None,
    ) -> None:
        columns: Columns | None
        program: Program
        columns, program = (source, ()) if isinstance(source, Columns) else (None, source)
        buffers: list[SegmentBuffers | None] | None = None
        position, end = (0, 0) if columns is None else (int(columns.warp_start[at]) for at in (warp, warp + 1))
        bits, most = line.bit_length() - 1, WARP * (16 // line + 2)
        moves = trips = None
        if isinstance(program, MovedProgram):
            moves, trips, buffers = program.moves, program.trips, program.shared.buffers
            program = program.shared.segments
        super().__init__(
            columns, position, end, program, buffers or [None] * len(program), moves, trips, warp, int(rule), bits,
            request_bytes, most, pages, ROWS_PER_PASS, bypass,
        )  # fmt: skip


def open_block(
    trace: Trace,
    block: int,
    line: int,
    rule: StoreRule,
    request_bytes: int = WHOLE_WARP,
    bypass: NDArray[np.uint8] | None = None,
    constants: ConstantReads | None = None,
    place: int | None = None,
) -> list[WarpStream]:
    """Return a stream for every warp of a block; `line` is the line size in bytes, a power of two.

    `constants`, if they are given, get what the block reads of constant memory. `place` is the number of the slot among
    those of all SMs that the block takes, and with it local memory (`LocalMemory.at_place`); None: it has its own.
    """
    source, first = find_block(trace, block, constants, place)
    return open_warps(trace, source, first, line, rule, request_bytes, bypass)


def find_block(
    trace: Trace, block: int, constants: ConstantReads | None = None, place: int | None = None
) -> tuple[Columns | Program, int]:
    """Return what contains a block, as `locate_block` does; `constants` and `place` are those of `open_block`."""
    source, first = locate_block(trace, block)
    if place is not None and trace.local_memory is not None:
        source = trace.local_memory.at_place(source, place)
    if constants is not None:
        constants.add(source, first, trace.launch.block_warps)
    return source, first


def reread_warps(streams: list[WarpStream], source: Columns | Program) -> bool:
    """Let the streams of a block's warps begin another block if that shares their program; return whether it does.

    Their line and rules stay. It takes a fraction of the time of `open_warps`.
    """
    return isinstance(source, MovedProgram) and streams[0].reread(
        streams, source.shared.buffers, source.moves, source.trips
    )


def open_warps(
    trace: Trace,
    source: Columns | Program,
    first: int,
    line: int,
    rule: StoreRule,
    request_bytes: int = WHOLE_WARP,
    bypass: NDArray[np.uint8] | None = None,
) -> list[WarpStream]:
    """Return a stream for every warp of a block that `locate_block` has found."""
    warps = trace.launch.block_warps
    if isinstance(source, Columns):
        return [
            WarpStream(source, first + warp, line, rule, trace.pages, request_bytes, bypass) for warp in range(warps)
        ]
    return WarpStream(source, first, line, rule, None, request_bytes, bypass).of_warps(warps)


def coalesce(columns: Columns, line: int, rule: StoreRule) -> Iterator[Chunk]:
    """Yield all instructions of all warps in order, coalesced; every yielded chunk is the same object, refilled.

    Coalescing handles one instruction at a time, so the columns can be treated as one long warp.
    """
    stream, chunk = WarpStream(replace(columns, warp_start=np.array([0, len(columns)])), 0, line, rule), Chunk()
    more = len(columns) > 0
    while more:
        more = stream.fill(chunk)
        yield chunk
