"""Read traces of Accel-Sim's tracer: one ``.traceg`` file, or one of the kernels that a ``kernelslist.g`` names.

`tracegen.formats.traceg` describes and reads ``.traceg`` files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rdmodel.errors import TraceError
from tracegen.formats.compressed import first_bytes, open_stream, whole_lines
from tracegen.formats.launch_entries import MAX_LISTED_LAUNCHES, LaunchChoice, LaunchEntry
from tracegen.formats.names import KERNELS_LIST_SUFFIX
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.formats.traceg import MAX_HEADER_BYTES, MAX_TRACEG_LINE_BYTES, TracegFile, TracegHeader, read_header

KERNELS_LIST_NAME = "kernelslist.g"
"""Name of the list of kernels in a folder."""

_TRACE_START = re.compile(rb"(?:\s|#[^\n]*\n)*-(?:kernel|grid|block|shmem|nregs|binary|cuda|local|nvbit|accelsim) ")
_LIST_START = re.compile(
    rb"\s*(?:#[^\n]*\n\s*)*"
    rb"(?:Memcpy\w+,0x[0-9a-fA-F]+,\d+|(?:[^\n,]{0,4096}/)?kernel[^\s,/]*\.traceg(?:\.\w+)?)[ \t\r]*(?:\n|$)"
)
_KERNEL_FILE = re.compile(r"(?:.*/)?kernel[^/]*")
_OTHER_COMMAND = re.compile(r"(?:Mem(?:cpy|set)|nccl|cuda)\w*(?:,.*)?")


def is_traceg(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a ``.traceg``."""
    return _TRACE_START.match(head) is not None


def is_kernels_list(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a ``kernelslist.g``."""
    return _LIST_START.match(head) is not None


def is_accelsim_folder(path: Path) -> bool:
    """Tell whether a folder contains a ``kernelslist.g``."""
    return (path / KERNELS_LIST_NAME).exists()


def read_accelsim(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    kernel: str | int | None = None,
    memory: int = SORT_MEMORY_BYTES,
) -> RecordedTrace:
    """Read a ``.traceg`` file, or that of one of the kernels in a ``kernelslist.g``.

    The trace holds the blocks that occur. The time is O(n log n) in the number of lines.

    Parameters
    ----------
    path : path
        The ``.traceg`` file, the list, or the folder with the list. Files may be compressed.
    lenient : bool
        Leave out bad lines; ``skipped`` of the trace accounts for them. The shapes of grid and block must be valid
        even so.
    kernel : str, optional
        The kernel by number, or by a pattern of its name; not needed for a list of one kernel.
    memory : int
        Memory in bytes for sorting; instructions that do not fit are sorted in temporary files.

    Returns
    -------
    RecordedTrace
        The trace, with an account of the lines left out.

    Raises
    ------
    TraceError
        With file and line for malformed input, and for a kernel without accesses.
    """
    file = _list_or_trace(path)
    choice = LaunchChoice(os.fspath(file), kernel)
    log = SkipLog(lenient)
    if _is_list_file(file):
        file = _choose_file(file, log, choice)
    elif kernel is not None:
        header = read_header(file)
        if not choice.accepts(header.number, header.name):
            raise choice.no_match_error([(header.number, header.name)])
    return TracegFile(os.fspath(file), log, memory).read()


def list_accelsim(path: str | os.PathLike[str]) -> Iterator[LaunchEntry]:
    """Yield the launches in a ``kernelslist.g`` or its folder, or that of a ``.traceg``, by the headers of the files.

    A file that the list names twice is one launch. Raises `TraceError` with file and line for malformed input.
    """
    file = _list_or_trace(path)
    if not _is_list_file(file):
        yield _launch_entry(file, read_header(file))
        return
    seen: set[Path] = set()
    for line, command in _list_lines(file):
        if _OTHER_COMMAND.fullmatch(command):
            continue
        try:
            kernel_file = _named_file(file, command)
            listed = None if kernel_file in seen else _launch_entry(kernel_file, read_header(kernel_file))
        except TraceError as error:
            raise TraceError(f"{file}:{line}: {error}") from None
        seen.add(kernel_file)
        if listed is not None:
            yield listed


def _list_or_trace(path: str | os.PathLike[str]) -> Path:
    return Path(path) / KERNELS_LIST_NAME if Path(path).is_dir() else Path(path)


def _is_list_file(file: Path) -> bool:
    return file.suffix == KERNELS_LIST_SUFFIX or is_kernels_list(first_bytes(file, MAX_HEADER_BYTES))


def _launch_entry(file: Path, header: TracegHeader) -> LaunchEntry:
    if (key := header.missing()) is not None:
        raise TraceError(f"{file}: no valid line '-{key} = (x,y,z)' before the first block")
    if header.contradiction is not None:
        raise TraceError(f"{file}: {header.contradiction}")
    return LaunchEntry(header.number, header.launch())


def _choose_file(path: Path, log: SkipLog, choice: LaunchChoice) -> Path:
    """Return the file of the chosen kernel; report bad lines of the list to `log`."""
    first: list[tuple[int, str]] = []
    matching: dict[Path, tuple[int, str]] = {}
    for line, command in _list_lines(path):
        if _OTHER_COMMAND.fullmatch(command):
            continue
        try:
            file = _named_file(path, command)
            header = read_header(file)
        except TraceError as error:
            log.report(f"{path}:{line}: {error}")
            continue
        launch = header.number, header.name
        first = [*first, launch][: MAX_LISTED_LAUNCHES + 1]
        if choice.accepts(*launch):
            matching[file] = launch
        if len(matching) > MAX_LISTED_LAUNCHES:
            break
    if len(matching) > 1:
        raise choice.ambiguity_error(list(matching.values()))
    if not matching:
        raise choice.no_match_error(first)
    return next(iter(matching))


def _list_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the commands in a list with their line numbers, without comments, which begin with #."""
    line = 0
    with open_stream(path) as stream:
        for text in whole_lines(stream, MAX_TRACEG_LINE_BYTES):
            for raw in text.split(b"\n")[: text.count(b"\n") + (not text.endswith(b"\n"))]:
                line += 1
                command = raw.decode("utf-8", "replace").strip()
                if command and not command.startswith("#"):
                    yield line, command


def _named_file(path: Path, command: str) -> Path:
    """Return the file that a line of a list names."""
    if not _KERNEL_FILE.fullmatch(command) or not command.isprintable():
        raise TraceError(f"expected a kernel's file or a Memcpy command, found {quote(command)}")
    return path.parent / command
