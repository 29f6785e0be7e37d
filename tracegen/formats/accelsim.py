"""Traces of Accel-Sim's tracer: ``kernelslist.g``, and ``.traceg`` files with the instructions of one kernel each.

A ``.traceg`` file is a header of lines ``-key = value``, then the blocks: ``#BEGIN_TB``, ``thread block = x,y,z``,
for every warp ``warp = W`` and ``insts = N`` with N instruction lines, ``#END_TB``. An instruction line is
``[source line] pc mask targets R.. OPCODE sources R.. width [mode addresses] [immediates]``; files of tracer
versions below 3 put ``x y z W`` before it. Mode 0 lists the addresses of the active lanes, mode 1 gives the first and
a stride, mode 2 the first and the differences. Versions from 5 on end lines with immediates, which say nothing
about memory.

What an instruction waits for is what its registers say, as in Accel-Sim's scoreboard: as soon as an instruction,
whether it accesses memory or not, reads or overwrites a register that a load is still on its way to, everything
that follows in the warp waits for that load. A load of 8 or 16 bytes per lane writes 2 or 4 registers from the one
that the line names, and a store reads as many from its last source; other operands count as the one register they
name. A load into shared memory (LDGSTS) writes none and is waited for by DEPBAR, however many it would leave on
their way; after a load that names no target register nothing is known, and everything waits for it.

Generic accesses (LD, ST, ATOM, RED) go to the memory in whose window of 16 MiB their addresses lie, if the header says
where those of shared and local memory begin. Accesses to shared memory, instructions whose lanes are all
switched off, and everything else count into the gap of the next memory instruction. The width is that of the
opcode (``.U8`` to ``.128``), else that of the line: NVBit's is not reliable.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, WARP, Launch, Op
from tracegen.formats._accelsim import Event, Reader
from tracegen.formats.compressed import CHUNK, first_bytes, kernel_name, open_stream, whole_lines
from tracegen.formats.empty_blocks import with_silent
from tracegen.formats.launches import LISTED, Choice, Listed
from tracegen.formats.ordering.gathering import MEMORY, Gathering
from tracegen.formats.recorded_trace import RecordedTrace, Skipped

LIST_NAME = "kernelslist.g"
LIST_SUFFIX = ".g"
MOST_BLOCK_THREADS = 1024

_CHUNK = CHUNK
_LINE_BYTES = 1 << 15
_HEADER_BYTES = 1 << 16
_ROWS = 1 << 15
_QUOTED = 60
_MOST = (1 << 63) - 1

_TRACE_START = re.compile(rb"(?:\s|#[^\n]*\n)*-(?:kernel|grid|block|shmem|nregs|binary|cuda|local|nvbit|accelsim) ")
_LIST_START = re.compile(
    rb"\s*(?:#[^\n]*\n\s*)*"
    rb"(?:Memcpy\w+,0x[0-9a-fA-F]+,\d+|(?:[^\n,]{0,4096}/)?kernel[^\s,/]*\.traceg(?:\.\w+)?)[ \t\r]*(?:\n|$)"
)
_KERNEL_FILE = re.compile(r"(?:.*/)?kernel[^/]*")
_OTHER_COMMAND = re.compile(r"(?:Mem(?:cpy|set)|nccl|cuda)\w*(?:,.*)?")
_FIELD = re.compile(r"-([a-z][\w ]*?) *=[ \t]?(.*)")
_SHAPE = re.compile(r"\s*\(\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\).*")
_NUMBER = re.compile(r"\s*(\d{1,18})(?!\d).*")
_BASE = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{1,16})(?![0-9a-fA-F]).*")
_BLOCK = re.compile(r"\s*thread block\s*=\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*")
_NUMBERS = ("kernel id", "shmem", "nregs", "accelsim tracer version", "enable lineinfo")
_BASES = ("shmem base_addr", "local mem base_addr")

_PROBLEMS = {
    Event.NO_TOKEN: "does not belong here",
    Event.BAD_PC: "the program counter must be hexadecimal, at most ffffffff",
    Event.BAD_MASK: "the active mask must be hexadecimal, at most ffffffff",
    Event.BAD_REGISTERS: "expected a number up to 16 and as many registers R0 to R255",
    Event.BAD_OPCODE: "expected an opcode of capital letters, at most 64 bytes long",
    Event.BAD_WIDTH: "the width must be 0 to 16 bytes",
    Event.BAD_MODE: "the address mode must be 0, 1 or 2",
    Event.FEW_ADDRESSES: "fewer addresses than active lanes, or one that is malformed",
    Event.BAD_ADDRESS: f"an address lies outside 0 to {LAST_ADDRESS}",
    Event.HOLES: "base and stride, but the active lanes are not neighbours",
    Event.MANY_FIELDS: "more fields than belong on the line (or more addresses than active lanes)",
    Event.FEW_FIELDS: "fewer fields than on the first instruction line of the file",
    Event.BULK_COPY: "bulk copies of the tensor memory accelerator cannot be read",
    Event.NOT_MEMORY: "has addresses, but is no memory instruction that is known here",
    Event.MIXED: "generic addresses of global, local and shared memory in one instruction",
    Event.BAD_PLACE: "does not begin with its block and warp, or the line of the source, as the header says",
    Event.TOO_LONG: f"longer than {_LINE_BYTES} bytes",
    Event.NO_BEGIN: "#BEGIN_TB is missing before this line (raw traces go through post-traces-processing first)",
    Event.NO_BLOCK: "'thread block = x,y,z' is missing before this line",
    Event.NO_WARP: "'warp = W' is missing before this line",
    Event.NO_COUNT: "'insts = N' is missing before this line",
    Event.NESTED: "a block begins before #END_TB",
    Event.BAD_WARP: "expected 'warp = W', W below the warps of a block",
    Event.WARP_TWICE: "the block has this warp already",
    Event.BAD_COUNT: "expected 'insts = N'",
}
_NOT_SKIPPED = (Event.WRONG_COUNT, Event.NESTED)
"""Problems whose line is read again: it is not what is wrong."""


def is_trace(head: bytes) -> bool:
    """Tell whether a file that begins so is a ``.traceg``."""
    return _TRACE_START.match(head) is not None


def is_list(head: bytes) -> bool:
    """Tell whether a file that begins so is a ``kernelslist.g``."""
    return _LIST_START.match(head) is not None


def is_folder(path: Path) -> bool:
    """Tell whether there is a ``kernelslist.g`` in a folder."""
    return (path / LIST_NAME).exists()


def read_accelsim(
    path: str | os.PathLike[str], *, lenient: bool = False, kernel: str | None = None, memory: int = MEMORY
) -> RecordedTrace:
    """Return the trace in a ``.traceg`` file, or that of one of the kernels in a ``kernelslist.g`` or its folder.

    `kernel` picks it by number or by a pattern of its name; a list of one kernel needs none. Files may be
    compressed. The trace holds the blocks that occur. What goes beyond `memory` bytes is sorted and kept in
    temporary files; time O(n log n) in the number of lines. Raises `TraceError` with file and line for anything
    malformed, and for a kernel without loads; `lenient` leaves bad lines out instead and accounts for them in
    ``skipped``, but still needs the shapes of grid and block.
    """
    file = Path(path) / LIST_NAME if Path(path).is_dir() else Path(path)
    choice = Choice(os.fspath(file), kernel)
    if not (file.suffix == LIST_SUFFIX or is_list(first_bytes(file, _HEADER_BYTES))):
        if kernel is not None and not choice.accepts(*(found := _identity(file))):
            raise choice.none([found])
        return _TraceFile(os.fspath(file), lenient, memory).read()
    file, skipped = _choose(file, lenient, choice)
    return _TraceFile(os.fspath(file), lenient, memory, skipped).read()


def list_accelsim(path: str | os.PathLike[str]) -> Iterator[Listed]:
    """Yield the launches in a ``kernelslist.g`` or its folder, or that of a ``.traceg``, by the headers of the files.

    A file that is named twice is one launch. Raises `TraceError` with file and line for what is malformed.
    """
    file = Path(path) / LIST_NAME if Path(path).is_dir() else Path(path)
    if not (file.suffix == LIST_SUFFIX or is_list(first_bytes(file, _HEADER_BYTES))):
        yield _listed(file)
        return
    seen: set[Path] = set()
    for line, text in _list_lines(file):
        if _OTHER_COMMAND.fullmatch(text):
            continue
        try:
            one = _named_file(file, text)
            listed = None if one in seen else _listed(one)
        except TraceError as error:
            raise TraceError(f"{file}:{line}: {error}") from None
        seen.add(one)
        if listed is not None:
            yield listed


def _listed(file: Path) -> Listed:
    header = _header_of(file)
    if (key := header.missing()) is not None:
        raise TraceError(f"{file}: no sound line '-{key} = (x,y,z)' before the first block")
    return Listed(header.number, header.launch())


# ---- kernelslist.g


def _choose(path: Path, lenient: bool, choice: Choice) -> tuple[Path, Skipped]:
    """Return the file of the kernel that is meant, and the account of bad lines in the list."""
    skipped = Skipped()
    found: list[tuple[int, str]] = []
    meant: dict[Path, tuple[int, str]] = {}
    for line, text in _list_lines(path):
        if _OTHER_COMMAND.fullmatch(text):
            continue
        try:
            file = _named_file(path, text)
            launch = _identity(file)
        except TraceError as error:
            message = f"{path}:{line}: {error}"
            if not lenient:
                raise TraceError(message) from None
            skipped = skipped.add(message)
            continue
        found = [*found, launch][: LISTED + 1]
        if choice.accepts(*launch):
            meant[file] = launch
        if len(meant) > LISTED:
            break
    if len(meant) > 1:
        raise choice.several(list(meant.values()))
    if not meant:
        raise choice.none(found)
    return next(iter(meant)), skipped


def _list_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the commands in a list with their line numbers; comments, which begin with #, are none."""
    line = 0
    with open_stream(path) as stream:
        for text in whole_lines(stream, _LINE_BYTES, _CHUNK):
            for raw in text.split(b"\n")[: text.count(b"\n") + (not text.endswith(b"\n"))]:
                line += 1
                command = raw.decode("utf-8", "replace").strip()
                if command and not command.startswith("#"):
                    yield line, command


