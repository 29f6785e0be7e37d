"""Read arrays of numbers from ``.npy`` files, a piece at a time, as the type that a kernel takes."""

from __future__ import annotations

import os
import re
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rdmodel.common.memory import require_room
from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import TraceError
from rdmodel.trace.npy import NpyHeader, read_header

PIECE_BYTES = 1 << 20
"""Bytes of a file that are read and converted at a time."""


def read_npy(path: Path, dtype: DTypeLike | None, most_bytes: int) -> NDArray[Any]:
    """Return the array in a file in C order, as `dtype` (None: as its own type, in the byte order of the machine).

    Only the result takes memory. Floats may lose digits. Raises `TraceError` for a file that holds no such array or
    one of more than `most_bytes` bytes, and for whole numbers that do not fit.
    """
    with open_regular_file(path) as file:
        try:
            header = read_header(file)
            stored = _dtype(header.kind)
        except (ValueError, TypeError) as error:
            raise TraceError(f"{path}: not a .npy file of numbers ({error})") from None
        if stored.kind not in "biuf" or stored.itemsize > 8:
            raise TraceError(f"{path}: holds {stored}: must be an array of numbers of 1 to 8 bytes")
        missing = header.start + prod(header.shape) * stored.itemsize - os.fstat(file.fileno()).st_size
        if missing > 0:
            raise TraceError(f"{path}: not a .npy file of numbers (is truncated: {missing} bytes are missing)")
        target = stored.newbyteorder("=") if dtype is None else np.dtype(dtype)
        size = prod(header.shape) * target.itemsize
        if size > most_bytes:
            raise TraceError(f"{path}: {size} bytes as {target}, must be at most {most_bytes}")
        require_room((1 + header.fortran_order) * size, str(path), "use a smaller array", TraceError)
        try:
            return _values(file, header, stored, target)
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror or error}") from None
        except OverflowError:
            raise TraceError(f"{path}: holds {stored} values that do not fit {target}") from None


def _dtype(kind: str) -> np.dtype[Any]:
    if not re.fullmatch(r"[<>|=]?[b-zA-Z?]\d{0,3}", kind):  # NumPy evaluates some other texts, or warns of them
        raise ValueError(f"unknown type {kind!r}")
    return np.dtype(kind)


def _values(file: BinaryIO, header: NpyHeader, stored: np.dtype[Any], target: np.dtype[Any]) -> NDArray[Any]:
    shape = header.shape[::-1] if header.fortran_order else header.shape
    result = np.empty(shape, target)
    flat = result.reshape(-1)
    step = PIECE_BYTES // stored.itemsize
    for first in range(0, flat.size, step):
        count = min(step, flat.size - first)
        data = file.read(count * stored.itemsize)
        if len(data) < count * stored.itemsize:
            raise OSError("was cut while it was read")
        piece = np.frombuffer(data, stored)
        with np.errstate(invalid="ignore", over="ignore"):
            flat[first : first + count] = piece
            if target.kind != "f" and (flat[first : first + count].astype(stored) != piece).any():
                raise OverflowError
    return np.ascontiguousarray(result.T) if header.fortran_order else result
