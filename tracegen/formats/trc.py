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
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.pieces import pieces
from rdmodel.trace import ALL_NEEDS, ELSEWHERE, LAST_ADDRESS, WARP, Columns, Launch, Op, Space, Trace
from tracegen.formats._trc import group, parse, render
from tracegen.formats.recorded import RecordedTrace, Skipped, quote
from tracegen.formats.streams import CHUNK as _CHUNK
from tracegen.formats.streams import kernel_name, open_stream, whole_lines
from tracegen.formats.writing import refuse_existing, replacing

MAGIC = b"blocksize:"
MOST_BLOCKS = (1 << 31) - 1
MOST_BLOCK_THREADS = 1024

_HEADER_BYTES = 256
_LINE_BYTES = 256
_SHORTEST_LINE = 8
_LONGEST_LINE = 46
_RENDER_LANES = 1 << 17
_HEADER = re.compile(rb"blocksize:[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t\r]*\n?")
_PROBLEMS = {
    1: "expected four decimal numbers 'thread direction address bytes'",
    2: "the thread number puts the block beyond the largest grid, 2^31 - 1 blocks",
    3: "direction must be 0 (load) or 1 (store)",
    4: f"address must be at most {LAST_ADDRESS}",
    5: "bytes must be 1 to 16",
    6: f"longer than {_LINE_BYTES} bytes",
}

Accesses = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]
"""Thread, address, and kind (bytes, plus 128 for a store) of every access."""


def read_trc(path: str | os.PathLike[str], *, lenient: bool = False) -> RecordedTrace:
    """Return the trace in a ``.trc`` file; its grid is one row of blocks, and it holds those that occur.

    Dependences are unknown, so every instruction waits for all earlier loads. Memory is about 60 bytes per
    access, whatever numbers the file claims; time O(n log n) in the number of accesses. Raises `TraceError`
    with file and line for anything malformed, and for a file without loads; `lenient` leaves bad lines out
    instead and accounts for them in ``skipped``, but still needs a sound first line.
    """
    name = os.fspath(path)
    with open_stream(path) as file:
        block = _read_header(file, name)
        block_threads = block[0] * block[1] * block[2]
        accesses, skipped = _read_accesses(file, name, block_threads, lenient)
    if not len(accesses[0]):
        raise TraceError(f"{name}: no accesses follow the first line")
    if int(accesses[2].min()) >= 128:
        raise TraceError(f"{name}: a kernel without loads: all {len(accesses[0])} accesses are stores")
    columns, blocks = _group(accesses, block_threads)
    launch = Launch(kernel=kernel_name(path), grid=(blocks[-1] + 1, 1, 1), block=block)
    return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped)


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


def _read_accesses(file: BinaryIO, name: str, block_threads: int, lenient: bool) -> tuple[Accesses, Skipped]:
    parts: list[Accesses] = []
    skipped = Skipped()
    threads = MOST_BLOCKS * block_threads
    line = 2
    for text in whole_lines(file, _LINE_BYTES, _CHUNK):
        room = len(text) // _SHORTEST_LINE + 1
        arrays = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint8)
        at = n = 0
        while at < len(text):
            at, lines, n, problem = parse(text, at, threads, LAST_ADDRESS, _LINE_BYTES, *arrays, n)
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
        parts.append((arrays[0][:n].copy(), arrays[1][:n].copy(), arrays[2][:n].copy()))
    return _joined(parts), skipped


def _joined(parts: list[Accesses]) -> Accesses:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
    thread, address, kind = zip(*parts, strict=True)
    return np.concatenate(thread), np.concatenate(address), np.concatenate(kind)


def _group(accesses: Accesses, block_threads: int) -> tuple[Columns, list[int]]:
    """Return the warp instructions of all accesses, and the ids of the blocks they belong to."""
    order = np.argsort(accesses[0], kind="stable")
    thread, address, kind = accesses[0][order], accesses[1][order], accesses[2][order]
    del order
    n = len(thread)
    pc, mask = np.empty(n, np.int32), np.empty(n, np.uint32)
    op, size = np.empty(n, np.uint8), np.empty(n, np.uint8)
    warp, length = np.empty(n, np.int64), np.empty(n, np.int64)
    start, addresses = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    warps, rows = group(thread, address, kind, block_threads, warp, length, pc, op, size, mask, start, addresses)
    blocks, warp_start = _place(warp[:warps], length[:warps], -(-block_threads // WARP))
    columns = Columns(
        warp_start=warp_start,
        pc=pc[:rows].copy(),
        op=op[:rows].copy(),
        space=np.full(rows, Space.GLOBAL, np.uint8),
        size=size[:rows].copy(),
        gap=np.zeros(rows, np.int32),
        needs=np.full(rows, ALL_NEEDS, np.uint64),
        loop_exit=np.zeros(rows, np.bool_),
        mask=mask[:rows].copy(),
        address_start=start[: rows + 1].copy(),
        addresses=addresses,
    )
    return columns, blocks


def _place(warp: NDArray[np.int64], length: NDArray[np.int64], block_warps: int) -> tuple[list[int], NDArray[np.int64]]:
    """Return the blocks that occur, and the `warp_start` of all their warps, silent ones included."""
    blocks, position = np.unique(warp // block_warps, return_inverse=True)
    lengths = np.zeros(len(blocks) * block_warps, np.int64)
    lengths[position * block_warps + warp % block_warps] = length
    return blocks.tolist(), np.concatenate([[0], np.cumsum(lengths)])


# ---- Writing


class _Losses:
    """Counts what of a trace does not survive the format."""

    def __init__(self, launch: Launch) -> None:
        self._grid = launch.grid
        self._last = (-1, -1, 0)  # block, warp and mask of the last instruction that was written
        self.barriers = self.atomics = self.local = self.elsewhere = self.regrouped = self.silent = 0

    def count(self, block: int, warp: NDArray[np.int64], columns: Columns) -> None:
        """Take a piece of a block into account; `warp` is the warp of every instruction."""
        barrier, elsewhere = columns.op == Op.BARRIER, columns.space >= ELSEWHERE
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
        for first, columns in pieces(trace, block, _RENDER_LANES):
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
    kept = np.repeat(columns.space < ELSEWHERE, lanes)
    store = np.repeat((columns.op != Op.LOAD).astype(np.uint8), lanes)[kept]
    size = np.repeat(columns.size, lanes)[kept]
    out = np.empty(_LONGEST_LINE * len(size), np.uint8)
    used = render((thread + block * block_threads)[kept], store, columns.addresses[kept], size, out)
    return out[:used].tobytes()
