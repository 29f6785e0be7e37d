"""The memory traces of PPT-GPU's tracing tool: files ``kernel_<id>_block_<n>.mem``, one per block.

A record is an opcode and the hexadecimal addresses of the active lanes; ``=====`` lines stand between records.
``app_config.py`` beside the files, or one folder up, says the launches: name, blocks, threads per block.

What the files do not hold cannot be known, and is set by these rules (Arafa et al., PPT-GPU, and its tracing_tool):

* Which warp a record is of. The records of a block are in the order in which they arrived, and those of each
  opcode are dealt to the block's warps in turn. That is right for a block whose warps run in step and all
  execute everything, and gives every warp the right number of each opcode's accesses if they all do the same.
* Which lanes are active. n addresses are those of lanes 0 to n - 1.
* The shape of grid and block: one row of blocks, and of threads, unless `block` says otherwise.
* Program counters, gaps (accesses to shared memory are not recorded) and dependences: ``pc`` counts the opcodes in
  order of their first record, and every instruction waits for all earlier loads.

``LDGSTS`` has two addresses per lane; the one in shared memory, an offset below 256 KB, is left out.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, WARP, Launch
from tracegen.formats._ppt import parse
from tracegen.formats.compressed import PACKED, open_stream, whole_lines
from tracegen.formats.empty_blocks import fits, with_silent
from tracegen.formats.launches import Choice, Listed
from tracegen.formats.ordering.gathering import MEMORY, Gathering
from tracegen.formats.parsed_instructions import Instructions
from tracegen.formats.recorded_trace import RecordedTrace, Skipped, quote
from tracegen.formats.sass_opcodes import OpcodeTable

CONFIG = "app_config.py"
TRACES = "memory_traces"
MOST_BLOCKS = (1 << 31) - 1
MOST_BLOCK_THREADS = 1024

_CHUNK = 1 << 20
_LINE_BYTES = 1 << 12
_CONFIG_BYTES = 1 << 24
_NAME = re.compile(r"kernel_(\d{1,9})_block_(\d{1,10})\.mem")
_RECORDS = re.compile(rb"\s*(?:=+\s+)*[A-Z][A-Z0-9]*(?:\.\w+)*(?: +0x[0-9a-fA-F]+)+ *\r?\n")
_TOO_DEEP = (RecursionError, MemoryError)
_NEW_OPCODE = 2
_SHORTEST_RECORD = len("LD\n")
_SHORTEST_ADDRESS = len(" 0x1")
_PROBLEMS = {
    10: "expected an opcode and addresses '0x..'",
    11: f"addresses must be 0x1 to {LAST_ADDRESS:#x}",
    12: f"more than {WARP} addresses",
    13: f"longer than {_LINE_BYTES} bytes",
}


@dataclass(frozen=True, slots=True)
class _Described:
    """What the configuration says of a launch; 0 = nothing."""

    name: str
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared_memory: int = 0


def is_ppt(head: bytes) -> bool:
    """Tell whether a file that begins so is a ``.mem`` one: it begins with a record."""
    return _RECORDS.match(head) is not None


def is_folder(path: Path) -> bool:
    """Tell whether ``.mem`` files are in a folder, or in a folder ``memory_traces`` in it."""
    return any(True for place in (path, path / TRACES) for _ in _files(place))


def read_ppt(
    path: str | os.PathLike[str],
    *,
    kernel: str | None = None,
    block: tuple[int, int, int] | None = None,
    lenient: bool = False,
    memory: int = MEMORY,
) -> RecordedTrace:
    """Return one launch in a folder of ``.mem`` files, or one block of it in a single file.

    `kernel` says which launch if there are several: its number, its name, or a pattern of it. `block` is the
    shape of a block, which is needed if there is no ``app_config.py``. Raises `TraceError` with file and line
    for anything malformed, for a block without a file, and for a launch without loads and atomics. `lenient`
    leaves bad lines out instead, takes missing blocks to access nothing, and accounts for both in ``skipped``.
    """
    where = Path(path)
    files = _chosen(where, kernel)
    number = files[0][0]
    described = _described(where).get(number, _Described(f"kernel_{number}"))
    launch = _launch(where, described, block, [n for _, n, _ in files])
    reader = _Reader(launch, lenient, memory)
    if where.is_dir():
        reader.miss(str(where), {n for _, n, _ in files})
    for _, n, file in files:
        reader.read(file, n)
    return reader.finish(f"{where}: kernel {number}")


def list_ppt(path: str | os.PathLike[str], *, block: tuple[int, int, int] | None = None) -> Iterator[Listed]:
    """Yield the launches of which there are ``.mem`` files in a folder; `block` as in `read_ppt`."""
    where = Path(path)
    described = _described(where)
    for number, files in groupby(_there(where), key=lambda file: file[0]):
        said = described.get(number, _Described(f"kernel_{number}"))
        yield Listed(number, _launch(where, said, block, [n for _, n, _ in files]))


# ---- Files and launches


def _files(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the launch, the block and the path of every ``.mem`` file in a folder."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                stem = name[: -len(Path(name).suffix)] if name.endswith(PACKED) else name
                if found := _NAME.fullmatch(stem):
                    yield int(found[1]), int(found[2]), folder / name
    except NotADirectoryError:
        return
    except FileNotFoundError:
        return
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None


def _there(where: Path) -> list[tuple[int, int, Path]]:
    """Return the files of a folder, or the single one, by launch and block."""
    if where.is_dir():
        return sorted(_files(where)) or sorted(_files(where / TRACES))
    stem = where.name[: -len(where.suffix)] if where.suffix in PACKED else where.name
    found = _NAME.fullmatch(stem)
    return [(int(found[1]), int(found[2]), where) if found else (1, 0, where)]


def _chosen(where: Path, kernel: str | None) -> list[tuple[int, int, Path]]:
    """Return the files of the launch that is meant, by block."""
    files = _there(where)
    names = {number: d.name for number, d in _described(where).items()}
    there = [(number, names.get(number, f"kernel_{number}")) for number in dict.fromkeys(n for n, _, _ in files)]
    choice = Choice(str(where), kernel)
    meant = [launch for launch in there if choice.accepts(*launch)]
    if not meant:
        raise choice.none(there)
    if len(meant) > 1:
        raise choice.several(meant)
    chosen = [file for file in files if file[0] == meant[0][0]]
    for (_, n, file), (_, following, other) in pairwise(chosen):
        if n == following:
            raise TraceError(f"{other}: holds the same block as {file.name}")
    return chosen


def _described(where: Path) -> dict[int, _Described]:
    """Return what ``app_config.py`` says, if there is one."""
    folder = where if where.is_dir() else where.parent
    for place in (folder / CONFIG, folder.absolute().parent / CONFIG):
        if place.is_file():
            return _read_config(place)
    return {}


def _read_config(path: Path) -> dict[int, _Described]:
    with open_stream(path) as stream:
        text = stream.read(_CONFIG_BYTES)
    result = {}
    try:
        with warnings.catch_warnings():  # of strings with strange escapes
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
        # Literals only: the file is Python, but nothing of it is run.
        for node in statements:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                found = re.fullmatch(r"kernel_(\d{1,9})", node.targets[0].id)
                if found:
                    result[int(found[1])] = _describe(ast.literal_eval(node.value))
    except (SyntaxError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, *_TOO_DEEP) as error:
        raise TraceError(f"{path}: is not a configuration of PPT-GPU: {type(error).__name__}: {error}") from None
    return result


def _describe(values: Any) -> _Described:
    return _Described(
        name=str(values["kernel_name"]),
        blocks=_count(values, "grid_size", 1, MOST_BLOCKS),
        threads=_count(values, "block_size", 1, MOST_BLOCK_THREADS),
        registers=_count(values, "num_registers", 0, 255),
        shared_memory=_count(values, "shared_mem_bytes", 0, 1 << 30),
    )


def _count(values: Any, name: str, least: int, most: int) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, not {value!r}")
    return value


def _launch(where: Path, said: _Described, block: tuple[int, int, int] | None, blocks: list[int]) -> Launch:
    shape = block or (said.threads, 1, 1)
    threads = shape[0] * shape[1] * shape[2]
    if not threads:
        raise TraceError(f"{where}: without {CONFIG}, nothing says how many threads a block has: --block X,Y,Z does")
    if min(shape) < 1 or threads > MOST_BLOCK_THREADS:
        raise TraceError(f"{where}: block={block}: must be 1 to {MOST_BLOCK_THREADS} threads")
    if said.threads and threads != said.threads:
        raise TraceError(f"{where}: block={block}: has {threads} threads, but {CONFIG} says {said.threads}")
    if (said.blocks or MOST_BLOCKS) <= blocks[-1]:
        raise TraceError(f"{where}: block {blocks[-1]} lies outside of the grid of {said.blocks or MOST_BLOCKS}")
    return Launch(
        kernel=said.name,
        grid=(said.blocks or blocks[-1] + 1, 1, 1),
        block=shape,
        registers=said.registers,
        shared_memory=said.shared_memory,
    )


# ---- Records


class _Reader:
    """Reads the files of a launch, one block after the other."""

    def __init__(self, launch: Launch, lenient: bool, memory: int) -> None:
        self._launch, self._lenient = launch, lenient
        self._opcodes = OpcodeTable()
        self._instructions = Instructions(Gathering(launch.block_warps, memory=memory))
        self._skipped = Skipped()
        self._seen: list[int] = []
        self._whole = False

    def miss(self, name: str, blocks: set[int]) -> None:
        """Complain of the blocks of the grid that have no file."""
        missing = self._launch.blocks - len(blocks)
        if missing:
            first = next(n for n in range(self._launch.blocks) if n not in blocks)
            self._bad(f"{name}: {missing} of {self._launch.blocks} blocks have no file, block {first} is the first")
            self._skipped = Skipped(missing, self._skipped.examples)
            self._whole = True

    def read(self, path: Path, block: int) -> None:
        """Read the file of a block."""
        self._seen.append(block)
        turns = np.zeros(len(self._opcodes.lengths), np.int64)
        line = 1
        with open_stream(path) as stream:
            for text in whole_lines(stream, _LINE_BYTES, _CHUNK):
                line = self._read_chunk(str(path), block, text, turns, line)

    def _read_chunk(self, name: str, block: int, text: bytes, turns: NDArray[np.int64], line: int) -> int:
        arrays = self._instructions.room(len(text) // _SHORTEST_RECORD + 2, len(text) // _SHORTEST_ADDRESS + WARP)
        opcodes = self._opcodes
        at = rows = used = 0
        while at < len(text):
            at, lines, rows, used, event = parse(
                text, at, block, self._launch.block_warps, LAST_ADDRESS, _LINE_BYTES,
                opcodes.names, opcodes.lengths, opcodes.kinds, opcodes.count, turns,
                *arrays, rows, used,
            )  # fmt: skip
            line += lines
            if not event:
                break
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            words = text[at:end].split(maxsplit=1)
            problem = opcodes.add(words[0]) if event == _NEW_OPCODE else _PROBLEMS[event]
            if problem:
                self._bad(f"{name}:{line}: {problem}, found {quote(text[at:end])}")
                at, line = end + 1, line + 1
        self._instructions.take(rows, used)
        return line

    def _bad(self, message: str) -> None:
        if not self._lenient:
            raise TraceError(message)
        self._skipped = self._skipped.add(message)

    def finish(self, which: str) -> RecordedTrace:
        """Return the trace of everything read."""
        columns, blocks = self._instructions.finish(which)
        seen = range(self._launch.blocks) if self._whole and fits(self._launch, len(columns)) else self._seen
        if len(blocks) < len(seen):
            columns, blocks = with_silent(columns, blocks, seen, self._launch.block_warps), seen
        return RecordedTrace(self._launch, columns, blocks, trusted=True, skipped=self._skipped, mentions_all=False)
