"""Read ``.traceg`` files of Accel-Sim's tracer, which hold the instructions of one kernel each.

A file is a header of lines ``-key = value``, then the blocks: ``#BEGIN_TB``, ``thread block = x,y,z``, for every warp
``warp = W`` and ``insts = N`` with N instruction lines, and ``#END_TB``. An instruction line is ``[source line] pc mask
targets R.. OPCODE sources R.. width [mode addresses] [immediates]``; tracer versions below 3 put ``x y z W`` before
it. Mode 0 lists the addresses of the active lanes, mode 1 gives the first one and a stride, mode 2 the first one and
the differences. Versions from 5 on end lines with immediates, which have nothing to do with memory.

Registers decide which loads an instruction waits for, as in Accel-Sim's scoreboard. If an instruction, whether it
accesses memory or not, reads or overwrites the target register of a load in flight, everything that follows in the
warp waits for that load. A load of 8 or 16 bytes per lane writes 2 or 4 registers from the named one on, and a store
reads as many from its last source; other operands are the one register that the line names. A load into shared memory
(LDGSTS) writes no register. DEPBAR waits for all of these loads, even if it allows some to stay in flight. A load
without a target register is unknown, and everything after it waits for it.

Generic accesses (LD, ST, ATOM, RED) go to shared or local memory if their addresses lie in its window of 16 MiB, whose
start the header gives, and to global memory otherwise. Accesses to shared memory, instructions without active lanes
and all other instructions count into the gap of the next memory instruction. The width is that of the opcode (``.U8``
to ``.128``), else that of the line, because NVBit's is not reliable.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, WARP, Launch
from rdmodel.trace.lanes import last_warp_mask
from tracegen.formats._accelsim import Event, Reader
from tracegen.formats.compressed import Text, first_bytes, is_cut, kernel_name, line_end, open_stream, whole_lines
from tracegen.formats.empty_blocks import insert_empty_blocks
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.packed_trace import PackedTrace
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.limits import MAX_BLOCK_THREADS

MAX_TRACEG_LINE_BYTES = 1 << 15
"""Maximum length of a line in bytes."""

MAX_HEADER_BYTES = 1 << 16
"""Number of bytes at the start of a file in which the header must end, if only the header is read."""

_BUFFERED_INSTRUCTIONS = 1 << 15
"""Number of instructions that the compiled reader buffers before it passes them on."""

_MAX_WARP_KEY = (1 << 63) - 1
"""Largest number by which `Gathering` can identify a warp of the grid."""

_HEADER_LINE = re.compile(r"-([a-z][\w ]*?) *=[ \t]?(.*)")
_HEADER_SHAPE = re.compile(r"\s*\(\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\).*")
_HEADER_NUMBER = re.compile(r"\s*(\d{1,18})(?!\d).*")
_HEADER_ADDRESS = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{1,16})(?![0-9a-fA-F]).*")
_BLOCK_LINE = re.compile(r"\s*thread block\s*=\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*")
_NUMBER_KEYS = ("kernel id", "shmem", "nregs", "accelsim tracer version", "enable lineinfo")
_ADDRESS_KEYS = ("shmem base_addr", "local mem base_addr")

_TRACEG_PROBLEMS = {
    Event.NO_TOKEN: "does not belong here",
    Event.BAD_PC: "the program counter must be hexadecimal, at most ffffffff",
    Event.BAD_MASK: "the active mask must be hexadecimal, at most ffffffff",
    Event.BAD_REGISTERS: "expected a number up to 16 and as many registers R0 to R255",
    Event.BAD_OPCODE: "expected an opcode of capital letters, at most 64 bytes long",
    Event.BAD_WIDTH: "the width must be 0 to 16 bytes",
    Event.BAD_MODE: "the address mode must be 0, 1 or 2",
    Event.FEW_ADDRESSES: "fewer addresses than active lanes, or one that is malformed",
    Event.BAD_ADDRESS: f"an address lies outside 0 to {LAST_ADDRESS}",
    Event.HOLES: "a base and a stride need neighbouring active lanes",
    Event.MANY_FIELDS: "more fields than belong on the line (or more addresses than active lanes)",
    Event.FEW_FIELDS: "fewer fields than on the first instruction line of the file",
    Event.BULK_COPY: "bulk copies of the tensor memory accelerator cannot be read",
    Event.NOT_MEMORY: "has addresses, but its opcode is not a known memory instruction",
    Event.MIXED: "generic addresses of global, local and shared memory in one instruction",
    Event.BAD_PLACE: "must begin with its block and warp, or its source line, as the header says",
    Event.TOO_LONG: f"longer than {MAX_TRACEG_LINE_BYTES} bytes",
    Event.NO_BEGIN: "#BEGIN_TB is missing before this line (raw traces go through post-traces-processing first)",
    Event.NO_BLOCK: "'thread block = x,y,z' is missing before this line",
    Event.NO_WARP: "'warp = W' is missing before this line",
    Event.NO_COUNT: "'insts = N' is missing before this line",
    Event.NESTED: "a block begins before #END_TB",
    Event.BAD_WARP: "expected 'warp = W', W below the warps of a block",
    Event.WARP_TWICE: "the block has this warp already",
    Event.BAD_COUNT: "expected 'insts = N'",
}
_REPEATED_EVENTS = (Event.WRONG_COUNT, Event.NESTED, Event.SILENT_WARPS)
"""Events about an earlier part of the file: their line is valid and is parsed again."""


@dataclass(slots=True)
class TracegHeader:
    """The header of a file, as far as its lines ``-key = value`` have been added.

    A line that contradicts an earlier one is left out; `contradiction` is the message about the first.
    """

    name: str
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    contradiction: str | None = None
    _texts: dict[str, str] = field(default_factory=dict)

    def add_line(self, raw: bytes) -> str | None:
        """Add a line; return a message if it is malformed, else None. Unknown keys are ignored."""
        match = _HEADER_LINE.fullmatch(raw.decode("utf-8", "replace").rstrip("\r").lstrip())
        if match is None:
            return "expected '-key = value'"
        key, value = match.groups()
        if key == "kernel name":
            if problem := self._contradiction(key, value, self._texts.get(key, value), value):
                return problem
            self.name = value
        elif key in ("grid dim", "block dim"):
            if (shape := _HEADER_SHAPE.fullmatch(value)) is None:
                return f"{key} must be (x,y,z)"
            x, y, z = (int(n) for n in shape.groups())
            if problem := _shape_problem(key, x, y, z):
                return problem
            if problem := self._contradiction(key, (x, y, z), self.shapes.get(key, (x, y, z)), value):
                return problem
            self.shapes[key] = x, y, z
        elif key in _NUMBER_KEYS or key in _ADDRESS_KEYS:
            number = (_HEADER_NUMBER if key in _NUMBER_KEYS else _HEADER_ADDRESS).fullmatch(value)
            if number is None:
                return f"{key} must be a number below 2^{'63' if key in _NUMBER_KEYS else '64'}"
            parsed = int(number[1], 10 if key in _NUMBER_KEYS else 16)
            if problem := self._contradiction(key, parsed, self.numbers.get(key, parsed), value):
                return problem
            self.numbers[key] = parsed
        return None

    def _contradiction(self, key: str, value: object, before: object, text: str) -> str | None:
        """Return a message if an earlier line gave the key another value; remember the text of the first line."""
        first = self._texts.setdefault(key, text)
        if value == before:
            return None
        problem = f"{key} is given twice: {quote(first.strip())} and then {quote(text.strip())}"
        self.contradiction = self.contradiction or problem
        return problem

    @property
    def number(self) -> int:
        """The number of the launch, 0 if the header has none."""
        return self.numbers.get("kernel id", 0)

    def missing(self) -> str | None:
        """Return the key of the first shape that the header lacks, or None."""
        return next((key for key in ("grid dim", "block dim") if key not in self.shapes), None)

    def launch(self) -> Launch:
        """Return the launch that the header describes; no shape may be missing."""
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
    if key == "block dim" and x * y * z > MAX_BLOCK_THREADS:
        return f"block dim ({x},{y},{z}): must be at most {MAX_BLOCK_THREADS} threads"
    # The keys of warps count over the whole grid.
    if key == "grid dim" and x * y * z * WARP > _MAX_WARP_KEY:
        return f"grid dim ({x},{y},{z}): must be below 2^58 blocks"
    return None


def read_header(file: str | os.PathLike[str]) -> TracegHeader:
    """Read the header of a file; malformed lines are ignored."""
    header = TracegHeader(kernel_name(file))
    lines = first_bytes(file, MAX_HEADER_BYTES).split(b"\n")
    for raw in lines[:-1]:  # the last one is incomplete
        if raw.lstrip().startswith(b"#BEGIN_TB"):
            break
        header.add_line(raw)
    return header


class _BlockSet:
    """A set of block ids as intervals, which costs no memory for a file in order."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._end: list[int] = []
        self.count = 0

    def add(self, block: int) -> bool:
        """Add a block; tell whether it is new."""
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
        """Return all block ids, ascending."""
        return np.concatenate([np.arange(a, b) for a, b in zip(self._first, self._end, strict=True)])


