"""Read Matrix Market files (Boisvert, Pozo and Remington, NISTIR 5935, 1996).

The reader is strict: every line holds exactly the numbers that the header announces. The last line ends with a line
break, since a file that was cut inside its last number would otherwise be read with another one. Declared sizes alone
allocate nothing: arrays grow with the numbers that the file holds.
"""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import require_room
from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import RdmodelError, TraceError

MAX_DIMENSION = 1 << 31
"""Rows, columns and entries must be fewer: kernels index them with 32-bit integers."""

MAX_SPARSE_DIMENSION = 1 << 22
EXTENT_PER_ENTRY = 64
"""A matrix may have this many rows and columns, or this many for each of its entries if that is more."""

MATRIX_PIECE_BYTES = 1 << 20
"""Bytes that are read at a time, and maximum length of a line."""

BYTES_PER_ENTRY, BYTES_PER_ROW, PIECE_NEED = 64, 8, 16 << 20
"""Memory that an entry, a row or column, and a piece of the file take until a matrix is in CSR form."""

MATRIX_FORMS = ("coordinate", "array")
MATRIX_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
MATRIX_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
"""Words of the header that this reader knows; a hermitian matrix of real numbers is a symmetric one."""

_BANNER = b"%%matrixmarket"
_FORM = "%%MatrixMarket matrix FORMAT FIELD SYMMETRY"
_SPACES = np.zeros(256, np.bool_)
_SPACES[list(b" \t\n\r\x0b\x0c")] = True

Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixEntries:
    """The entries of a matrix, in the order of the file: `rows` and `columns` from 0, and `values`.

    Entries of symmetric matrices are there twice. Several entries at one place are to be added up.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Values
    shape: tuple[int, int]


class _NotMatrixMarketError(Exception):
    """A mistake in a file, with its `line` if it has one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Header:
    form: str
    field: str
    symmetry: str
    rows: int
    columns: int
    count: int
    lines: int
    """Number of lines up to the size line."""


def read_matrix_market(path: str | os.PathLike[str], error: type[RdmodelError] = TraceError) -> MatrixEntries:
    """Read the real matrix in a file, which may be packed by gzip (``.gz``) or bzip2 (``.bz2``).

    Parameters
    ----------
    path
        A regular file: a pipe or a device is refused.
    error
        Type of the errors to raise.

    Returns
    -------
    MatrixEntries
        Its values are float64, int64 or uint64, as the header says; those of a pattern are 1.0.

    Raises
    ------
    RdmodelError
        An `error` that names the file, and the line of a mistake.
    """
    name = os.fspath(path)
    with open_regular_file(path, error) as raw:
        try:
            file = _unpacked(raw, name)
            header = _read_header(file)
            need = BYTES_PER_ENTRY * header.count + BYTES_PER_ROW * (header.rows + header.columns) + PIECE_NEED
            require_room(need, name, "use a smaller matrix", error)
            return _read(file, header)
        except _NotMatrixMarketError as mistake:
            line = "" if mistake.line is None else f":{mistake.line}"
            raise error(f"{name}{line}: not a Matrix Market file ({mistake})") from None
        except _TooLargeError as mistake:
            raise error(f"{name}: {mistake}") from None
        except MemoryError:
            raise error(f"{name}: does not fit in memory; allow more (--memory) or use a smaller matrix") from None
        except (EOFError, zlib.error, OSError) as failure:
            reason = getattr(failure, "strerror", None) or failure
            raise error(f"{name}: cannot be read: {reason}") from None


class _TooLargeError(Exception):
    """A matrix of a size that is not supported."""


