"""Read the memory traces of PPT-GPU's tracing tool: files ``kernel_<id>_block_<n>.mem``, one per block.

A record is an opcode and the hexadecimal addresses of the active lanes; ``=====`` lines stand between records.
``app_config.py``, beside the files or one folder up, describes the launches: name, blocks, threads per block.

The files lack some facts, which the reader replaces by these rules (Arafa et al., PPT-GPU, and its tracing_tool):

* The warp of a record. The records of a block are in the order in which they arrived; those of each opcode are dealt
  to the block's warps in turn. This is correct for a block whose warps run in step and all execute every instruction.
  If the warps only execute the same instructions, each of them still gets the correct number of accesses per opcode.
  A record with more addresses than the last warp of a block has threads is not dealt to that warp, but to the next.
* The active lanes. n addresses are those of lanes 0 to n - 1.
* The shape of grid and block: one row of blocks, and one row of threads unless `block` gives the shape.
* Program counters: ``pc`` numbers the opcodes in the order of their first record.
* Gaps: they are 0, since accesses to shared memory are not recorded.
* Dependences: every instruction waits for all earlier loads.

``LDGSTS`` has two addresses per lane; the one in shared memory, an offset below 256 KB, is left out.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, WARP, Launch
from rdmodel.trace.lanes import last_warp_mask
from tracegen.formats._ppt import parse
from tracegen.formats.compressed import Text, is_cut, line_end, open_stream, whole_lines
from tracegen.formats.empty_blocks import advise_about_missing_blocks, can_fill, insert_empty_blocks
from tracegen.formats.launch_entries import LaunchChoice, LaunchEntry
from tracegen.formats.names import COMPRESSED_EXTENSIONS
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES, Gathering
from tracegen.formats.packed_trace import PackedTrace
from tracegen.formats.parsed_instructions import FULL_EVENT, ParsedInstructions
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.formats.sass_opcodes import OpcodeTable
from tracegen.limits import MAX_BLOCK_THREADS, MAX_ROW_BLOCKS

CONFIG_NAME = "app_config.py"
TRACES_FOLDER_NAME = "memory_traces"
"""Names of the description of the launches, and of the folder with the traces."""

_MAX_MEM_LINE_BYTES = 1 << 12
_MAX_CONFIG_BYTES = 1 << 24
_MEM_FILE_NAME = re.compile(r"kernel_(\d{1,9})_block_(\d{1,10})\.mem")
_FIRST_RECORD = re.compile(rb"\s*(?:=+\s+)+[A-Z][A-Z0-9]*(?:\.\w+)*(?: +0x[0-9a-fA-F]+)+ *\r?\n")
_NESTING_ERRORS = (RecursionError, MemoryError)
_NEW_OPCODE_EVENT = 2
_MEM_PROBLEMS = {
    10: "expected an opcode and addresses '0x..'",
    11: f"addresses must be 0x1 to {LAST_ADDRESS:#x}",
    12: f"more than {WARP} addresses",
    13: f"longer than {_MAX_MEM_LINE_BYTES} bytes",
    14: "more addresses than a block has threads",
}
"""Messages for the events of `tracegen.formats._ppt.parse` that are mistakes."""


@dataclass(frozen=True, slots=True)
class _LaunchConfig:
    """The description of a launch in ``app_config.py``; 0 stands for a missing number."""

    name: str
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared_memory: int = 0


def is_ppt(head: bytes) -> bool:
    """Tell whether a file begins with a separator and a record, as ``.mem`` files do.

    A record alone is not enough: ``LD 0x1000`` may be a line of any other tool.
    """
    return _FIRST_RECORD.match(head) is not None


def is_ppt_folder(path: Path) -> bool:
    """Tell whether a folder, or ``memory_traces`` in it, contains ``.mem`` files."""
    return any(True for place in (path, path / TRACES_FOLDER_NAME) for _ in _scan_folder(place))


def read_ppt(
    path: str | os.PathLike[str],
    *,
    kernel: str | int | None = None,
    block: tuple[int, int, int] | None = None,
    lenient: bool = False,
    memory: int = SORT_MEMORY_BYTES,
) -> RecordedTrace:
    """Read one launch from a folder of ``.mem`` files, or one block of it from a single file.

    Parameters
    ----------
    path : path
        The folder with the files, the folder of the run with ``memory_traces`` in it, or a file.
    kernel : str, optional
        The launch if there are several: its number, its name, or a pattern of the name.
    block : tuple of int, optional
        Shape of a block (x, y, z), needed if there is no ``app_config.py``.
    lenient : bool
        Leave out bad lines, and take blocks without a file for blocks that access no memory; ``skipped`` of the
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
        With file and line for malformed input, for a block without a file, and for a launch without
        accesses.
    """
    where = Path(path)
    files = _choose_files(where, kernel)
    number = files[0][0]
    config = _read_launch_configs(where).get(number, _LaunchConfig(f"kernel_{number}"))
    launch = _launch(where, config, block, [n for _, n, _ in files])
    reader = _MemFilesReader(launch, lenient, memory, is_folder=where.is_dir())
    if where.is_dir():
        reader.report_missing(str(where), {n for _, n, _ in files})
    for _, n, file in files:
        reader.read(file, n)
    return reader.finish(f"{where}: kernel {number}")


def list_ppt(path: str | os.PathLike[str], *, block: tuple[int, int, int] | None = None) -> Iterator[LaunchEntry]:
    """Yield the launches that have ``.mem`` files in a folder; `block` as in `read_ppt`."""
    where = Path(path)
    configs = _read_launch_configs(where)
    for number, files in groupby(_list_files(where), key=lambda file: file[0]):
        config = configs.get(number, _LaunchConfig(f"kernel_{number}"))
        yield LaunchEntry(number, _launch(where, config, block, [n for _, n, _ in files]))


# ---- Files and launches


def _scan_folder(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the launch, the block and the path of every ``.mem`` file in a folder."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                stem = name[: -len(Path(name).suffix)] if name.endswith(COMPRESSED_EXTENSIONS) else name
                if match := _MEM_FILE_NAME.fullmatch(stem):
                    yield int(match[1]), int(match[2]), folder / name
    except (NotADirectoryError, FileNotFoundError):
        return
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None


def _list_files(where: Path) -> list[tuple[int, int, Path]]:
    """Return launch, block and path of the files in a folder, or of a single file, in ascending order."""
    if where.is_dir():
        return sorted(_scan_folder(where)) or sorted(_scan_folder(where / TRACES_FOLDER_NAME))
    stem = where.name[: -len(where.suffix)] if where.suffix in COMPRESSED_EXTENSIONS else where.name
    match = _MEM_FILE_NAME.fullmatch(stem)
    return [(int(match[1]), int(match[2]), where) if match else (1, 0, where)]


def _choose_files(where: Path, kernel: str | int | None) -> list[tuple[int, int, Path]]:
    """Return the files of the launch that `kernel` chooses, by block."""
    files = _list_files(where)
    names = {number: d.name for number, d in _read_launch_configs(where).items()}
    launches = [(number, names.get(number, f"kernel_{number}")) for number in dict.fromkeys(n for n, _, _ in files)]
    choice = LaunchChoice(str(where), kernel)
    matching = [launch for launch in launches if choice.accepts(*launch)]
    if not matching:
        raise choice.no_match_error(launches)
    if len(matching) > 1:
        raise choice.ambiguity_error(matching)
    chosen = [file for file in files if file[0] == matching[0][0]]
    for (_, n, file), (_, following, other) in pairwise(chosen):
        if n == following:
            raise TraceError(f"{other}: holds the same block as {file.name}")
    return chosen


def _read_launch_configs(where: Path) -> dict[int, _LaunchConfig]:
    """Return the launches that ``app_config.py`` describes, by number; none without that file."""
    folder = where if where.is_dir() else where.parent
    for place in (folder / CONFIG_NAME, folder.absolute().parent / CONFIG_NAME):
        if place.is_file():
            return _read_config(place)
    return {}


def _read_config(path: Path) -> dict[int, _LaunchConfig]:
    with open_stream(path) as stream:
        text = stream.read(_MAX_CONFIG_BYTES)
    result = {}
    try:
        with warnings.catch_warnings():  # about invalid escapes in strings
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
        # The file is Python, but nothing in it is executed: only literals are evaluated.
        for node in statements:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                match = re.fullmatch(r"kernel_(\d{1,9})", node.targets[0].id)
                if match and int(match[1]) in result:
                    raise ValueError(f"{match[0]} is described twice")
                if match:
                    result[int(match[1])] = _launch_config(_literal(node.value))
    except (
        SyntaxError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        *_NESTING_ERRORS,
    ) as error:
        raise TraceError(f"{path}: is not a configuration of PPT-GPU: {type(error).__name__}: {error}") from None
    return result


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal; raise `ValueError` if a dict names a key twice."""
    value = ast.literal_eval(node)
    if isinstance(node, ast.Dict) and len(value) < len(node.keys):
        raise ValueError("a key is given twice")
    return value


