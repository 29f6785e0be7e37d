"""Read and write the text traces of the Ocelot tracer of Nugteren et al. (HPCA 2014): one line per thread access.

The first line is ``blocksize: X Y Z``, every other one ``thread direction address bytes`` in decimal. `thread` counts
over the whole grid, block after block; `direction` is 0 for a load and 1 for a store.

The format has no program counter. The reader takes the k-th loads of the threads of a warp for one instruction, and
likewise the k-th stores (``pc`` is 2 k and 2 k + 1, k from 0). The lowest lane that has accesses left decides whether
a load or a store comes next. So the accesses of a warp's first lane keep their order; those of other lanes keep it
among loads and among stores. Lanes whose k-th access differs in width form one instruction per width, in the order of
their first lanes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import FIRST_NON_L1_SPACE, LAST_ADDRESS, WARP, Columns, Launch, Op, Space, Trace
from rdmodel.trace.splitting import split_block
from tracegen.formats._trc import Grouper, parse, render
from tracegen.formats.atomic_write import refuse_existing, replacing
from tracegen.formats.compressed import is_cut, kernel_name, line_end, open_stream, whole_lines
from tracegen.formats.empty_blocks import advise_about_missing_blocks, fill_grid
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.formats.thread_accesses import AccessSorter, group_accesses
from tracegen.limits import MAX_BLOCK_THREADS, MAX_ROW_BLOCKS

TRC_MAGIC = b"blocksize:"
"""First bytes of a file."""

_MAX_FIRST_LINE_BYTES = 256
_MAX_TRC_LINE_BYTES = 256

_MIN_TRC_LINE_BYTES = 8
"""Length of the shortest line, which bounds the accesses in a chunk of text."""

_MAX_WRITTEN_LINE_BYTES = 46
"""Length of the longest line that `tracegen.formats._trc.render` writes."""

_RENDERED_ADDRESSES = 1 << 17
"""Addresses that are written at a time."""

_FILLED_FIELDS = ("key", "pc", "op", "size", "mask")
"""Fields of rows that `tracegen.formats._trc.Grouper` fills."""

_FIRST_LINE = re.compile(rb"blocksize:[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t\r]*\n?")
_TRC_PROBLEMS = {
    1: "expected four decimal numbers 'thread direction address bytes'",
    2: "the thread number puts the block beyond the largest grid, 2^31 - 1 blocks",
    3: "direction must be 0 (load) or 1 (store)",
    4: f"address must be at most {LAST_ADDRESS}",
    5: "bytes must be 1 to 16",
    6: f"longer than {_MAX_TRC_LINE_BYTES} bytes",
}
"""Messages for the problems that `tracegen.formats._trc.parse` returns."""


def read_trc(path: str | os.PathLike[str], *, lenient: bool = False, memory: int = SORT_MEMORY_BYTES) -> RecordedTrace:
    """Read a ``.trc`` file; the grid is one row of blocks, and the trace holds the blocks that occur.

    Dependences are unknown, so every instruction waits for all earlier loads.

    Parameters
    ----------
    path : path
        The file, which may be compressed.
    lenient : bool
        Leave out bad lines, and take blocks that do not occur for blocks that access no memory; ``skipped`` of the
        trace accounts for both. The first line must be valid even so.
    memory : int
        Memory in bytes for sorting. Accesses that do not fit are sorted in temporary files, and columns that do not
        fit are mapped from there.

    Returns
    -------
    RecordedTrace
        The trace, with an account of the lines left out.

    Raises
    ------
    TraceError
        With file and line for malformed input, and for a file without accesses.
    """
    name = os.fspath(path)
    accesses, log = AccessSorter(memory), SkipLog(lenient)
    with open_stream(path) as file:
        block = _read_first_line(file, name)
        _read_accesses(file, name, block[0] * block[1] * block[2], log, accesses)
    if not accesses.count:
        raise TraceError(f"{name}: no accesses follow the first line")
    columns, blocks = group_accesses(accesses, block[0] * block[1] * block[2], Grouper, _FILLED_FIELDS)
    launch = Launch(kernel=kernel_name(path), grid=(blocks[-1] + 1, 1, 1), block=block)
    skipped = log.skipped
    if lenient:
        columns, blocks, skipped = fill_grid(launch, columns, blocks, skipped)
    advice = advise_about_missing_blocks(lenient=lenient)
    return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped, advice=advice)


def write_trc(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> tuple[str, ...]:
    """Write a trace as ``.trc``; return one line of text for each kind of content that the format cannot hold.

    The format never holds program counters, gaps, dependences, loop exits, arrays and occupancy; the result does not
    mention these. The file appears under its name only when complete. Raises `TraceError` if it exists and
    `overwrite` is not set, if it cannot be written, if the block has more than 1024 threads, or if a lane without a
    thread is active.
    """
    target = Path(path)
    threads = trace.launch.block_threads
    if threads > MAX_BLOCK_THREADS:
        raise TraceError(f"{path}: a block of {threads} threads; the format holds at most {MAX_BLOCK_THREADS}")
    refuse_existing(target, overwrite=overwrite)
    losses = _TrcLosses(trace.launch)
    with replacing(target) as partial, partial.open("wb") as file:
        file.write(b"blocksize: %d %d %d\n" % trace.launch.block)
        for text in _rendered_blocks(trace, losses):
            file.write(text)
    return losses.sentences()


# ---- Reading


def _read_first_line(file: BinaryIO, name: str) -> tuple[int, int, int]:
    line = file.readline(_MAX_FIRST_LINE_BYTES)
    if not line:
        raise TraceError(f"{name}: is empty")
    match = _FIRST_LINE.fullmatch(line)
    if match is None:
        raise TraceError(f"{name}:1: expected 'blocksize: X Y Z', found {quote(line)}")
    x, y, z = (int(number) for number in match.groups())
    if not 1 <= x * y * z <= MAX_BLOCK_THREADS:
        raise TraceError(f"{name}:1: blocksize {x} {y} {z}: must be 1 to {MAX_BLOCK_THREADS} threads")
    return x, y, z


def _read_accesses(file: BinaryIO, name: str, block_threads: int, log: SkipLog, accesses: AccessSorter) -> None:
    threads = MAX_ROW_BLOCKS * block_threads
    line = 2
    for text in whole_lines(file, _MAX_TRC_LINE_BYTES):
        if is_cut(text):
            log.report_cut_line(name, line, text)
            break
        room = accesses.reserve(len(text) // _MIN_TRC_LINE_BYTES + 1)
        at = n = 0
        while at < len(text):
            at, lines, n, problem = parse(text, at, threads, LAST_ADDRESS, _MAX_TRC_LINE_BYTES, room, n)
            line += lines
            if problem:
                end = line_end(text, at)
                log.report(f"{name}:{line}: {_TRC_PROBLEMS[problem]}, found {quote(text[at:end])}")
                at = end + 1
                line += 1
        accesses.append(n)


# ---- Writing


class _TrcLosses:
    """Counts the content of a trace that the format cannot hold."""

    def __init__(self, launch: Launch) -> None:
        self._grid = launch.grid
        self._last = (-1, -1, 0)  # block, warp and mask of the last instruction that was written
        self.barriers = self.atomics = self.local = self.elsewhere = self.regrouped = self.empty_blocks = 0

    def count(self, block: int, warp: NDArray[np.int64], columns: Columns) -> None:
        """Count the losses in a piece of a block; `warp` is the warp of every instruction."""
        barrier, elsewhere = columns.op == int(Op.BARRIER), columns.space >= FIRST_NON_L1_SPACE
        written = ~barrier & ~elsewhere
        self.barriers += int(np.count_nonzero(barrier))
        self.elsewhere += int(np.count_nonzero(elsewhere & ~barrier))
        self.atomics += int(np.count_nonzero(columns.op == int(Op.ATOMIC)))
        self.local += int(np.count_nonzero(written & (columns.space == int(Space.LOCAL))))
        if not written.any():
            return
        warp, mask = warp[written], columns.mask[written]
        before = np.concatenate([mask[:1], mask[:-1]])
        if self._last[:2] == (block, int(warp[0])):
            before[0] = self._last[2]
        opening = np.concatenate([[False], np.diff(warp) != 0])
        self.regrouped += int(np.count_nonzero(mask & ~before & np.where(opening, 0, ~np.uint32(0))))
        self._last = (block, int(warp[-1]), int(mask[-1]))

    def close_block(self, block: int) -> None:
        """Finish a block after all its pieces have been counted."""
        self.empty_blocks += self._last[0] != block

    def sentences(self) -> tuple[str, ...]:
        """Return one line of text for each kind of loss."""
        grid = (self._last[0] + 1, 1, 1)
        counts = {
            f"{self.barriers} barriers are left out": self.barriers,
            f"{self.atomics} atomics are written as stores": self.atomics,
            f"{self.local} accesses to local memory are written as global ones": self.local,
            f"{self.elsewhere} accesses to constants and textures are left out": self.elsewhere,
            f"{self.regrouped} instructions have lanes that are inactive in the warp's previous one; a reader pairs "
            "the k-th accesses of the lanes and may group them differently": self.regrouped,
            f"{self.empty_blocks} blocks without accesses are left out": self.empty_blocks,
            f"the grid {self._grid} reads back as {grid}": self._grid != grid,
        }
        return tuple(text for text, count in counts.items() if count)


def _rendered_blocks(trace: Trace, losses: _TrcLosses) -> Iterator[bytes]:
    assert trace.blocks is not None
    for block in map(int, trace.blocks):
        for first, columns in split_block(trace, block, _RENDERED_ADDRESSES):
            warp = np.repeat(np.arange(first, first + columns.warps), np.diff(columns.warp_start))
            losses.count(block, warp, columns)
            yield _render_piece(columns, warp, block, trace.launch.block_threads)
        losses.close_block(block)


def _render_piece(columns: Columns, warp: NDArray[np.int64], block: int, block_threads: int) -> bytes:
    lanes = np.diff(columns.address_start)
    masks = np.where(columns.op == int(Op.BARRIER), 0, columns.mask).astype(np.uint32)
    lane = np.nonzero(masks[:, None] >> np.arange(WARP, dtype=np.uint32) & 1)[1]
    thread = np.repeat(warp * WARP, lanes) + lane
    if len(thread) and int(thread.max()) >= block_threads:
        raise TraceError(
            f"block {block}: thread {int(thread.max())} is active, but a block has {block_threads} threads"
        )
    written = np.repeat(columns.space < FIRST_NON_L1_SPACE, lanes)
    store = np.repeat((columns.op != int(Op.LOAD)).astype(np.uint8), lanes)[written]
    size = np.repeat(columns.size, lanes)[written]
    out = np.empty(_MAX_WRITTEN_LINE_BYTES * len(size), np.uint8)
    used = render((thread + block * block_threads)[written], store, columns.addresses[written], size, out)
    return out[:used].tobytes()
