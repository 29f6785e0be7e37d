"""Create array arguments of kernels from a type, a size and a fill, or read them from a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite, nan, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.memory import import_library
from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import ConfigError, TraceError, unknown
from tracegen.cuda.npy_arguments import read_npy
from tracegen.matrix_market import read_matrix_market

MAX_ARRAY_BYTES = 1 << 32
"""Largest array argument, in bytes."""

_PIECE_ELEMENTS = 1 << 20
"""Elements that are computed or compared at a time."""

_MAX_SIZE_DIGITS = 19
"""Digits of numbers below 2^63. Longer texts are cut, since Python refuses to convert thousands of digits."""

_SCALAR_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "__half": np.float16,
    "char": np.int8,
    "uchar": np.uint8,
    "bool": np.bool_,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BFLOATS = {"bf16": 1, "bfloat16": 1, "__nv_bfloat16": 1, "__nv_bfloat162": 2}
"""Components of the types of bfloat16, which NumPy lacks: their arrays hold bits."""

ELEMENT_TYPES: dict[str, tuple[Any, int]] = {
    **{name: (dtype, 1) for name, dtype in _SCALAR_TYPES.items()},
    **{
        f"{name}{n}": (_SCALAR_TYPES[name], n)
        for name in ("float", "double", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
        for n in (2, 3, 4)
    },
    **{f"{name}2": (_SCALAR_TYPES[name], 2) for name in ("half", "__half")},
    **{name: (np.uint16, components) for name, components in _BFLOATS.items()},
}
"""Element types by their names in arguments: the type of a component and the number of components."""

_MATRIX_PARTS = ("rows", "columns", "values")
"""Arrays of a matrix in CSR form."""


def make_array(name: str, of: str, size: str, fill: str | None, sizes: Mapping[str, int]) -> NDArray[Any]:
    """Create the array ``of[size]:fill`` of argument `name`; raises `ConfigError` for an invalid part."""
    dtype, components = _element_type(name, of)
    shape = tuple(_dimension(name, part, sizes) for part in size.split(","))
    total = prod(shape) * components * np.dtype(dtype).itemsize
    if total > MAX_ARRAY_BYTES:
        raise ConfigError(f"argument {name}: {of}[{size}] has {total} bytes, must be at most {MAX_ARRAY_BYTES}")
    shape = (*shape, components) if components > 1 else shape
    if of in _BFLOATS and fill not in (None, "zeros"):
        numbers = _fill(name, np.zeros(shape, np.float32), fill)
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)  # cut off, not rounded
    return _fill(name, np.zeros(shape, dtype), fill)


def _element_type(name: str, of: str) -> tuple[Any, int]:
    if of not in ELEMENT_TYPES:
        raise ConfigError(f"argument {name}: " + unknown("type", of, ELEMENT_TYPES))
    return ELEMENT_TYPES[of]


def _dimension(name: str, text: str, sizes: Mapping[str, int]) -> int:
    size = 1
    for factor in text.split("*"):
        word = factor.strip()
        is_number = word.isascii() and word.isdecimal()
        if not is_number and word not in sizes:
            if not word.isidentifier():
                raise ConfigError(f"argument {name}: size {text!r} must be whole numbers and names, multiplied by *")
            raise ConfigError(f"argument {name}: size {text!r}: " + unknown("name", word, sizes))
        size *= int(word[: _MAX_SIZE_DIGITS + 1]) if is_number else sizes[word]
        if abs(size) >= 1 << 63:
            raise ConfigError(f"argument {name}: size {text!r:.60}: must be below 2^63")
    if size < 1:
        raise ConfigError(f"argument {name}: size {text!r} is {size}, must be at least 1")
    return size


def _fill(name: str, array: NDArray[Any], fill: str | None) -> NDArray[Any]:
    kind, *options = (fill if fill is not None else "zeros").split(":")
    if kind == "zeros" and not options:
        return array
    if kind == "iota" and not options:
        for first, piece in _pieces(array):
            piece[...] = np.arange(first, first + piece.size)
        return array
    if (
        kind == "random"
        and len(options) <= 2
        and all(option.isascii() and option.isdecimal() and len(option) <= _MAX_SIZE_DIGITS for option in options)
    ):
        return _randomise(array, *map(int, options))
    number = _number(kind) if not options else None
    if number is None:
        raise ConfigError(
            f"argument {name}: fill {fill!r} must be zeros, iota, random:SEED, random:SEED:BELOW or a number"
        )
    least, most = _range(array.dtype)
    if not least <= number <= most or (array.dtype.kind != "f" and number != int(number)):
        raise ConfigError(f"argument {name}: fill {fill!r} does not fit {array.dtype}")
    array[...] = number
    return array


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _number(text: str) -> float | None:
    try:
        number = float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        return None
    return number if isfinite(number) else None


def _randomise(array: NDArray[Any], seed: int = 0, below: int | None = None) -> NDArray[Any]:
    draw = np.random.default_rng(seed)
    if array.dtype.kind == "f":
        for _, piece in _pieces(array):
            piece[...] = draw.random(piece.size, np.float64 if array.itemsize == 8 else np.float32) * (below or 1)
        return array
    most = 2 if array.dtype.kind == "b" else int(np.iinfo(array.dtype).max) + 1
    bound = max(1, min(array.size if below is None else below, most))
    for _, piece in _pieces(array):
        piece[...] = draw.integers(0, bound, piece.size, dtype=np.int64 if bound <= 1 << 63 else np.uint64)
    return array


def _pieces(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first index, view) of the parts of a contiguous array, so that temporaries stay small."""
    flat = array.reshape(-1)
    for first in range(0, flat.size, _PIECE_ELEMENTS):
        yield first, flat[first : first + _PIECE_ELEMENTS]