def _unpacked(raw: IO[bytes], name: str) -> IO[bytes]:
    if name.endswith(".gz"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb"))
    return bz2.BZ2File(raw) if name.endswith(".bz2") else raw


def _read(file: IO[bytes], header: _Header) -> MatrixEntries:
    if header.form == "array":
        values = _read_values(file, header)
        return _from_dense(values, header)
    return _mirrored(*_read_entries(file, header), header)


# ---- the header


def _read_header(file: IO[bytes]) -> _Header:
    words = _line(file, 1).split()
    if not words or words[0].lower() != _BANNER:
        raise _NotMatrixMarketError(f"Not a Matrix Market file: the first line must be {_FORM}", 1)
    texts = [_quoted(word).lower() for word in words[1:]]
    if len(texts) != 4 or texts[0] != "matrix":
        raise _NotMatrixMarketError(f"Invalid first line: must be {_FORM}", 1)
    form, field, symmetry = texts[1:]
    for word, allowed in ((form, MATRIX_FORMS), (field, MATRIX_FIELDS), (symmetry, MATRIX_SYMMETRIES)):
        if word == "complex":
            raise _NotMatrixMarketError("Holds complex numbers: must hold real numbers", 1)
        if word not in allowed:
            raise _NotMatrixMarketError(f"Invalid word {word!r}: must be {', '.join(allowed)}", 1)
    if (form, field) == ("array", "pattern"):
        raise _NotMatrixMarketError("Invalid word 'pattern': only a coordinate file has this field", 1)
    at = 2
    while not (line := _line(file, at)).strip() or line.lstrip().startswith(b"%"):
        at += 1
    sizes = line.split()
    expected = 2 if form == "array" else 3
    if len(sizes) != expected or not all(size.isdigit() for size in sizes):
        names = "rows and columns" if expected == 2 else "rows, columns and entries"
        raise _NotMatrixMarketError(f"Invalid size line {_quoted(line.strip())!r}: must be {names}", at)
    # Longer numbers are cut: Python refuses to convert thousands of digits.
    rows, columns, *more = (int(size[:20]) for size in sizes)
    count = more[0] if more else _dense_count(rows, columns, symmetry)
    if symmetry != "general" and rows != columns:
        raise _NotMatrixMarketError(f"Invalid size: a {symmetry} matrix must be square, not {rows}x{columns}", at)
    if max(rows, columns, count) >= MAX_DIMENSION:
        raise _TooLargeError(
            f"a matrix of the declared size, {rows}x{columns} with {count} entries, is not supported: rows, columns "
            "and entries must be fewer than 2^31"
        )
    if min(rows, columns, count) < 1:
        raise _NotMatrixMarketError(f"Invalid size {rows}x{columns} with {count} entries: each must be at least 1", at)
    most = max(MAX_SPARSE_DIMENSION, EXTENT_PER_ENTRY * count)
    if max(rows, columns) > most:
        raise _TooLargeError(
            f"a matrix of the declared size, {rows}x{columns} with {count} entries, is not supported: it may have at "
            f"most {most} rows and columns ({EXTENT_PER_ENTRY} per entry, or 2^22); leave out empty ones"
        )
    return _Header(form, field, symmetry, rows, columns, count, at)


def _dense_count(rows: int, columns: int, symmetry: str) -> int:
    if symmetry == "general":
        return rows * columns
    return rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2


def _line(file: IO[bytes], number: int) -> bytes:
    """Return a line of the header; raise `_NotMatrixMarketError` for a file that ends with it or before."""
    line = file.readline(MATRIX_PIECE_BYTES)
    if not line.endswith(b"\n"):
        if len(line) >= MATRIX_PIECE_BYTES:
            raise _NotMatrixMarketError(f"Line too long: at most {MATRIX_PIECE_BYTES} bytes are allowed", number)
        if number == 1 and line:
            raise _NotMatrixMarketError(f"Not a Matrix Market file: the first line must be {_FORM}", 1)
        raise _NotMatrixMarketError("Truncated: ends before the line with its size", None)
    return line


# ---- the numbers


def _read_entries(file: IO[bytes], header: _Header) -> tuple[NDArray[np.int32], NDArray[np.int32], Values]:
    """Return rows and columns from 0, and values, of the entries of a coordinate file."""
    width = 2 if header.field == "pattern" else 3
    rows, columns, values = [], [], []
    for tokens, first in _numbers(file, header, width):
        rows.append(_indices(tokens[0::width], "row", header.rows, first))
        columns.append(_indices(tokens[1::width], "column", header.columns, first))
        if width == 3:
            values.append(_converted(tokens[2::width], header.field, first))
    found = np.concatenate(values) if values else np.ones(header.count)
    return np.concatenate(rows), np.concatenate(columns), found


def _read_values(file: IO[bytes], header: _Header) -> Values:
    """Return the values of an array file, by columns."""
    return np.concatenate([_converted(tokens, header.field, at) for tokens, at in _numbers(file, header, 1)])


LineOf = Callable[[int], int]
"""Function that returns the number of the line of an entry."""


def _numbers(file: IO[bytes], header: _Header, width: int) -> Iterator[tuple[list[bytes], LineOf]]:
    """Yield the words of whole lines, `width` per line, and the line of each entry among them."""
    entries = "values" if header.form == "array" else "entries"
    number, done, rest = header.lines, 0, b""
    while piece := file.read(MATRIX_PIECE_BYTES):
        checkpoint()
        end = piece.rfind(b"\n") + 1
        chunk, tail = rest + piece[:end] if end else b"", piece[end:]
        rest = tail if end else rest + piece
        if len(rest) > MATRIX_PIECE_BYTES:
            raise _NotMatrixMarketError(f"Line too long: at most {MATRIX_PIECE_BYTES} bytes are allowed", number + 1)
        if not chunk:
            continue
        lines = _lines_with_words(chunk, number, width)
        number += chunk.count(b"\n")
        done += len(lines)
        if done > header.count:
            at = int(lines[len(lines) - (done - header.count)])
            raise _NotMatrixMarketError(f"Too many lines: declares {header.count} {entries}", at)
        if len(lines):
            yield chunk.split(), lambda entry, lines=lines: int(lines[entry])  # type: ignore[misc]
    if rest.strip():
        raise _NotMatrixMarketError("Truncated: the last line does not end with a line break", number + 1)
    if done < header.count:
        raise _NotMatrixMarketError(f"Truncated: declares {header.count} {entries}, holds {done}")


def _lines_with_words(chunk: bytes, number: int, width: int) -> NDArray[np.int64]:
    """Return the numbers of the lines that are not blank, which have `width` words each; `number` precedes them."""
    data = np.frombuffer(chunk, np.uint8)
    blank = _SPACES[data]
    begins = ~blank
    begins[1:] &= blank[:-1]
    ends = np.flatnonzero(data == ord("\n"))
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), ends), prepend=0)
    wrong = np.flatnonzero((counts != width) & (counts != 0))
    if len(wrong):
        at = int(wrong[0])
        line = chunk[0 if at == 0 else int(ends[at - 1]) + 1 : int(ends[at])]
        raise _NotMatrixMarketError(
            f"Invalid line {_quoted(line.strip())!r}: has {counts[at]} numbers, must have {width}", number + at + 1
        )
    return np.flatnonzero(counts) + number + 1


