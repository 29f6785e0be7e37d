"""Read plain text with one access per line: addresses, CSV with named columns, and lines of lackey and of dinero.

==============  ============================================================================================
``addresses``   an address, in decimal or after 0x in hexadecimal
``csv``         a header that names the columns, then one access per line
``lackey``      the output of ``valgrind --tool=lackey --trace-mem=yes``: ``I``, ``L``, ``S`` or ``M``, address, bytes
``dinero``      label and address, or label, address and bytes, as Dinero IV reads them
==============  ============================================================================================

Lines are dealt to the threads of the grid in turn, unless the columns of a CSV name their threads. The k-th lines of
the threads of a warp form one instruction for each operation, number of bytes and program counter among them. An
access of more than 16 bytes becomes several accesses of its thread.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
from typing import BinaryIO

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, WARP, Launch
from tracegen.formats._line_groups import LineGrouper
from tracegen.formats._plain import Scanner
from tracegen.formats.compressed import Text, is_cut, kernel_name, line_end, open_stream, whole_lines
from tracegen.formats.empty_blocks import advise_about_missing_blocks, can_fill, fill_grid, insert_empty_blocks
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES
from tracegen.formats.recorded_trace import RecordedTrace, SkipLog, quote
from tracegen.formats.thread_accesses import AccessSorter, group_accesses
from tracegen.limits import MAX_BLOCK_THREADS, MAX_ROW_BLOCKS

PLAIN_FORMATS = ("addresses", "csv", "lackey", "dinero")
"""Names of the formats, each at the place that is its number in `tracegen.formats._plain`."""

DEFAULT_SIZE = 4
"""Bytes of an access whose line does not give its size."""

MAX_SIZE = 4096
"""Maximum number of bytes of an access."""

_MAX_LINE_BYTES = 1 << 12
_MAX_HEADER_BYTES = 1 << 16
_ROOM = 1 << 16
"""Entries that are read at a time; a line takes at most 2 MAX_SIZE / 16 + 1."""

_FILLED_FIELDS = ("key", "pc", "gap", "op", "size", "mask")
"""Fields of rows that `tracegen.formats._line_groups.LineGrouper` fills."""

_NO_COLUMNS = np.empty(0, np.int8)
_ROLES = ("", "address", "size", "op", "pc", "thread", "block", "warp", "lane")
"""Names of the columns of a CSV, each at the place that is its number in `tracegen.formats._plain`."""

COLUMN_NAMES = {
    **{name: name for name in _ROLES if name},
    "addr": "address",
    "bytes": "size",
    "operation": "op",
    "type": "op",
    "rw": "op",
    "ip": "pc",
    "tid": "thread",
}
"""The column that each name in a header stands for."""

_NAMINGS = (set[str](), {"thread"}, {"block", "thread"}, {"warp", "lane"}, {"block", "warp", "lane"})
"""Columns by which lines name their threads, each set at the place that is its number in `tracegen.formats._plain`."""

_EXPECTED = {
    "addresses": "expected one address, in decimal or after 0x in hexadecimal",
    "csv": "expected whole numbers, in decimal or after 0x in hexadecimal, in the columns of the header",
    "lackey": "expected 'I', 'L', 'S' or 'M', a hexadecimal address, a comma and a number of bytes",
    "dinero": "expected a label of 0 to 4 and a hexadecimal address, or r, w, i, m, c or v, address and bytes",
}
_FLUSH = 6
_PROBLEMS = {
    2: f"address must be at most {LAST_ADDRESS:#x}",
    3: f"an access must have 1 to {MAX_SIZE} bytes",
    4: f"longer than {_MAX_LINE_BYTES} bytes",
    5: "op must be load, store or atomic, or one of l, r, s, w, a, 0, 1, 2, read, write",
    _FLUSH: "flushes (labels 4, c and v) have no counterpart in a trace; --lenient leaves them out",
    7: "not as many fields as the header has",
    8: "a field in double quotes must end with one, before a comma, in the same line",
    9: "the thread lies outside of the block",
    10: "the block lies outside of the grid",
    11: f"lane must be below {WARP}",
}
"""Messages for the problems that `tracegen.formats._plain.Scanner.scan` returns, but that of a malformed line."""

_LACKEY_BANNER = re.compile(rb"==\d+== Lackey, an example Valgrind tool\r?\n")


@dataclass(frozen=True, slots=True)
class _CsvHeader:
    """The header of a CSV: the role of each column, how lines name their threads, and the names it ignores."""

    roles: tuple[int, ...] = ()
    naming: int = 0
    ignored: tuple[str, ...] = ()


def is_lackey(head: bytes) -> bool:
    """Tell whether a file begins with the line in which lackey introduces itself."""
    return _LACKEY_BANNER.match(head) is not None


def read_plain(
    path: str | os.PathLike[str],
    form: str,
    *,
    block: tuple[int, int, int] | None = None,
    grid: tuple[int, int, int] | None = None,
    lenient: bool = False,
    memory: int = SORT_MEMORY_BYTES,
) -> RecordedTrace:
    """Read a file with one access per line.

    Parameters
    ----------
    path : path
        The file, which may be compressed, or `tracegen.formats.compressed.STDIN`.
    form : str
        A name in `PLAIN_FORMATS`.
    block, grid : tuple of int, optional
        Threads of a block and blocks of the grid (x, y, z), by default one. If the columns of a CSV name the threads,
        `block` is needed, and the grid is one row of blocks by default.
    lenient : bool
        Leave out bad lines; ``skipped`` of the trace accounts for them. Lines that are dealt keep their threads: the
        thread of a bad line has no access in its turn. If the lines name their threads, blocks that do not occur are
        taken for blocks that access no memory.
    memory : int
        Memory in bytes for sorting; accesses that do not fit are sorted in temporary files.

    Returns
    -------
    RecordedTrace
        The trace, with an account of the lines left out.

    Raises
    ------
    TraceError
        With file and line for malformed input, for a file without accesses, and for shapes that are too large.
    """
    name = os.fspath(path)
    _check_shapes(name, block, grid)
    reader = _PlainReader(name, form, block, grid, SkipLog(lenient), AccessSorter(memory))
    with open_stream(path) as file:
        reader.read(file)
    return reader.finish(kernel_name(path))


def _check_shapes(name: str, block: tuple[int, int, int] | None, grid: tuple[int, int, int] | None) -> None:
    for what, unit, shape, most in (
        ("block", "threads", block, MAX_BLOCK_THREADS),
        ("grid", "blocks", grid, MAX_ROW_BLOCKS),
    ):
        if shape is not None and (min(shape) < 1 or shape[0] * shape[1] * shape[2] > most):
            raise TraceError(f"{name}: {what}={shape}: must be 1 to {most} {unit}")


class _PlainReader:
    """Reads one file: compiled code reads and groups the lines, and this class handles the header and bad lines."""

    def __init__(
        self,
        name: str,
        form: str,
        block: tuple[int, int, int] | None,
        grid: tuple[int, int, int] | None,
        log: SkipLog,
        accesses: AccessSorter,
    ) -> None:
        self._name, self._form, self._log, self._accesses = name, form, log, accesses
        self._block, self._grid = block, grid
        self._header = _CsvHeader()
        self._line = 1
        self._left_out = 0  # lines that keep their turn
        self._lines = 0  # lines that access memory, those left out included

    @property
    def _block_threads(self) -> int:
        x, y, z = self._block or (1, 1, 1)
        return x * y * z

    def read(self, file: BinaryIO) -> None:
        """Read all lines."""
        if self._form == "csv":
            self._header = self._read_header(file)
        scanner = self._scanner()
        for text in whole_lines(file, _MAX_LINE_BYTES):
            if is_cut(text):
                self._log.report_cut_line(self._name, self._line, text)
                break
            self._read_chunk(text.removeprefix(codecs.BOM_UTF8) if self._line == 1 else text, scanner)
        self._lines = scanner.lines

    def _scanner(self) -> Scanner:
        x, y, z = self._grid or (MAX_ROW_BLOCKS if self._header.naming else 1, 1, 1)
        threads = self._block_threads
        form, roles = PLAIN_FORMATS.index(self._form), np.array(self._header.roles, np.int8)
        return Scanner(
            form, roles, self._header.naming, threads, x * y * z * threads,
            LAST_ADDRESS, _MAX_LINE_BYTES, MAX_SIZE, DEFAULT_SIZE,
        )  # fmt: skip

    def _read_chunk(self, text: Text, scanner: Scanner) -> None:
        at = 0
        while at < len(text):
            room = self._accesses.reserve(_ROOM)
            at, lines, n, problem = scanner.scan(text, at, room, 0)
            self._line += lines
            if problem > 0:
                end = line_end(text, at)
                message = _PROBLEMS.get(problem, _EXPECTED[self._form])
                self._log.report(f"{self._name}:{self._line}: {message}, found {quote(text[at:end])}")
                if problem != _FLUSH:  # which is no access, and so has no turn
                    before, n = n, scanner.leave_out(room, n)
                    self._left_out += n - before
                self._line += 1
                at = end + 1
            self._accesses.append(n)

    # ---- the header of a CSV

    def _read_header(self, file: BinaryIO) -> _CsvHeader:
        while line := file.readline(_MAX_HEADER_BYTES):
            if self._line == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.strip() and not line.lstrip().startswith(b"#"):
                header = self._parse_header(line)
                self._line += 1
                return header
            self._line += 1
        return _CsvHeader()

    def _parse_header(self, line: bytes) -> _CsvHeader:
        where = f"{self._name}:{self._line}"
        try:
            (fields,) = csv.reader([line.decode("latin-1").strip()], strict=True, skipinitialspace=True)
        except (csv.Error, ValueError) as error:
            raise TraceError(f"{where}: the header is no line of CSV: {error}, found {quote(line)}") from None
        columns = [COLUMN_NAMES.get(field.strip().lower(), "") for field in fields]
        if "address" not in columns:
            raise TraceError(
                f"{where}: expected a header that names the columns, separated by commas, with 'address' or 'addr', "
                f"found {quote(line)}"
            )
        for column in columns:
            if column and columns.count(column) > 1:
                raise TraceError(f"{where}: the header names the column {column!r} twice, found {quote(line)}")
        named = {column for column in columns if column in ("thread", "block", "warp", "lane")}
        if named not in _NAMINGS:
            raise TraceError(
                f"{where}: the columns {', '.join(sorted(named))} do not name the threads; give thread, block and "
                "thread, warp and lane, or block, warp and lane"
            )
        if named and self._block is None:
            raise TraceError(f"{where}: the columns name the threads; give the threads of a block by --block X,Y,Z")
        ignored = tuple(field for field, column in zip(fields, columns, strict=True) if not column)
        return _CsvHeader(tuple(map(_ROLES.index, columns)), _NAMINGS.index(named), ignored)

    # ---- the trace

    def finish(self, kernel: str) -> RecordedTrace:
        """Return the trace of all lines that were read."""
        if self._lines == self._left_out:
            raise TraceError(f"{self._name}: no line accesses memory")
        columns, blocks = group_accesses(self._accesses, self._block_threads, LineGrouper, _FILLED_FIELDS)
        block, grid = self._block or (1, 1, 1), self._grid
        if grid is None:
            grid = (blocks[-1] + 1, 1, 1) if self._header.naming else (1, 1, 1)
        launch = Launch(kernel=kernel, grid=grid, block=block)
        skipped, advice = self._log.skipped, ""
        if not self._header.naming:
            if not can_fill(launch, len(columns)):
                raise TraceError(f"{self._name}: grid={grid}: is too large for {self._lines} lines")
            columns = insert_empty_blocks(columns, blocks, np.arange(launch.blocks), launch.block_warps)
            blocks = range(launch.blocks)
        else:
            if self._log.lenient:
                columns, blocks, skipped = fill_grid(launch, columns, blocks, skipped)
            advice = advise_about_missing_blocks(lenient=self._log.lenient)
        return RecordedTrace(launch, columns, blocks, trusted=True, skipped=skipped, advice=advice, notes=self._notes())

    def _notes(self) -> tuple[str, ...]:
        ignored = self._header.ignored
        if not ignored:
            return ()
        return (f"{self._name}: columns that are ignored: {', '.join(map(quote, ignored))}",)
