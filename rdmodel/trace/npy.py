"""Read the headers of ``.npy`` files (NumPy, NEP 1), and map one-dimensional files into memory.

NumPy's own reader evaluates the header as Python: a damaged file can make it warn, raise nearly any exception, or take
seconds. This reader accepts only the one form of header that writers of plain arrays produce.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import TraceError
from rdmodel.trace.mapped_pages import watched

_MAGIC = b"\x93NUMPY"
_VERSIONS = (b"\1\0", b"\2\0", b"\3\0")
_MAX_HEADER_BYTES = 1 << 12
_HEADER = re.compile(
    rb"\{ *'descr' *: *'([<>|=]?\w{1,9})' *, *'fortran_order' *: *(True|False) *, "
    rb"*'shape' *: *\( *(\d{1,19}(?: *, *\d{1,19})*)? *,? *\) *,? *\} *\n?"
)


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """The header of a file: `start` is the offset of the values, `kind` their type as the file writes it."""

    start: int
    kind: str
    shape: tuple[int, ...]
    fortran_order: bool


def map_values(path: Path, kind: str, count: int) -> NDArray[Any]:
    """Return the `count` values of type `kind` in a file, mapped and read-only.

    Raises a `TraceError` that names the file if it cannot be read, or if its type, shape or length differ.
    """
    try:
        with open_regular_file(path) as file:
            try:
                header = read_header(file)
            except ValueError as error:
                raise TraceError(f"{path}: is truncated or not a column: {error}") from None
            if header.kind != kind or header.shape != (count,):
                shape = ", ".join(map(str, header.shape))
                raise TraceError(f"{path}: holds {header.kind} of shape ({shape}), not {kind} of shape ({count},)")
            start = header.start
            excess = os.fstat(file.fileno()).st_size - start - count * np.dtype(kind).itemsize
            if excess < 0:
                raise TraceError(f"{path}: is truncated: {-excess} bytes are missing")
            if excess:
                raise TraceError(f"{path}: {excess} bytes follow the last value")
            # NumPy gets the name, not the open file: worker processes map the file by this name.
            return watched(np.memmap(path, kind, "r", start, (count,)), path) if count else np.empty(0, kind)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: was truncated while it was read") from None


def read_header(file: BinaryIO) -> NpyHeader:
    """Return the header at the start of a file; raise `ValueError`, with the reason, for one of another form."""
    head = file.read(12)
    start = 10 if head[6:8] == _VERSIONS[0] else 12
    length = int.from_bytes(head[8:start], "little")
    if len(head) < 12 or not head.startswith(_MAGIC) or head[6:8] not in _VERSIONS or length > _MAX_HEADER_BYTES:
        raise ValueError("it does not begin as a .npy file does")
    file.seek(start)
    text = file.read(length)
    match = _HEADER.fullmatch(text)
    if match is None or len(text) < length:
        raise ValueError(f"its header is {text[:80].decode('latin-1')!r}")
    sizes = tuple(int(size) for size in (match[3] or b"").split(b",") if size.strip())
    return NpyHeader(start + length, match[1].decode(), sizes, match[2] == b"True")
