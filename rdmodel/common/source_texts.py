"""Read lines of the source files that instructions come from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath

from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import RdmodelError

MAX_READ_BYTES = 1 << 26
"""Size up to which a source file is read."""

READ_SUFFIXES = frozenset(
    [".c", ".cc", ".cl", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".inl", ".jl", ".ptx", ".py", ".rs"]
)
"""Suffixes of source files. A program of somebody else can name any file as its source, and reports are passed on."""


class SourceTexts:
    """Lines of source files, each of which is read once.

    A file that is missing, no source or regular file, or too large has no lines: the trace may come from another
    machine.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file, without line breaks; none if it cannot be read."""
        if file not in self._lines:
            content = b""
            if PurePath(file).suffix.lower() in READ_SUFFIXES:
                with suppress(RdmodelError, OSError, ValueError):
                    content = read_bounded_bytes(file, MAX_READ_BYTES)
            self._lines[file] = content.decode("utf-8", "replace").splitlines()
        return self._lines[file]

    def line(self, file: str, line: int) -> str:
        """Return a line of a file, the first of which is 1, without blanks around it; "" if there is none."""
        lines = self.lines(file)
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""