def _indices(words: list[bytes], kind: str, most: int, line: LineOf) -> NDArray[np.int32]:
    """Return indices from 0; raise `_NotMatrixMarketError` for one outside 1 to `most`."""
    if not b"".join(words).isdigit() or max(map(len, words)) > 18:
        at = next(i for i, word in enumerate(words) if not word.isdigit() or len(word) > 18)
        raise _NotMatrixMarketError(f"Invalid {kind} {_quoted(words[at])!r}: must be 1 to {most}", line(at))
    found = np.array(list(map(int, words)), np.int64)
    outside = np.flatnonzero((found < 1) | (found > most))
    if len(outside):
        at = int(outside[0])
        raise _NotMatrixMarketError(f"Invalid {kind} {found[at]}: must be 1 to {most}", line(at))
    return (found - 1).astype(np.int32)


def _converted(words: list[bytes], field: str, line: LineOf) -> Values:
    """Return numbers as the type of a field."""
    try:
        return _convert(words, field)
    except (ValueError, OverflowError):
        at = next(i for i, word in enumerate(words) if not _is_number(word, field))
        kind = "a number" if field in ("real", "double") else "a whole number of 64 bits"
        raise _NotMatrixMarketError(f"Invalid value {_quoted(words[at])!r}: must be {kind}", line(at)) from None


def _convert(words: list[bytes], field: str) -> Values:
    if b"_" in b"".join(words):  # Python takes 1_000 for a number
        raise ValueError
    if field in ("real", "double"):
        return np.array(list(map(float, words)), np.float64)
    return np.array(list(map(int, words)), np.uint64 if field == "unsigned-integer" else np.int64)


def _is_number(word: bytes, field: str) -> bool:
    try:
        _convert([word], field)
    except (ValueError, OverflowError):
        return False
    return True


def _quoted(text: bytes) -> str:
    return text[:40].decode("ascii", "backslashreplace")


# ---- symmetric and dense matrices


def _mirrored(rows: NDArray[np.int32], columns: NDArray[np.int32], values: Values, header: _Header) -> MatrixEntries:
    """Return the entries with those on the other side of the diagonal, if the matrix is symmetric."""
    shape = header.rows, header.columns
    if header.symmetry == "general":
        return MatrixEntries(rows, columns, values, shape)
    other = rows != columns
    mirror = -values[other] if header.symmetry == "skew-symmetric" else values[other]
    return MatrixEntries(
        np.concatenate([rows, columns[other]]),
        np.concatenate([columns, rows[other]]),
        np.concatenate([values, mirror]),
        shape,
    )


def _from_dense(values: Values, header: _Header) -> MatrixEntries:
    """Return the entries that are not 0 of an array file, which has columns of the matrix or of its lower triangle."""
    places = np.flatnonzero(values)
    if header.symmetry == "general":
        columns, rows = np.divmod(places, header.rows)
    else:
        skipped = int(header.symmetry == "skew-symmetric")
        lengths = header.rows - skipped - np.arange(header.columns)
        starts = np.cumsum(lengths) - lengths
        columns = np.searchsorted(starts, places, side="right") - 1
        rows = places - starts[columns] + columns + skipped
    return _mirrored(rows.astype(np.int32), columns.astype(np.int32), values[places], header)
