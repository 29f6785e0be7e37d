"""Write traces for Accel-Sim: a ``.traceg`` file, and the ``kernelslist.g`` that names it.

Lines are those of tracer version 5 for a Volta (``-binary version = 70``), which current Accel-Sim reads. Loads and
atomics get target registers; an instruction that waits for them names these registers among its sources. A line has
room for at most four of them. The instructions of the gap before it, written as integer additions without a result,
name the rest. Every warp ends with EXIT.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import FIRST_NON_L1_SPACE, WARP, Columns, Launch, Op, Space, Trace
from rdmodel.trace.cache_ops import CACHE_OPS, READ_ONLY, CacheOp
from rdmodel.trace.splitting import split_block
from tracegen.formats._accelsim_out import Renderer
from tracegen.formats.accelsim import KERNELS_LIST_NAME
from tracegen.formats.atomic_write import refuse_existing, replacing
from tracegen.formats.names import KERNELS_LIST_SUFFIX
from tracegen.limits import MAX_BLOCK_THREADS

LISTED_TRACE_NAME = "kernel-1.traceg"
"""Name of the trace file that a written list names."""

MAX_WRITTEN_GAP = 1_000_000
"""Maximum number of instructions that are written before one memory instruction: each of them is a line."""

_PIECE_ADDRESSES = 1 << 17
"""Addresses in a piece of a block that is written at a time."""

_OUTPUT_BYTES = 1 << 20
"""Bytes of text that are written at a time."""

_KEPT_CACHE_OPS = ("NONE", "CG", "LU", "VOLATILE", "NO_ALLOCATE", "EVICT_FIRST", "EVICT_LAST")
_KEPT_READ_ONLY_OPS = ("NONE", "CG", "NO_ALLOCATE", "EVICT_FIRST", "EVICT_LAST")
_CHANGED_CACHE_OPS = np.ones(CACHE_OPS, np.bool_)
_CHANGED_CACHE_OPS[[CacheOp[name] for name in _KEPT_CACHE_OPS]] = False
_CHANGED_CACHE_OPS[[READ_ONLY | CacheOp[name] for name in _KEPT_READ_ONLY_OPS]] = False
"""Operators that opcodes of Volta can express, and whether each operator is another one when it is read again."""

_COUNT_DIGITS = 19
_MAX_KERNEL_NAME_CHARACTERS = 4096
_ACCESS_BYTES = (1, 2, 4, 8, 16)
"""Room for a number that is filled in later, in digits; limit on names; widths of accesses that the format has."""


def write_accelsim(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> tuple[str, ...]:
    """Write a trace as ``.traceg``; return one line of text for each kind of content that the format cannot hold.

    A `path` that ends in ``.g``, or a folder, stands for a list: ``kernel-1.traceg`` is written beside the list, or
    with it into the folder. The format never holds loop exits and arrays; the result does not mention these. Every
    file appears under its name only when complete, the list last. Memory stays within a few pieces
    (`rdmodel.trace.splitting`). Raises `TraceError` if a file exists and `overwrite` is not set, if one cannot be
    written, or if the block has more than 1024 threads.
    """
    target = Path(path)
    if trace.launch.block_threads > MAX_BLOCK_THREADS:
        threads = trace.launch.block_threads
        raise TraceError(f"{path}: a block of {threads} threads; the format holds at most {MAX_BLOCK_THREADS}")
    if target.is_dir():
        target = target / KERNELS_LIST_NAME
    listed = target.suffix == KERNELS_LIST_SUFFIX
    file = target.with_name(LISTED_TRACE_NAME) if listed else target
    for name in dict.fromkeys((target, file)):
        refuse_existing(name, overwrite=overwrite)
    losses = _AccelsimLosses(trace)
    with _output(file) as output:
        _write_trace(trace, output, losses)
    if listed:
        with _output(target) as output:
            output.put(f"{LISTED_TRACE_NAME}\n".encode())
    return losses.sentences()


class _Output:
    """A file that is written in large parts, and in which numbers can be filled in later (`patch`)."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._text = bytearray()
        self._written = 0

    def put(self, text: bytes | memoryview) -> None:
        self._text += text
        if len(self._text) >= _OUTPUT_BYTES:
            self.flush()

    @property
    def position(self) -> int:
        return self._written + len(self._text)

    def patch(self, position: int, text: bytes) -> None:
        at = position - self._written
        if at >= 0:
            self._text[at : at + len(text)] = text
        else:
            os.pwrite(self._file.fileno(), text, position)

    def flush(self) -> None:
        left = memoryview(self._text)
        while left:
            left = left[self._file.write(left) :]
        self._written += len(self._text)
        self._text = bytearray()

    def close(self) -> None:
        self._file.close()