def _launch_config(values: Any) -> _LaunchConfig:
    return _LaunchConfig(
        name=str(values["kernel_name"]),
        blocks=_checked_number(values, "grid_size", 1, MAX_ROW_BLOCKS),
        threads=_checked_number(values, "block_size", 1, MAX_BLOCK_THREADS),
        registers=_checked_number(values, "num_registers", 0, 255),
        shared_memory=_checked_number(values, "shared_mem_bytes", 0, 1 << 30),
    )


def _checked_number(values: Any, name: str, lowest: int, highest: int) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{name} must be {lowest} to {highest}, not {value!r}")
    return value


def _launch(where: Path, config: _LaunchConfig, block: tuple[int, int, int] | None, blocks: list[int]) -> Launch:
    shape = block or (config.threads, 1, 1)
    threads = shape[0] * shape[1] * shape[2]
    if not threads:
        raise TraceError(f"{where}: there is no {CONFIG_NAME}; give the threads of a block by --block X,Y,Z")
    if min(shape) < 1 or threads > MAX_BLOCK_THREADS:
        raise TraceError(f"{where}: block={block}: must be 1 to {MAX_BLOCK_THREADS} threads")
    if config.threads and threads != config.threads:
        raise TraceError(f"{where}: block={block}: has {threads} threads, but {CONFIG_NAME} says {config.threads}")
    if (config.blocks or MAX_ROW_BLOCKS) <= blocks[-1]:
        raise TraceError(f"{where}: block {blocks[-1]} lies outside of the grid of {config.blocks or MAX_ROW_BLOCKS}")
    return Launch(
        kernel=config.name,
        grid=(config.blocks or blocks[-1] + 1, 1, 1),
        block=shape,
        registers=config.registers,
        shared_memory=config.shared_memory,
    )