class TracegFile:
    """Reads one file: compiled code parses the instructions, and this class handles headers, blocks and mistakes.

    `log` decides about bad lines; `memory` is the number of bytes for sorting.
    """

    def __init__(self, name: str, log: SkipLog, memory: int) -> None:
        self._name, self._log, self._memory = name, log, memory
        self._header = TracegHeader(kernel_name(name))
        self._reader = Reader(LAST_ADDRESS, MAX_TRACEG_LINE_BYTES, _BUFFERED_INSTRUCTIONS)
        self._blocks = _BlockSet()
        self._gathering: Gathering | None = None
        self._line = 1
        self._rows = 0

    def read(self) -> RecordedTrace:
        """Return the trace, or raise `TraceError`."""
        with open_stream(self._name) as stream:
            for text in whole_lines(stream, MAX_TRACEG_LINE_BYTES):
                if is_cut(text):
                    self._log.report_cut_line(self._name, self._line, text)
                    break
                self._read_text(text)
        if self._reader.finish() == Event.NO_END:
            self._report("the file ends within a block: #END_TB is missing")
        self._log.count_lanes(self._reader.dropped_lanes)
        if self._gathering is None:
            raise TraceError(f"{self._name}: no thread blocks" if self._line > 1 else f"{self._name}: is empty")
        if not self._rows:
            raise TraceError(f"{self._name}: no memory instructions in {self._blocks.count} blocks")
        launch = self._header.launch()
        packed = self._gathering.finish_packed()
        if packed is not None and len(packed.blocks) == self._blocks.count:
            return PackedTrace(launch, packed, skipped=self._log.skipped)
        columns, blocks = self._gathering.finish()
        if len(blocks) < self._blocks.count:
            all_blocks = self._blocks.ids()
            columns = insert_empty_blocks(columns, blocks, all_blocks, launch.block_warps)
            blocks = all_blocks.tolist()
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=self._log.skipped)

    def _read_text(self, text: Text) -> None:
        at = 0
        while at < len(text):
            at, lines, event = self._reader.parse(text, at)
            self._line += lines
            if event == Event.FULL:
                self._gather()
            elif event != Event.DONE:
                at = self._handle(text, at, event)
        self._gather()

    def _handle(self, text: Text, at: int, event: int) -> int:
        """Handle a line that the compiled reader stopped at; return the position where it continues."""
        end = line_end(text, at)
        line = bytes(text[at:end])
        if event == Event.HEADER:
            problem = self._add_header_line(line)
        elif event == Event.BLOCK:
            problem = self._enter_block(line)
        elif event == Event.SILENT_WARPS:
            self._report_silent_warps()
            problem = None
        elif event == Event.NO_THREAD:
            threads = self._header.launch().block_threads
            problem = f"lanes without a thread are active: a block has {threads} threads"
        elif event == Event.WRONG_COUNT:
            warp, claimed, actual = self._reader.count_of_warp()
            problem = f"warp {warp} ends here after {actual} instructions, not the {claimed} of 'insts'"
        else:
            problem = _TRACEG_PROBLEMS[Event(event)]
        if problem:
            self._report(problem, line)
        if event in _REPEATED_EVENTS:
            return at
        self._line += 1
        return end + 1

    def _report(self, problem: str, line: bytes | None = None) -> None:
        message = f"{self._name}:{self._line}: {problem}"
        if line is not None:
            message += f", found {quote(line)}"
        self._log.report(message)

    def _report_silent_warps(self) -> None:
        silent = self._reader.accept_silent_warps()
        warps, first = self._header.launch().block_warps, (silent & -silent).bit_length() - 1
        message = f"{self._name}:{self._line}: {silent.bit_count()} of the block's {warps} warps are missing"
        self._log.report_silent_warps(f"{message}, warp {first} is the first", silent.bit_count())

    def _add_header_line(self, line: bytes) -> str | None:
        if self._gathering is not None:
            return "a header line after the first block"
        if len(line) > MAX_TRACEG_LINE_BYTES:
            return _TRACEG_PROBLEMS[Event.TOO_LONG]
        return self._header.add_line(line)

    def _enter_block(self, line: bytes) -> str | None:
        match = _BLOCK_LINE.fullmatch(line.decode("latin-1"))
        if match is None:
            return "expected 'thread block = x,y,z'"
        if self._gathering is None:
            self._finish_header()
        x, y, z = (int(n) for n in match.groups())
        grid = self._header.shapes["grid dim"]
        if not (x < grid[0] and y < grid[1] and z < grid[2]):
            return f"the block lies outside the grid ({grid[0]},{grid[1]},{grid[2]})"
        block = (z * grid[1] + y) * grid[0] + x
        if not self._blocks.add(block):
            return "the file has this block already"
        self._reader.enter_block(block, x, y, z)
        return None

    def _finish_header(self) -> None:
        """Configure the compiled reader by the header, which is complete when the first block begins."""
        if (key := self._header.missing()) is not None:
            raise TraceError(f"{self._name}:{self._line}: no valid line '-{key} = (x,y,z)' before the first block")
        numbers = self._header.numbers
        version = numbers.get("accelsim tracer version", 0)
        launch = self._header.launch()
        self._gathering = Gathering(launch.block_warps, memory=self._memory)
        self._reader.set_layout(
            coordinates=version < 3,
            line_numbers=numbers.get("enable lineinfo", 0) != 0,
            plain=version < 4,
            block_warps=launch.block_warps,
            last_warp_mask=last_warp_mask(launch),
            drops_lanes=self._log.lenient,
            shared_window=numbers.get("shmem base_addr", 0),
            local_window=numbers.get("local mem base_addr", 0),
        )

    def _gather(self) -> None:
        """Pass the instructions that the compiled reader holds on to the gathering."""
        if self._gathering is None:
            return
        rows = self._reader.take()
        count = len(rows["pc"])
        self._rows += count
        rows["loop_exit"] = np.zeros(count, np.bool_)
        self._gathering.add(rows["block"], rows["warp"], rows)