def _named_file(path: Path, text: str) -> Path:
    """Return the file that a line of a list names."""
    if not _KERNEL_FILE.fullmatch(text) or not text.isprintable():
        raise TraceError(f"expected a kernel's file or a Memcpy command, found {_quote(text)}")
    return path.parent / text


def _identity(file: Path) -> tuple[int, str]:
    """Return the number and the name of a kernel by the header of its file."""
    header = _header_of(file)
    return header.number, header.name


def _header_of(file: Path) -> _Header:
    header = _Header(kernel_name(file))
    for raw in first_bytes(file, _HEADER_BYTES).split(b"\n"):
        if raw.lstrip().startswith(b"#BEGIN_TB"):
            break
        header.take(raw)
    return header


# ---- .traceg


@dataclass(slots=True)
class _Header:
    """What the lines ``-key = value`` say so far."""

    name: str
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def take(self, raw: bytes) -> str | None:
        """Take a line; return what is wrong with it. Keys that are not known are passed over."""
        found = _FIELD.fullmatch(raw.decode("utf-8", "replace").rstrip("\r").lstrip())
        if found is None:
            return "expected '-key = value'"
        key, value = found.groups()
        if key == "kernel name":
            self.name = value
        elif key in ("grid dim", "block dim"):
            if (shape := _SHAPE.fullmatch(value)) is None:
                return f"{key} must be (x,y,z)"
            x, y, z = (int(n) for n in shape.groups())
            if problem := _shape_problem(key, x, y, z):
                return problem
            self.shapes[key] = x, y, z
        elif key in _NUMBERS or key in _BASES:
            number = (_NUMBER if key in _NUMBERS else _BASE).fullmatch(value)
            if number is None:
                return f"{key} must be a number below 2^{'63' if key in _NUMBERS else '64'}"
            self.numbers[key] = int(number[1], 10 if key in _NUMBERS else 16)
        return None

    @property
    def number(self) -> int:
        """The number of the launch, 0 where the header has none."""
        return self.numbers.get("kernel id", 0)

    def missing(self) -> str | None:
        """Return what of the shapes the header does not say."""
        return next((key for key in ("grid dim", "block dim") if key not in self.shapes), None)

    def launch(self) -> Launch:
        """Return the launch that the header describes; nothing may be missing."""
        return Launch(
            kernel=self.name,
            grid=self.shapes["grid dim"],
            block=self.shapes["block dim"],
            registers=self.numbers.get("nregs", 0),
            shared_memory=self.numbers.get("shmem", 0),
        )


