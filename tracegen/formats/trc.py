"""The text traces of the Ocelot tracer behind Nugteren et al. (HPCA 2014): one line per access of a thread.

The first line is ``blocksize: X Y Z``, every other one ``thread direction address bytes`` in decimal;
`thread` counts over the whole grid, block after block, `direction` is 0 for a load and 1 for a store. There
is no program counter. The k-th loads of the threads of a warp are taken for one instruction, and so are the
k-th stores (``pc`` is 2 k and 2 k + 1, k from 0). The lowest lane that has accesses left decides whether a
load or a store comes next, so the accesses of a warp's first lane keep their order, and those of other lanes
keep it among loads and among stores. Lanes whose k-th access differs in width form one instruction per width,
in the order of their first lanes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, FIRST_NON_L1_SPACE, LAST_ADDRESS, WARP, Columns, Launch, Op, Space, Trace
from rdmodel.trace.splitting import split_block
from tracegen.formats._trc import Grouper, parse, render
from tracegen.formats.atomic_write import refuse_existing, replacing
from tracegen.formats.compressed import CHUNK as _CHUNK
from tracegen.formats.compressed import kernel_name, open_stream, whole_lines
from tracegen.formats.empty_blocks import whole_grid
from tracegen.formats.ordering.columns import Sink
from tracegen.formats.ordering.gathering import MEMORY
from tracegen.formats.ordering.rows import ROW
from tracegen.formats.recorded_trace import RecordedTrace, Skipped, quote
from tracegen.formats.thread_accesses import ByThread

MAGIC = b"blocksize:"
MOST_BLOCKS = (1 << 31) - 1
MOST_BLOCK_THREADS = 1024

_HEADER_BYTES = 256
_LINE_BYTES = 256
_SHORTEST_LINE = 8
_LONGEST_LINE = 46
_RENDER_LANES = 1 << 17
_GROUP_ROWS = 1 << 17
_HEADER = re.compile(rb"blocksize:[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t\r]*\n?")
_PROBLEMS = {
    1: "expected four decimal numbers 'thread direction address bytes'",
    2: "the thread number puts the block beyond the largest grid, 2^31 - 1 blocks",
    3: "direction must be 0 (load) or 1 (store)",
    4: f"address must be at most {LAST_ADDRESS}",
    5: "bytes must be 1 to 16",
    6: f"longer than {_LINE_BYTES} bytes",
}


def read_trc(path: str | os.PathLike[str], *, lenient: bool = False, memory: int = MEMORY) -> RecordedTrace:
    """Return the trace in a ``.trc`` file; its grid is one row of blocks, and it holds those that occur.

    Dependences are unknown, so every instruction waits for all earlier loads. Accesses that do not fit `memory`
    bytes are sorted in temporary files, and columns that do not are mapped from there. Raises `TraceError`
    with file and line for anything malformed, and for a file without loads; `lenient` leaves bad lines out
    instead, takes blocks that do not occur to access nothing, and accounts for both in ``skipped``, but still
    needs a sound first line.
    """
    name = os.fspath(path)
    accesses = ByThread(memory)
    with open_stream(path) as file:
        block = _read_header(file, name)
        skipped = _read_accesses(file, name, block[0] * block[1] * block[2], lenient, accesses)
    if not accesses.count:
        raise TraceError(f"{name}: no accesses follow the first line")
    if not accesses.reads:
        raise TraceError(f"{name}: a kernel without loads: all {accesses.count} accesses are stores")
    columns, blocks = _group(accesses, block[0] * block[1] * block[2])
    launch = Launch(kernel=kernel_name(path), grid=(blocks[-1] + 1, 1, 1), block=block)
    if lenient:
        columns, blocks, skipped = whole_grid(launch, columns, blocks, skipped)
    return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped, mentions_all=False)


def write_trc(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> tuple[str, ...]:
    """Write a trace as ``.trc``; return one line of text for each thing in it that the format cannot hold.

    The format never holds program counters, gaps, dependences, loop exits, arrays and occupancy; these are
    not mentioned. The file appears under its name only when complete. Raises `TraceError` if it exists and
    `overwrite` is not set, if it cannot be written, or if the block has more than 1024 threads or lanes that
    no thread has.
    """
    target = Path(path)
    threads = trace.launch.block_threads
    if threads > MOST_BLOCK_THREADS:
        raise TraceError(f"{path}: a block of {threads} threads; the format ends at {MOST_BLOCK_THREADS}")
    refuse_existing(target, overwrite=overwrite)
    losses = _Losses(trace.launch)
    with replacing(target) as partial, partial.open("xb") as file:
        file.write(b"blocksize: %d %d %d\n" % trace.launch.block)
        for text in _render_blocks(trace, losses):
            file.write(text)
    return losses.sentences()


# ---- Reading


def _read_header(file: BinaryIO, name: str) -> tuple[int, int, int]:
    line = file.readline(_HEADER_BYTES)
    if not line:
        raise TraceError(f"{name}: is empty")
    found = _HEADER.fullmatch(line)
    if found is None:
        raise TraceError(f"{name}:1: expected 'blocksize: X Y Z', found {quote(line)}")
    x, y, z = (int(number) for number in found.groups())
    if not 1 <= x * y * z <= MOST_BLOCK_THREADS:
        raise TraceError(f"{name}:1: blocksize {x} {y} {z}: must be 1 to {MOST_BLOCK_THREADS} threads")
    return x, y, z


def _read_accesses(file: BinaryIO, name: str, block_threads: int, lenient: bool, accesses: ByThread) -> Skipped:
    skipped = Skipped()
    threads = MOST_BLOCKS * block_threads
    line = 2
    for text in whole_lines(file, _LINE_BYTES, _CHUNK):
        room = accesses.room(len(text) // _SHORTEST_LINE + 1)
        at = n = 0
        while at < len(text):
            at, lines, n, problem = parse(text, at, threads, LAST_ADDRESS, _LINE_BYTES, room, n)
            line += lines
            if problem:
                end = text.find(b"\n", at)
                end = len(text) if end < 0 else end
                message = f"{name}:{line}: {_PROBLEMS[problem]}, found {quote(text[at:end])}"
                if not lenient:
                    raise TraceError(message)
                skipped = skipped.add(message)
                at = end + 1
                line += 1
        accesses.take(n)
    return skipped


def _group(accesses: ByThread, block_threads: int) -> tuple[Columns, Sequence[int]]:
    """Return the warp instructions of all accesses, and the ids of the blocks they belong to."""
    warps = -(-block_threads // WARP)
    sink = Sink(warps, warps, in_memory=not accesses.spilled)
    fields = {name: np.empty(_GROUP_ROWS, ROW[name]) for name in ("key", "pc", "op", "size", "mask")}
    addresses = np.empty(_GROUP_ROWS + WARP, np.int64)
    room = [*fields.values(), addresses]
    for part in accesses.finish(block_threads):
        grouper = Grouper(part.accesses, block_threads, part.give_back)
        while True:
            count, used = grouper.fill(*room)
            if not count:
                break
            rows = np.empty(count, ROW)
            rows["needs"], rows["gap"], rows["space"], rows["flags"] = ALL_NEEDS, 0, Space.GLOBAL, 0
            for name, values in fields.items():
                rows[name] = values[:count]
            sink.append(rows, addresses[:used])
    return sink.finish()


# ---- Writing


class _Losses:
    """Counts what of a trace does not survive the format."""

    def __init__(self, launch: Launch) -> None:
        self._grid = launch.grid
        self._last = (-1, -1, 0)  # block, warp and mask of the last instruction that was written
        self.barriers = self.atomics = self.local = self.elsewhere = self.regrouped = self.silent = 0

    def count(self, block: int, warp: NDArray[np.int64], columns: Columns) -> None:
        """Take a piece of a block into account; `warp` is the warp of every instruction."""
        barrier, elsewhere = columns.op == Op.BARRIER, columns.space >= FIRST_NON_L1_SPACE
        kept = ~barrier & ~elsewhere
        self.barriers += int(np.count_nonzero(barrier))
        self.elsewhere += int(np.count_nonzero(elsewhere & ~barrier))
        self.atomics += int(np.count_nonzero(columns.op == Op.ATOMIC))
        self.local += int(np.count_nonzero(kept & (columns.space == Space.LOCAL)))
        if not kept.any():
            return
        warp, mask = warp[kept], columns.mask[kept]
        before = np.concatenate([mask[:1], mask[:-1]])
        if self._last[:2] == (block, int(warp[0])):
            before[0] = self._last[2]
        opening = np.concatenate([[False], np.diff(warp) != 0])
        self.regrouped += int(np.count_nonzero(mask & ~before & np.where(opening, 0, ~np.uint32(0))))
        self._last = (block, int(warp[-1]), int(mask[-1]))

    def close_block(self, block: int) -> None:
        """Note that all of a block has been counted."""
        self.silent += self._last[0] != block

    def sentences(self) -> tuple[str, ...]:
        """Return what was lost, one line of text each."""
        grid = (self._last[0] + 1, 1, 1)
        said = {
            f"{self.barriers} barriers are left out": self.barriers,
            f"{self.atomics} atomics are written as stores": self.atomics,
            f"{self.local} accesses to local memory are written as global ones": self.local,
            f"{self.elsewhere} accesses to constants and textures are left out": self.elsewhere,
            f"{self.regrouped} instructions have lanes that the warp's previous one had not; a reader, which "
            "pairs the k-th accesses of the lanes, may group them differently": self.regrouped,
            f"{self.silent} blocks without accesses are left out": self.silent,
            f"the grid {self._grid} reads back as {grid}": self._grid != grid,
        }
        return tuple(text for text, lost in said.items() if lost)


def _render_blocks(trace: Trace, losses: _Losses) -> Iterator[bytes]:
    assert trace.blocks is not None
    for block in map(int, trace.blocks):
        for first, columns in split_block(trace, block, _RENDER_LANES):
            warp = np.repeat(np.arange(first, first + columns.warps), np.diff(columns.warp_start))
            losses.count(block, warp, columns)
            yield _render(columns, warp, block, trace.launch.block_threads)
        losses.close_block(block)


def _render(columns: Columns, warp: NDArray[np.int64], block: int, block_threads: int) -> bytes:
    lanes = np.diff(columns.address_start)
    masks = np.where(columns.op == Op.BARRIER, 0, columns.mask).astype(np.uint32)
    lane = np.nonzero(masks[:, None] >> np.arange(WARP, dtype=np.uint32) & 1)[1]
    thread = np.repeat(warp * WARP, lanes) + lane
    if len(thread) and int(thread.max()) >= block_threads:
        raise TraceError(f"block {block}: thread {int(thread.max())} is active, the block has {block_threads}")
    kept = np.repeat(columns.space < FIRST_NON_L1_SPACE, lanes)
    store = np.repeat((columns.op != Op.LOAD).astype(np.uint8), lanes)[kept]
    size = np.repeat(columns.size, lanes)[kept]
    out = np.empty(_LONGEST_LINE * len(size), np.uint8)
    used = render((thread + block * block_threads)[kept], store, columns.addresses[kept], size, out)
    return out[:used].tobytes()
