"""Read the output of NVBit's example tool ``mem_trace``: one line per memory instruction of a warp.

A line ``MEMTRACE: CTX .. - LAUNCH - ..`` announces a launch with its shape. A line ``MEMTRACE: CTX .. - grid_launch_id
N - CTA x,y,z - warp W - OPCODE - A0 .. A31`` is the record of an instruction. The output of the traced program stands
between these lines and is ignored. The reader relies on these facts about the tool (NVIDIA NVBit, tools/mem_trace):

* An address of 0 means that the lane is inactive.
* `W` is the warp slot on the SM (``%warpid``), not the number of the warp in its block. If all slots of a block are
  below its number of warps, the reader takes them for warp numbers; otherwise it numbers them in ascending order. If
  the last warp of a block then has active lanes without a thread, the highest slot without such lanes is the last one.
* There is no program counter. ``pc`` numbers the opcodes (``LDG.E.64``) in the order of their first record, so an
  instruction always has the same ``pc``, but different instructions may share it.
* Older versions announce launch N + 1 and then record N. The reader detects this; numbers are the announced ones.
* Instructions that access shared memory, and those whose addresses are all 0, count for the ``gap`` of the next one.
  Other instructions without memory accesses are not recorded. ``LDGSTS`` has a second record with the addresses in
  shared memory, which are offsets below 256 KB; the reader leaves it out.
* Addresses of local memory are offsets that all threads share. Their place in memory is unknown.
* Dependences are unknown: every instruction waits for all earlier loads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Launch
from rdmodel.trace.lanes import ALL_LANES, last_warp_mask
from tracegen.formats._nvbit import parse
from tracegen.formats.compressed import Text, is_cut, line_end, open_stream, whole_lines
from tracegen.formats.empty_blocks import advise_about_missing_blocks, fill_grid
from tracegen.formats.launch_entries import MAX_LISTED_LAUNCHES, LaunchChoice, LaunchEntry
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES, Gathering
from tracegen.formats.ordering.packed import PackedInstructions
from tracegen.formats.ordering.partial_warps import place_last_warps
from tracegen.formats.packed_trace import PackedTrace
from tracegen.formats.parsed_instructions import FULL_EVENT, ParsedInstructions
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.formats.sass_opcodes import OpcodeTable
from tracegen.limits import MAX_BLOCK_THREADS

SM_WARP_SLOTS = 64
"""Warp slots of an SM: upper bound (exclusive) of the warp numbers in records."""

MAX_GRID_BLOCKS = 1 << 56
"""Blocks of a grid for which `Gathering` can number all warp slots below 2^63."""

_MEMTRACE_PREFIX = b"MEMTRACE: "
_MAX_MEMTRACE_LINE_BYTES = 1 << 16

_MIN_CUT_PREFIX_BYTES = 4
"""Bytes of the prefix by which a cut line of the tool is recognised that follows output of the program."""

_NUMBER_GROUP = rb"(\d{1,18})"
_SHAPE_GROUPS = rb",".join([_NUMBER_GROUP] * 3)
_LAUNCH_LINE = re.compile(
    _MEMTRACE_PREFIX
    + rb"CTX 0[xX][0-9a-fA-F]+ - LAUNCH - Kernel (?:pc )?0x[0-9a-fA-F]+ - Kernel name (.*) - grid launch id "
    + _NUMBER_GROUP
    + rb" - grid size "
    + _SHAPE_GROUPS
    + rb" - block size "
    + _SHAPE_GROUPS
    + rb" - nregs "
    + _NUMBER_GROUP
    + rb" - shmem "
    + _NUMBER_GROUP
    + rb"(?: - cuda stream id -?\d+)?\s*"
)
_LAUNCH_START = re.compile(_MEMTRACE_PREFIX + rb"CTX 0[xX][0-9a-fA-F]+ - LAUNCH - [^\n]*")
_RECORD = re.compile(
    _MEMTRACE_PREFIX + rb"CTX 0[xX][0-9a-fA-F]+ - grid_launch_id (\d+) - CTA [\d,]+ - warp \d+ - ([\w.]+)"
)
_LAUNCH_BOUNDS = (
    ("grid x", 1, (1 << 31) - 1),
    ("grid y", 1, 65535),
    ("grid z", 1, 65535),
    ("block x", 1, 1024),
    ("block y", 1, 1024),
    ("block z", 1, 64),
    ("nregs", 0, 255),
    ("shmem", 0, 1 << 30),
)
"""Smallest and largest values of the numbers in the announcement of a launch, in their order."""

_LAUNCH_EVENT, _NEW_OPCODE_EVENT, _OTHER_LAUNCH_EVENT = 1, 2, 3
"""Events of `tracegen.formats._nvbit.parse` that are not mistakes."""

_MEMTRACE_PROBLEMS = {
    10: "expected 'CTX .. - grid_launch_id N - CTA x,y,z - warp W - OPCODE - addresses' or a LAUNCH",
    11: "the CTA lies outside of the grid",
    12: f"the warp must be below {SM_WARP_SLOTS}",
    13: "expected 32 hexadecimal addresses '0x..' of at most 64 bits",
    14: f"addresses must be at most {LAST_ADDRESS:#x}",
    15: f"longer than {_MAX_MEMTRACE_LINE_BYTES} bytes",
    16: "lanes without a thread are active: the block is smaller",
}
"""Messages for the events of `tracegen.formats._nvbit.parse` that are mistakes."""

_ADDRESS_PROBLEMS = (13, 14)
_ADDRESS = re.compile(rb"0[xX][0-9a-fA-F]{1,16}")
"""Events about addresses, and an address."""


def is_nvbit(head: bytes) -> bool:
    """Tell whether the first bytes of a file contain a line of ``mem_trace``."""
    return re.search(rb"MEMTRACE: (CTX 0x|STARTING CONTEXT)", head) is not None


def read_nvbit(
    path: str | os.PathLike[str],
    *,
    kernel: str | int | None = None,
    lenient: bool = False,
    memory: int = SORT_MEMORY_BYTES,
) -> RecordedTrace:
    """Read one launch from a file of ``mem_trace``; the trace holds the blocks that occur.

    Parameters
    ----------
    path : path
        The file, which may be compressed.
    kernel : str, optional
        The launch if there are several: its number, its name, or a pattern of the name.
    lenient : bool
        Leave out bad lines, and take blocks that do not occur for blocks that access no memory; ``skipped`` of the
        trace accounts for both.
    memory : int
        Memory in bytes for sorting; instructions that do not fit are kept in temporary files.

    Returns
    -------
    RecordedTrace
        The trace, with an account of the lines left out.

    Raises
    ------
    TraceError
        With file and line for malformed input, and for a launch without accesses.
    """
    reader = _MemtraceReader(os.fspath(path), kernel, lenient, memory)
    with open_stream(path) as stream:
        reader.read(stream)
    return reader.finish()


def list_nvbit(path: str | os.PathLike[str]) -> Iterator[LaunchEntry]:
    """Yield the launches that a file of ``mem_trace`` announces, in the order of the file, without parsing records.

    Raises `TraceError` with file and line for a malformed announcement, and for a repeated launch number.
    """
    name, line, numbers = os.fspath(path), 1, _LaunchNumbers()
    with open_stream(path) as stream:
        for text in whole_lines(stream, _MAX_MEMTRACE_LINE_BYTES):
            if is_cut(text) and _may_be_record(text):
                raise TraceError(f"{name}:{line}: the last line is incomplete, as if the file were cut off")
            done = 0
            for match in _LAUNCH_START.finditer(text):
                line += text.count(b"\n", done, match.start())
                done = match.start()
                announced = _parse_launch(match[0])
                if isinstance(announced, LaunchEntry) and announced.number in numbers:
                    announced = f"launch {announced.number} was announced before"
                if isinstance(announced, str):
                    raise TraceError(f"{name}:{line}: {announced}, found {quote(match[0])}")
                numbers.add(announced.number)
                yield announced
            line += text.count(b"\n", done)


class _MemtraceReader:
    """Reads one file: compiled code parses the records of the chosen launch, and this class handles all other lines."""

    def __init__(self, name: str, kernel: str | int | None, lenient: bool, memory: int) -> None:
        self._name, self._lenient, self._memory = name, lenient, memory
        self._log = SkipLog(lenient)
        self._choice = LaunchChoice(name, kernel)
        self._announced: list[LaunchEntry] = []  # the first few, the chosen one included
        self._numbers = _LaunchNumbers()
        self._chosen: LaunchEntry | None = None
        self._ended = False  # whether the chosen launch has been announced again
        self._shift: int | None = None  # announced launch number minus the one in its records; None: unknown
        self._opcodes = OpcodeTable()
        self._instructions = ParsedInstructions()
        self._threads = ALL_LANES  # those that any warp of the chosen launch may have
        self._dropped = np.zeros(1, np.int64)  # lanes
        self._line = 1

    def read(self, stream: BinaryIO) -> None:
        for text in whole_lines(stream, _MAX_MEMTRACE_LINE_BYTES):
            if is_cut(text) and _may_be_record(text):
                self._log.report_cut_line(self._name, self._line, text)
                break
            self._read_chunk(text)

    def finish(self) -> RecordedTrace:
        if self._chosen is None:
            raise self._choice.no_match_error([(a.number, a.launch.kernel) for a in self._announced])
        launch, skipped = self._chosen.launch, self._log.skipped
        where = f"{self._name}: launch {self._chosen.number}"
        advice = advise_about_missing_blocks(lenient=self._lenient)
        if (packed := self._finish_packed(launch, where)) is not None:
            skipped = replace(skipped, lanes=int(self._dropped[0]))
            return PackedTrace(launch, packed, skipped=skipped, advice=advice)
        columns, blocks = self._instructions.finish(where)
        try:
            columns, dropped = place_last_warps(columns, blocks, launch, drop_lanes=self._lenient)
        except TraceError as error:
            raise TraceError(f"{where}: {error}") from None
        skipped = replace(skipped, lanes=int(self._dropped[0]) + dropped)
        if self._lenient:
            columns, blocks, skipped = fill_grid(launch, columns, blocks, skipped)
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped, advice=advice)

    def _finish_packed(self, launch: Launch, where: str) -> PackedInstructions | None:
        """Return packed instructions, or None if they need columns: to place last warps, or to fill up the grid."""
        if last_warp_mask(launch) != ALL_LANES:
            return None
        packed = self._instructions.finish_packed(where)
        return None if packed is None or (self._lenient and len(packed.blocks) < launch.blocks) else packed

    # ---- Lines

    def _read_chunk(self, text: Text) -> None:
        grid = np.array(self._chosen.launch.grid if self._chosen else (0, 0, 0), np.int64)
        at = 0
        while at < len(text):
            wanted, shift, announced = self._parser_launches()
            at, lines, row, used, event = parse(
                text, at, wanted, shift, announced, grid, SM_WARP_SLOTS, ALL_NEEDS, LAST_ADDRESS,
                _MAX_MEMTRACE_LINE_BYTES,
                self._opcodes.names, self._opcodes.lengths, self._opcodes.kinds, self._opcodes.count,
                *self._instructions.room, self._threads, self._lenient, self._dropped,
            )  # fmt: skip
            self._instructions.take(row, used)
            self._line += lines
            if not event:
                break
            if event == FULL_EVENT:
                self._instructions.make_room()
                continue
            end = line_end(text, at)
            # The compiled code continues after this line, or with it if it now knows the opcode or launch in it.
            problem, again = self._handle(event, text[text.find(_MEMTRACE_PREFIX, at, end) if event < 10 else at : end])
            if problem:
                self._report(problem, text[at:end])
            if self._chosen:
                grid[:] = self._chosen.launch.grid
            if problem or not again:
                at, self._line = end + 1, self._line + 1

    def _handle(self, event: int, line: Text) -> tuple[str | None, bool]:
        """Handle a line that the compiled code stopped at; return a problem or None, and whether to parse it again."""
        if event == _LAUNCH_EVENT:
            return self._add_announcement(line), False
        if event in _MEMTRACE_PROBLEMS:
            return _MEMTRACE_PROBLEMS[event] + (_describe_addresses(line) if event in _ADDRESS_PROBLEMS else ""), False
        match = _RECORD.match(line)
        assert match is not None
        if event == _NEW_OPCODE_EVENT:
            return self._opcodes.add(bytes(match[2])), True
        return self._detect_shift(int(match[1])), True

    def _report(self, problem: str, line: Text) -> None:
        specific = line[max(line.find(b"CTA "), 0) :]  # the part before it is the same in all records
        self._log.report(f"{self._name}:{self._line}: {problem}, found {quote(specific)}")

    # ---- Launches

    def _parser_launches(self) -> tuple[int, int, NDArray[np.int64]]:
        """Return the number of the chosen launch (-1: none), the shift, and the numbers of all announced launches."""
        if self._shift is None:
            return -1, 0, np.empty(0, np.int64)
        return -1 if self._chosen is None or self._ended else self._chosen.number, self._shift, self._numbers.array

    def _add_announcement(self, line: Text) -> str | None:
        announced = _parse_launch(line)
        if isinstance(announced, str):
            return announced
        if announced.number in self._numbers:
            # A lenient reader leaves out what follows: it would be another run of the program.
            self._ended |= self._chosen is not None and announced.number == self._chosen.number
            return f"launch {announced.number} was announced before"
        self._add_launch(announced)
        return None

    def _add_launch(self, announced: LaunchEntry) -> None:
        if len(self._announced) <= MAX_LISTED_LAUNCHES:
            self._announced.append(announced)
        self._numbers.add(announced.number)
        if self._choice.accepts(announced.number, announced.launch.kernel):
            if self._chosen is not None:
                matching = [(a.number, a.launch.kernel) for a in (self._chosen, announced)]
                raise self._choice.ambiguity_error(matching, more=True)  # the rest of the file has not been read
            self._chosen = announced
            block_warps = announced.launch.block_warps
            self._threads = last_warp_mask(announced.launch) if block_warps == 1 else ALL_LANES
            self._instructions.gathering = Gathering(block_warps, slots=SM_WARP_SLOTS, memory=self._memory)

    def _detect_shift(self, number: int) -> str | None:
        """Find out from the first record how records number launches; return a problem for an unknown launch."""
        if self._shift is None and len(self._numbers):
            shifts = (1, 0) if self._numbers.first == 1 else (0, 1)
            self._shift = next((shift for shift in shifts if number + shift in self._numbers), None)
            if self._shift is not None:
                return None
        return f"launch {number} has not been announced"


def _parse_launch(line: Text) -> LaunchEntry | str:
    """Return the launch that a line announces, or a message if the line is malformed."""
    match = _LAUNCH_LINE.fullmatch(line)
    if match is None:
        return "expected 'LAUNCH - Kernel pc .. - Kernel name .. - grid launch id .. - grid size .. - block size ..'"
    number, *shape = (int(group) for group in match.groups()[1:])
    for (field, lowest, highest), value in zip(_LAUNCH_BOUNDS, shape, strict=True):
        if not lowest <= value <= highest:
            return f"{field} must be {lowest} to {highest}"
    blocks, threads = shape[0] * shape[1] * shape[2], shape[3] * shape[4] * shape[5]
    if blocks > MAX_GRID_BLOCKS or threads > MAX_BLOCK_THREADS:
        return f"a grid has at most {MAX_GRID_BLOCKS} blocks, a block {MAX_BLOCK_THREADS} threads"
    launch = Launch(
        kernel=match[1].decode("utf-8", "replace"),
        grid=(shape[0], shape[1], shape[2]),
        block=(shape[3], shape[4], shape[5]),
        registers=shape[6],
        shared_memory=shape[7],
    )
    return LaunchEntry(number, launch)


def _may_be_record(line: Text) -> bool:
    """Tell whether a cut line may have been the tool's, not the program's, whose output may end without a newline."""
    start = len(_MEMTRACE_PREFIX)
    ends = (_MEMTRACE_PREFIX[:length] for length in range(_MIN_CUT_PREFIX_BYTES, start))
    return _MEMTRACE_PREFIX in line or _MEMTRACE_PREFIX.startswith(line) or line.endswith(tuple(ends))


def _describe_addresses(line: Text) -> str:
    """Return the first malformed address of a record as a part of a message, else the number of addresses."""
    words = line.rpartition(b" - ")[2].split()
    for word in words:
        if not _ADDRESS.fullmatch(word) or int(word, 16) > LAST_ADDRESS:
            return f", not {quote(word)}"
    return f", not {len(words)}"


class _LaunchNumbers:
    """The numbers of the announced launches as an ascending array that grows quickly at its end."""

    def __init__(self) -> None:
        self._buffer = np.empty(16, np.int64)
        self._count = 0
        self.first = -1

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        at = int(np.searchsorted(self.array, number))
        return at < self._count and int(self.array[at]) == number

    @property
    def array(self) -> NDArray[np.int64]:
        return self._buffer[: self._count]

    def add(self, number: int) -> None:
        if self._count == 0:
            self.first = number
        if self._count == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        at = int(np.searchsorted(self.array, number))
        self._buffer[at + 1 : self._count + 1] = self._buffer[at : self._count].copy()
        self._buffer[at] = number
        self._count += 1