@contextmanager
def _output(target: Path) -> Iterator[_Output]:
    """Give an output that is renamed to `target` when it is complete."""
    with replacing(target) as partial, closing(_Output(partial)) as output:
        yield output
        output.flush()


# ---- Lines


def _header(launch: Launch) -> str:
    grid, block = (",".join(map(str, shape)) for shape in (launch.grid, launch.block))
    return (
        f"-kernel name = {_printable(launch.kernel)}\n-kernel id = 1\n-grid dim = ({grid})\n-block dim = ({block})\n"
        f"-shmem = {launch.shared_memory}\n-nregs = {launch.registers}\n-binary version = 70\n-cuda stream id = 0\n"
        f"-shmem base_addr = 0x{0:016x}\n-local mem base_addr = 0x{0:016x}\n-nvbit version = none\n"
        "-accelsim tracer version = 5\n-enable lineinfo = 0\n\n"
        "#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width "
        "[adrrescompress?] [mem_addresses] immediate\n\n"
    )


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "_" for c in name[:_MAX_KERNEL_NAME_CHARACTERS])


def _write_trace(trace: Trace, output: _Output, losses: _AccelsimLosses) -> None:
    assert trace.blocks is not None
    output.put(_header(trace.launch).encode())
    writer = _WarpWriter(output, trace.launch)
    x, y, _ = trace.launch.grid
    for block in map(int, trace.blocks):
        position = f"{block % x},{block // x % y},{block // (x * y)}"
        output.put(f"\n#BEGIN_TB\n\nthread block = {position}\n".encode())
        writer.open_block()
        for first, columns in split_block(trace, block, _PIECE_ADDRESSES):
            columns = losses.count(columns)
            for warp in range(columns.warps):
                writer.open_warp(first + warp)
                writer.write(columns, int(columns.warp_start[warp]), int(columns.warp_start[warp + 1]))
        writer.close_block()
        output.put(b"\n#END_TB\n")
    losses.renderer = writer.renderer


class _WarpWriter:
    """Writes the warps of each block in ascending order; a warp may come in several parts."""

    def __init__(self, output: _Output, launch: Launch) -> None:
        self.renderer = Renderer(_OUTPUT_BYTES)
        self._output = output
        self._warps, self._threads = launch.block_warps, launch.block_threads
        self._warp = -1
        self._lines = self._count_at = 0

    def open_block(self) -> None:
        self._warp = -1

    def open_warp(self, warp: int) -> None:
        """End all warps below `warp` and begin it, unless it is already open."""
        while self._warp < warp:
            self._end_warp()
            self._warp += 1
            self._output.put(b"\nwarp = %d\ninsts = " % self._warp)
            # The number of lines is filled in at the end of the warp.
            self._count_at, self._lines = self._output.position, 1
            self._output.put(b" " * _COUNT_DIGITS + b"\n")
            self.renderer.open_warp()

    def close_block(self) -> None:
        self.open_warp(self._warps - 1)
        self._end_warp()

    def write(self, columns: Columns, row: int, end: int) -> None:
        """Write instructions ``row:end`` of the open warp."""
        c = columns
        while row < end:
            row, used, lines = self.renderer.render(
                c.pc, c.op, c.space, c.size, c.gap, c.needs, c.mask, c.address_start, c.addresses, c.cache_op, row, end
            )
            self._lines += lines
            self._output.put(self.renderer.out.data[:used])

    def _end_warp(self) -> None:
        if self._warp >= 0:
            lanes = min(WARP, self._threads - self._warp * WARP)
            self._output.put(b"0000 %08x 0 EXIT 0 0 0\n" % ((1 << lanes) - 1))
            self._output.patch(self._count_at, b"%d" % self._lines)


