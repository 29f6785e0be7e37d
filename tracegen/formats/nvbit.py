"""The text that NVBit's example tool ``mem_trace`` prints: one line per memory instruction of a warp.

A line ``MEMTRACE: CTX .. - LAUNCH - ..`` announces a launch with its shape; ``MEMTRACE: CTX .. - grid_launch_id N -
CTA x,y,z - warp W - OPCODE - A0 .. A31`` is an instruction. What the program prints is interleaved, and passed
over. Facts about the tool (NVIDIA NVBit, tools/mem_trace) that a reader has to know:

* An address of 0 means that the lane is inactive.
* `W` is the slot of the SM that the warp sat in (``%warpid``), not its place in the block. If all slots of a block
  are below its number of warps they are taken for places, otherwise the slots in ascending order are.
* There is no program counter: ``pc`` counts the opcodes (``LDG.E.64``) in order of their first line, so the same
  instruction always has the same one, but different ones may share it.
* Older versions announce launch N + 1 and then record N. This is noticed; numbers are those announced.
* Instructions that access shared memory, and those whose addresses are all 0, count for the ``gap`` of the next;
  others that do not access memory are not recorded. ``LDGSTS`` has a second line with the addresses in shared
  memory, which are offsets below 256 KB; it is left out.
* Addresses of local memory are offsets that all threads share; nothing says where they lie in memory.
* Dependences are unknown: every instruction waits for all earlier loads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, WARP, Launch
from tracegen.formats._nvbit import parse
from tracegen.formats.compressed import open_stream, whole_lines
from tracegen.formats.empty_blocks import whole_grid
from tracegen.formats.launches import LISTED, Choice, Listed
from tracegen.formats.ordering.gathering import MEMORY, Gathering
from tracegen.formats.parsed_instructions import Instructions
from tracegen.formats.recorded_trace import RecordedTrace, Skipped, quote
from tracegen.formats.sass_opcodes import OpcodeTable

SLOTS = 64
"""Warps that an SM holds at most."""

MOST_BLOCKS = 1 << 56
MOST_BLOCK_THREADS = 1024

_PREFIX = b"MEMTRACE: "
_CHUNK = 1 << 20
_LINE_BYTES = 1 << 16
_SHORTEST_RECORD = 128
_NUMBER = rb"(\d{1,18})"
_TRIPLE = rb",".join([_NUMBER] * 3)
_HEADER = re.compile(
    _PREFIX
    + rb"CTX 0[xX][0-9a-fA-F]+ - LAUNCH - Kernel (?:pc )?0x[0-9a-fA-F]+ - Kernel name (.*) - grid launch id "
    + _NUMBER
    + rb" - grid size "
    + _TRIPLE
    + rb" - block size "
    + _TRIPLE
    + rb" - nregs "
    + _NUMBER
    + rb" - shmem "
    + _NUMBER
    + rb"(?: - cuda stream id -?\d+)?\s*"
)
_ANNOUNCEMENT = re.compile(_PREFIX + rb"CTX 0[xX][0-9a-fA-F]+ - LAUNCH - [^\n]*")
_RECORD = re.compile(_PREFIX + rb"CTX 0[xX][0-9a-fA-F]+ - grid_launch_id (\d+) - CTA [\d,]+ - warp \d+ - ([\w.]+)")
_BOUNDS = (
    ("grid x", 1, (1 << 31) - 1),
    ("grid y", 1, 65535),
    ("grid z", 1, 65535),
    ("block x", 1, 1024),
    ("block y", 1, 1024),
    ("block z", 1, 64),
    ("nregs", 0, 255),
    ("shmem", 0, 1 << 30),
)
_LAUNCH, _NEW_OPCODE, _OTHER_LAUNCH = 1, 2, 3
_PROBLEMS = {
    10: "expected 'CTX .. - grid_launch_id N - CTA x,y,z - warp W - OPCODE - addresses' or a LAUNCH",
    11: "the CTA lies outside of the grid",
    12: f"the warp must be below {SLOTS}",
    13: "expected 32 hexadecimal addresses '0x..' of at most 64 bits",
    14: f"addresses must be at most {LAST_ADDRESS:#x}",
    15: f"longer than {_LINE_BYTES} bytes",
}
_OF_ADDRESSES = (13, 14)
_ADDRESS = re.compile(rb"0[xX][0-9a-fA-F]{1,16}")


def is_nvbit(head: bytes) -> bool:
    """Tell whether a file that begins so is one of ``mem_trace``: a line with its prefix is in it."""
    return re.search(rb"MEMTRACE: (CTX 0x|STARTING CONTEXT)", head) is not None


def read_nvbit(
    path: str | os.PathLike[str], *, kernel: str | None = None, lenient: bool = False, memory: int = MEMORY
) -> RecordedTrace:
    """Return one launch in a file of ``mem_trace``; it holds the blocks that occur.

    `kernel` says which launch if there are several: its number, its name, or a pattern of it. Instructions that
    do not fit `memory` bytes are kept in temporary files. Raises `TraceError` with file and line for anything
    malformed, and for a launch without loads and atomics; `lenient` leaves bad lines out instead, takes blocks that
    do not occur to access nothing, and accounts for both in ``skipped``.
    """
    reader = _Reader(os.fspath(path), kernel, lenient, memory)
    with open_stream(path) as stream:
        reader.read(stream)
    return reader.finish()


def list_nvbit(path: str | os.PathLike[str]) -> Iterator[Listed]:
    """Yield the launches that a file of ``mem_trace`` announces, in its order; records are passed over unread.

    Raises `TraceError` with file and line for a malformed announcement, and for a number that comes twice.
    """
    name, line, numbers = os.fspath(path), 1, _Numbers()
    with open_stream(path) as stream:
        for text in whole_lines(stream, _LINE_BYTES, _CHUNK):
            done = 0
            for found in _ANNOUNCEMENT.finditer(text):
                line += text.count(b"\n", done, found.start())
                done = found.start()
                announced = _announced(found[0])
                if isinstance(announced, Listed) and announced.number in numbers:
                    announced = f"launch {announced.number} was announced before"
                if isinstance(announced, str):
                    raise TraceError(f"{name}:{line}: {announced}, found {quote(found[0])}")
                numbers.add(announced.number)
                yield announced
            line += text.count(b"\n", done)


class _Reader:
    """Reads a file: compiled code takes the records of the chosen launch, everything else is decided here."""

    def __init__(self, name: str, kernel: str | None, lenient: bool, memory: int) -> None:
        self._name, self._lenient, self._memory = name, lenient, memory
        self._choice = Choice(name, kernel)
        self._announced: list[Listed] = []  # the first few, the chosen one included
        self._numbers = _Numbers()
        self._chosen: Listed | None = None
        self._shift: int | None = None  # how much less than announced the numbers in records are
        self._opcodes = OpcodeTable()
        self._instructions = Instructions()
        self._line = 1
        self._skipped = Skipped()

    def read(self, stream: BinaryIO) -> None:
        for text in whole_lines(stream, _LINE_BYTES, _CHUNK):
            self._read_chunk(text)

    def finish(self) -> RecordedTrace:
        if self._chosen is None:
            raise self._choice.none([(a.number, a.launch.kernel) for a in self._announced])
        launch, skipped = self._chosen.launch, self._skipped
        columns, blocks = self._instructions.finish(f"{self._name}: launch {self._chosen.number}")
        if self._lenient:
            columns, blocks, skipped = whole_grid(launch, columns, blocks, skipped)
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped, mentions_all=False)

    # ---- Lines

    def _read_chunk(self, text: bytes) -> None:
        rows = len(text) // _SHORTEST_RECORD + 2
        arrays = self._instructions.room(rows, rows * WARP)
        grid = np.array(self._chosen.launch.grid if self._chosen else (0, 0, 0), np.int64)
        at = rows = used = 0
        while at < len(text):
            wanted, shift, announced = self._wanted()
            at, lines, rows, used, event = parse(
                text, at, wanted, shift, announced, grid, SLOTS, LAST_ADDRESS, _LINE_BYTES,
                self._opcodes.names, self._opcodes.lengths, self._opcodes.kinds, self._opcodes.count,
                *arrays, rows, used,
            )  # fmt: skip
            self._line += lines
            if not event:
                break
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            # A launch, an opcode or a mistake: the compiled code goes on behind it, or from it once it is known.
            problem, again = self._handle(event, text[text.find(_PREFIX, at, end) if event < 10 else at : end])
            if problem:
                self._skip(problem, text[at:end])
            if self._chosen:
                grid[:] = self._chosen.launch.grid
            if problem or not again:
                at, self._line = end + 1, self._line + 1
        self._instructions.take(rows, used)

    def _handle(self, event: int, line: bytes) -> tuple[str | None, bool]:
        """See to a line; return what is wrong with it, if something is, and whether it is to be read again."""
        if event == _LAUNCH:
            return self._announce(line), False
        if event in _PROBLEMS:
            return _PROBLEMS[event] + (_bad_address(line) if event in _OF_ADDRESSES else ""), False
        found = _RECORD.match(line)
        assert found is not None
        if event == _NEW_OPCODE:
            return self._opcodes.add(found[2]), True
        return self._meet(int(found[1])), True

    def _skip(self, problem: str, line: bytes) -> None:
        told = line[max(line.find(b"CTA "), 0) :]  # what comes before is the same in all records
        message = f"{self._name}:{self._line}: {problem}, found {quote(told)}"
        if not self._lenient:
            raise TraceError(message)
        self._skipped = self._skipped.add(message)

    # ---- Launches

    def _wanted(self) -> tuple[int, int, NDArray[np.int64]]:
        """Return the launch whose records are wanted, by how much they count less, and all that are announced."""
        if self._shift is None:
            return -1, 0, np.empty(0, np.int64)
        return -1 if self._chosen is None else self._chosen.number, self._shift, self._numbers.array

    def _announce(self, line: bytes) -> str | None:
        announced = _announced(line)
        if isinstance(announced, str):
            return announced
        if announced.number in self._numbers:
            return f"launch {announced.number} was announced before"
        self._take_up(announced)
        return None

    def _take_up(self, announced: Listed) -> None:
        if len(self._announced) <= LISTED:
            self._announced.append(announced)
        self._numbers.add(announced.number)
        if self._choice.accepts(announced.number, announced.launch.kernel):
            if self._chosen is not None:
                meant = [(a.number, a.launch.kernel) for a in (self._chosen, announced)]
                raise self._choice.several(meant, more=True)  # the rest of the file has not been read
            self._chosen = announced
            block_warps = announced.launch.block_warps
            self._instructions.gathering = Gathering(block_warps, slots=SLOTS, memory=self._memory)

    def _meet(self, number: int) -> str | None:
        """Decide how launches are counted when their first record comes; return a problem for an unknown one."""
        if self._shift is None and len(self._numbers):
            shifts = (1, 0) if self._numbers.first == 1 else (0, 1)
            self._shift = next((shift for shift in shifts if number + shift in self._numbers), None)
            if self._shift is not None:
                return None
        return f"launch {number} has not been announced"


def _announced(line: bytes) -> Listed | str:
    """Return the launch that a line announces, or what is wrong with it."""
    found = _HEADER.fullmatch(line)
    if found is None:
        return "expected 'LAUNCH - Kernel pc .. - Kernel name .. - grid launch id .. - grid size .. - block size ..'"
    number, *shape = (int(group) for group in found.groups()[1:])
    for (what, least, most), value in zip(_BOUNDS, shape, strict=True):
        if not least <= value <= most:
            return f"{what} must be {least} to {most}"
    blocks, threads = shape[0] * shape[1] * shape[2], shape[3] * shape[4] * shape[5]
    if blocks > MOST_BLOCKS or threads > MOST_BLOCK_THREADS:
        return f"a grid has at most {MOST_BLOCKS} blocks, a block {MOST_BLOCK_THREADS} threads"
    launch = Launch(
        kernel=found[1].decode("utf-8", "replace"),
        grid=(shape[0], shape[1], shape[2]),
        block=(shape[3], shape[4], shape[5]),
        registers=shape[6],
        shared_memory=shape[7],
    )
    return Listed(number, launch)


def _bad_address(line: bytes) -> str:
    """Return which address of a record is none, or how many there are."""
    words = line.rpartition(b" - ")[2].split()
    for word in words:
        if not _ADDRESS.fullmatch(word) or int(word, 16) > LAST_ADDRESS:
            return f", not {quote(word)}"
    return f", not {len(words)}"


class _Numbers:
    """A set of numbers as an ascending array, quick to grow at its end."""

    def __init__(self) -> None:
        self._room = np.empty(16, np.int64)
        self._count = 0
        self.first = -1

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        at = int(np.searchsorted(self.array, number))
        return at < self._count and int(self.array[at]) == number

    @property
    def array(self) -> NDArray[np.int64]:
        return self._room[: self._count]

    def add(self, number: int) -> None:
        if self._count == 0:
            self.first = number
        if self._count == len(self._room):
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        at = int(np.searchsorted(self.array, number))
        self._room[at + 1 : self._count + 1] = self._room[at : self._count].copy()
        self._room[at] = number
        self._count += 1