def _shape_problem(key: str, x: int, y: int, z: int) -> str | None:
    if min(x, y, z) < 1:
        return f"{key} ({x},{y},{z}): must be at least 1 each"
    if key == "block dim" and x * y * z > MOST_BLOCK_THREADS:
        return f"block dim ({x},{y},{z}): must be at most {MOST_BLOCK_THREADS} threads"
    # Keys of warps count over the whole grid.
    if key == "grid dim" and x * y * z * WARP > _MOST:
        return f"grid dim ({x},{y},{z}): must be below 2^58 blocks"
    return None


class _Blocks:
    """Which blocks have been seen, as intervals: a file in order costs no memory."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._end: list[int] = []
        self.count = 0

    def add(self, block: int) -> bool:
        """Add a block; return whether it is new."""
        at = bisect_right(self._first, block) - 1
        if at >= 0 and block < self._end[at]:
            return False
        self.count += 1
        if at >= 0 and block == self._end[at]:
            self._end[at] += 1
        else:
            at += 1
            self._first.insert(at, block)
            self._end.insert(at, block + 1)
        if at + 1 < len(self._first) and self._first[at + 1] == self._end[at]:
            self._end[at] = self._end.pop(at + 1)
            del self._first[at + 1]
        return True

    def ids(self) -> NDArray[np.int64]:
        """Return all of them, ascending."""
        return np.concatenate([np.arange(a, b) for a, b in zip(self._first, self._end, strict=True)])


class _TraceFile:
    """A ``.traceg`` file on its way to a trace."""

    def __init__(self, name: str, lenient: bool, memory: int, skipped: Skipped | None = None) -> None:
        self._name, self._lenient, self._memory = name, lenient, memory
        self._skipped = skipped or Skipped()
        self._header = _Header(kernel_name(name))
        self._reader = Reader(LAST_ADDRESS, _LINE_BYTES, _ROWS)
        self._blocks = _Blocks()
        self._gathering: Gathering | None = None
        self._line = 1
        self._loads = self._rows = 0

    def read(self) -> RecordedTrace:
        """Return the trace, or raise `TraceError`."""
        with open_stream(self._name) as stream:
            for text in whole_lines(stream, _LINE_BYTES, _CHUNK):
                self._read_text(text)
        if self._reader.finish() == Event.NO_END:
            self._complain("the file ends within a block: #END_TB is missing")
        if self._gathering is None:
            raise TraceError(f"{self._name}: no thread blocks" if self._line > 1 else f"{self._name}: is empty")
        if not self._rows:
            raise TraceError(f"{self._name}: no memory instructions in {self._blocks.count} blocks")
        if not self._loads:
            raise TraceError(f"{self._name}: a kernel without loads: none of {self._rows} memory instructions is one")
        launch = self._header.launch()
        columns, blocks = self._gathering.finish()
        if len(blocks) < self._blocks.count:
            seen = self._blocks.ids()
            columns, blocks = with_silent(columns, blocks, seen, launch.block_warps), seen.tolist()
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=self._skipped)

    def _read_text(self, text: bytes) -> None:
        at = 0
        while at < len(text):
            at, lines, event = self._reader.parse(text, at)
            self._line += lines
            if event == Event.FULL:
                self._gather()
            elif event != Event.DONE:
                at = self._read_special(text, at, event)
        self._gather()

    def _read_special(self, text: bytes, at: int, event: int) -> int:
        """Take care of a line that is none of the compiled reader's business; return where to go on."""
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if event == Event.HEADER:
            problem = self._take_header(line)
        elif event == Event.BLOCK:
            problem = self._enter_block(line)
        elif event == Event.WRONG_COUNT:
            warp, claimed, found = self._reader.count_of_warp()
            problem = f"warp {warp} ends here after {found} instructions, not the {claimed} of 'insts'"
        else:
            problem = _PROBLEMS[Event(event)]
        if problem:
            self._complain(problem, line)
        if event in _NOT_SKIPPED:
            return at
        self._line += 1
        return end + 1

    def _complain(self, problem: str, line: bytes | None = None) -> None:
        message = f"{self._name}:{self._line}: {problem}"
        if line is not None:
            message += f", found {_quote(line[: 2 * _QUOTED].decode('latin-1'))}"
        if not self._lenient:
            raise TraceError(message)
        self._skipped = self._skipped.add(message)

    def _take_header(self, line: bytes) -> str | None:
        if self._gathering is not None:
            return "a header line after the first block"
        return self._header.take(line) if len(line) <= _LINE_BYTES else _PROBLEMS[Event.TOO_LONG]

    def _enter_block(self, line: bytes) -> str | None:
        found = _BLOCK.fullmatch(line.decode("latin-1"))
        if found is None:
            return "expected 'thread block = x,y,z'"
        if self._gathering is None:
            self._begin_blocks()
        x, y, z = (int(n) for n in found.groups())
        grid = self._header.shapes["grid dim"]
        if not (x < grid[0] and y < grid[1] and z < grid[2]):
            return f"the block lies outside the grid ({grid[0]},{grid[1]},{grid[2]})"
        block = (z * grid[1] + y) * grid[0] + x
        if not self._blocks.add(block):
            return "the file has this block already"
        self._reader.enter_block(block, x, y, z)
        return None

    def _begin_blocks(self) -> None:
        """Draw the conclusions from the header."""
        if (key := self._header.missing()) is not None:
            raise TraceError(f"{self._name}:{self._line}: no sound line '-{key} = (x,y,z)' before the first block")
        numbers = self._header.numbers
        version = numbers.get("accelsim tracer version", 0)
        warps = self._header.launch().block_warps
        self._gathering = Gathering(warps, memory=self._memory)
        self._reader.set_layout(
            coordinates=version < 3,
            line_numbers=numbers.get("enable lineinfo", 0) != 0,
            plain=version < 4,
            block_warps=warps,
            shared_window=numbers.get("shmem base_addr", 0),
            local_window=numbers.get("local mem base_addr", 0),
        )

    def _gather(self) -> None:
        """Hand what has been read on to the gathering."""
        if self._gathering is None:
            return
        rows = self._reader.take()
        count = len(rows["pc"])
        self._rows += count
        self._loads += int(np.count_nonzero(rows["op"] == Op.LOAD))
        rows["loop_exit"] = np.zeros(count, np.bool_)
        self._gathering.add(rows["block"], rows["warp"], rows)


def _quote(text: str) -> str:
    quoted = repr(text[:_QUOTED].rstrip("\r\n"))
    return quoted if len(quoted) <= _QUOTED else quoted[:_QUOTED] + "..."