def read_array(name: str, path: Path, of: str | None, part: str | None) -> NDArray[Any]:
    """Read an array, or the `part` of a matrix, as type `of`; raises `TraceError` for an unsuitable file."""
    with open_regular_file(path) as file:
        status = os.fstat(file.fileno())
    if status.st_size > MAX_ARRAY_BYTES:
        raise TraceError(f"{path}: has {status.st_size} bytes, must be at most {MAX_ARRAY_BYTES}")
    if path.suffix == ".mtx":
        if part not in _MATRIX_PARTS:
            raise ConfigError(f"argument {name}: a matrix needs a part: @{path.name}:rows, :columns or :values")
        rows, columns, values = _load_matrix(path, status.st_mtime_ns)
        array = {"rows": rows, "columns": columns, "values": values}[part]
        default: Any = np.float32 if part == "values" else np.int32
    elif path.suffix == ".npy" and part is None:
        wanted = None if of is None else _element_type(name, of)[0]
        return _check_size(path, read_npy(path, wanted, MAX_ARRAY_BYTES), of, name)
    else:
        raise ConfigError(f"argument {name}: {path.name}: must be a .npy file, or part of a .mtx file (@m.mtx:rows)")
    dtype = _element_type(name, of)[0] if of else default
    return _check_size(path, _convert(path, array, np.dtype(dtype)), of, name)


def _check_size(path: Path, array: NDArray[Any], of: str | None, name: str) -> NDArray[Any]:
    """Return an array; raise `TraceError` unless it has whole elements of type `of`."""
    components = _element_type(name, of)[1] if of else 1
    if array.size == 0 or array.size % components:
        raise TraceError(f"{path}: {array.size} elements cannot form an array of {of or array.dtype}")
    return array


def _convert(path: Path, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copy an array into another type; floats may lose digits, whole numbers must not change."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = np.array(array, dtype=dtype, order="C")
        if dtype.kind != "f" and dtype != array.dtype:
            given = np.reshape(array, -1)  # a view of a C-contiguous array
            for first, piece in _pieces(converted):
                if (piece.astype(array.dtype) != given[first : first + piece.size]).any():
                    raise TraceError(f"{path}: holds {array.dtype} values that do not fit {dtype}")
    return converted


@lru_cache(maxsize=1)
def _load_matrix(path: Path, modified: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return a matrix in CSR form, cached for its three parts; `modified` distinguishes versions of the file."""
    read = read_matrix_market(path)
    sparse = import_library("scipy.sparse")
    matrix = sparse.csr_array(sparse.coo_array((read.values, (read.rows, read.columns)), shape=read.shape))
    matrix.sort_indices()
    return matrix.indptr, matrix.indices, matrix.data
