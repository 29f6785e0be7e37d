"""Columns in ``.npy`` files (NumPy, NEP 1), mapped into memory.

NumPy's own reader takes the header for Python: a file can make it warn, raise nearly anything, or take seconds. Here a
header is a text of one form, the one that every writer of plain columns uses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError

_MAGIC = b"\x93NUMPY"
_VERSIONS = (b"\1\0", b"\2\0", b"\3\0")
_LONGEST_HEADER = 1 << 12
_HEADER = re.compile(
    rb"\{ *'descr' *: *'([<>|=]?\w{1,9})' *, *'fortran_order' *: *(?:True|False) *, "
    rb"*'shape' *: *\( *(\d{1,19}(?: *, *\d{1,19})*)? *,? *\) *,? *\} *\n?"
)


def mapped(path: Path, kind: str, count: int) -> NDArray[Any]:
    """Return the `count` values of type `kind` in a file, mapped and read-only.

    Raises `TraceError` that names the file if it cannot be read, holds anything else, or more or less of it.
    """
    try:
        with path.open("rb") as file:
            start, found, shape = _header(file, path)
            if found != kind or shape != str(count):
                raise TraceError(f"{path}: holds {found} of shape ({shape}), not {kind} of shape ({count},)")
            excess = os.fstat(file.fileno()).st_size - start - count * np.dtype(kind).itemsize
            if excess < 0:
                raise TraceError(f"{path}: is truncated: {-excess} bytes are missing")
            if excess:
                raise TraceError(f"{path}: {excess} bytes follow the last value")
            return np.memmap(file, kind, "r", start, (count,)) if count else np.empty(0, kind)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None


def _header(file: BinaryIO, path: Path) -> tuple[int, str, str]:
    """Return where the values begin, their type, and the shape without the comma at its end."""
    head = file.read(12)
    start = 10 if head[6:8] == _VERSIONS[0] else 12
    length = int.from_bytes(head[8:start], "little")
    if len(head) < 12 or not head.startswith(_MAGIC) or head[6:8] not in _VERSIONS or length > _LONGEST_HEADER:
        raise TraceError(f"{path}: is truncated or not a column: it does not begin as a .npy file does")
    file.seek(start)
    text = file.read(length)
    found = _HEADER.fullmatch(text)
    if found is None or len(text) < length:
        raise TraceError(f"{path}: is truncated or not a column: its header is {text[:80].decode('latin-1')!r}")
    return start + length, found[1].decode(), (found[2] or b"").decode()