# ---- Losses


class _AccelsimLosses:
    """Counts the content of a trace that the format cannot hold."""

    def __init__(self, trace: Trace) -> None:
        assert trace.blocks is not None
        self._launch = trace.launch
        self._blocks = len(trace.blocks)
        self.renderer: Renderer | None = None
        self._gaps = self._sizes = self._local = self._constants = self._masks = self._cache_ops = 0

    def count(self, columns: Columns) -> Columns:
        """Count the losses in a piece; return it with gaps that can be written."""
        access = columns.op != int(Op.BARRIER)
        store = access & (columns.op != int(Op.LOAD))
        self._masks += int(np.count_nonzero(~access & (columns.mask == 0)))
        self._sizes += int(np.count_nonzero(access & ~np.isin(columns.size, _ACCESS_BYTES)))
        self._local += int(np.count_nonzero((columns.op == int(Op.ATOMIC)) & (columns.space == int(Space.LOCAL))))
        self._constants += int(np.count_nonzero(store & (columns.space == int(Space.CONSTANT))))
        if columns.cache_op is not None:
            self._cache_ops += int(np.count_nonzero(_CHANGED_CACHE_OPS[columns.cache_op] | ~_may_have(columns)))
        if len(columns) and int(columns.gap.max()) > MAX_WRITTEN_GAP:
            self._gaps += int(np.count_nonzero(columns.gap > MAX_WRITTEN_GAP))
            return _limit_gaps(columns)
        return columns

    def sentences(self) -> tuple[str, ...]:
        """Return one line of text for each kind of loss."""
        assert self.renderer is not None
        launch, lines = self._launch, self.renderer
        counts = {
            f"{self._masks} barriers without active lanes are written with all lanes": self._masks,
            f"{self._local} atomics on local memory are written as global ones": self._local,
            f"{self._constants} stores to constants are written as stores to surfaces": self._constants,
            f"{self._sizes} accesses of 3, 5, 6, 7 or 9 to 15 bytes per lane: Accel-Sim takes 4 instead": self._sizes,
            f"{self._cache_ops} cache operators that opcodes of Volta do not have are written as the closest ones or "
            "left out": self._cache_ops,
            f"{self._gaps} gaps of more than {MAX_WRITTEN_GAP} instructions are cut to that": self._gaps,
            f"{lines.reduced_needs} instructions need more than loads in flight (or have unknown needs); they wait for "
            "the loads in flight only": lines.reduced_needs,
            f"{lines.added_fillers} instructions are added to gaps, to name loads for which a line has no room": (
                lines.added_fillers
            ),
            f"{lines.extra_waits} instructions wait for more loads, for want of registers": lines.extra_waits,
            "the kernel's name is written without characters that do not print": _printable(launch.kernel)
            != launch.kernel,
            f"{self._blocks} of {launch.blocks} blocks are written; Accel-Sim needs all of them": self._blocks
            < launch.blocks,
        }
        return tuple(text for text, count in counts.items() if count)


def _may_have(columns: Columns) -> NDArray[np.bool_]:
    """Tell for each instruction whether its opcode can express an operator, or it has none."""
    assert columns.cache_op is not None
    loads = (columns.op == int(Op.LOAD)) & (columns.space < FIRST_NON_L1_SPACE)
    return np.asarray(loads | (columns.cache_op == CacheOp.NONE), np.bool_)


def _limit_gaps(columns: Columns) -> Columns:
    return replace(columns, gap=np.minimum(columns.gap, MAX_WRITTEN_GAP))