# ---- Records


class _MemFilesReader:
    """Reads the files of one launch, one block after the other."""

    def __init__(self, launch: Launch, lenient: bool, memory: int, *, is_folder: bool) -> None:
        self._launch, self._is_folder = launch, is_folder
        self._log = SkipLog(lenient)
        self._opcodes = OpcodeTable()
        self._instructions = ParsedInstructions(Gathering(launch.block_warps, memory=memory))
        self._blocks: list[int] = []
        self._last_lanes = last_warp_mask(launch).bit_count()
        self._dropped = np.zeros(1, np.int64)  # lanes
        self._fill_grid = False

    def report_missing(self, name: str, blocks: set[int]) -> None:
        """Report the blocks of the grid that have no file; `blocks` are those that have one."""
        missing = self._launch.blocks - len(blocks)
        if missing:
            first = next(n for n in range(self._launch.blocks) if n not in blocks)
            self._log.report(
                f"{name}: {missing} of {self._launch.blocks} blocks have no file, block {first} is the first"
            )
            self._log.skipped = replace(self._log.skipped, lines=missing)
            self._fill_grid = True

    def read(self, path: Path, block: int) -> None:
        """Read the file of a block."""
        self._blocks.append(block)
        records = np.zeros(len(self._opcodes.lengths), np.int64)
        line = 1
        with open_stream(path) as stream:
            for text in whole_lines(stream, _MAX_MEM_LINE_BYTES):
                # The tool begins records with a newline, and ends each address with a blank.
                if is_cut(text) and not text.endswith(b" "):
                    self._log.report_cut_line(str(path), line, text)
                    break
                line = self._read_chunk(str(path), block, text, records, line)

    def _read_chunk(self, name: str, block: int, text: Text, records: NDArray[np.int64], line: int) -> int:
        opcodes = self._opcodes
        at = 0
        while at < len(text):
            at, lines, row, used, event = parse(
                text, at, block, self._launch.block_warps, ALL_NEEDS, LAST_ADDRESS, _MAX_MEM_LINE_BYTES,
                opcodes.names, opcodes.lengths, opcodes.kinds, opcodes.count, records,
                *self._instructions.room, self._last_lanes, self._log.lenient, self._dropped,
            )  # fmt: skip
            self._instructions.take(row, used)
            line += lines
            if not event:
                break
            if event == FULL_EVENT:
                self._instructions.make_room()
                continue
            end = line_end(text, at)
            words = text[at:end].split(maxsplit=1)
            problem = opcodes.add(bytes(words[0])) if event == _NEW_OPCODE_EVENT else _MEM_PROBLEMS[event]
            if problem:
                self._log.report(f"{name}:{line}: {problem}, found {quote(text[at:end])}")
                at, line = end + 1, line + 1
        return line

    def finish(self, launch_name: str) -> RecordedTrace:
        """Return the trace of all files that were read."""
        launch = self._launch
        self._log.count_lanes(int(self._dropped[0]))
        advice = advise_about_missing_blocks(lenient=True) if self._is_folder else "read the folder of its file instead"
        packed = None if self._fill_grid else self._instructions.finish_packed(launch_name)
        if packed is not None and len(packed.blocks) == len(self._blocks):
            return PackedTrace(launch, packed, skipped=self._log.skipped, advice=advice)
        columns, blocks = self._instructions.finish(launch_name)
        fill = self._fill_grid and can_fill(launch, len(columns))
        all_blocks = range(launch.blocks) if fill else self._blocks
        if len(blocks) < len(all_blocks):
            columns, blocks = insert_empty_blocks(columns, blocks, all_blocks, launch.block_warps), all_blocks
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=self._log.skipped, advice=advice)
