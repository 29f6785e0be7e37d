"""Create array arguments of kernels from a type, a size and a fill, or read them from a file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite, nan, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError, TraceError, unknown

MAX_ARRAY_BYTES = 1 << 32
"""Largest array argument, in bytes."""

_MAX_SIZE_DIGITS = 19
"""Digits of numbers below 2^63. Longer texts are cut, since Python refuses to convert thousands of digits."""

_SCALAR_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
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
ELEMENT_TYPES: dict[str, tuple[Any, int]] = {name: (dtype, 1) for name, dtype in _SCALAR_TYPES.items()} | {
    f"{name}{n}": (_SCALAR_TYPES[name], n)
    for name in ("float", "double", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
    for n in (2, 3, 4)
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
    return _fill(name, np.zeros((*shape, components) if components > 1 else shape, dtype), fill)


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
        array[...] = np.arange(array.size).reshape(array.shape).astype(array.dtype)
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
        array[...] = draw.random(array.shape, np.float64 if array.itemsize == 8 else np.float32) * (below or 1)
        return array
    most = 2 if array.dtype.kind == "b" else int(np.iinfo(array.dtype).max) + 1
    return draw.integers(0, max(1, min(array.size if below is None else below, most)), array.shape).astype(array.dtype)


def read_array(name: str, path: Path, of: str | None, part: str | None) -> NDArray[Any]:
    """Read an array, or the `part` of a matrix, as type `of`; raises `TraceError` for an unsuitable file."""
    try:
        if path.stat().st_size > MAX_ARRAY_BYTES:
            raise TraceError(f"{path}: has {path.stat().st_size} bytes, must be at most {MAX_ARRAY_BYTES}")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    if path.suffix == ".mtx":
        if part not in _MATRIX_PARTS:
            raise ConfigError(f"argument {name}: a matrix needs a part: @{path.name}:rows, :columns or :values")
        rows, columns, values = _load_matrix(path, path.stat().st_mtime_ns)
        array = {"rows": rows, "columns": columns, "values": values}[part]
        default: Any = np.float32 if part == "values" else np.int32
    elif path.suffix == ".npy" and part is None:
        array = _load_npy(path)
        default = array.dtype.newbyteorder("=")
    else:
        raise ConfigError(f"argument {name}: {path.name}: must be a .npy file, or part of a .mtx file (@m.mtx:rows)")
    dtype, components = _element_type(name, of) if of else (default, 1)
    if array.size == 0 or array.size % components:
        raise TraceError(f"{path}: {array.size} elements cannot form an array of {of or default}")
    return _convert(path, array, np.dtype(dtype))


def _convert(path: Path, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copy an array into another type; floats may lose digits, whole numbers must not change."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = np.array(array, dtype=dtype, order="C")
        if dtype.kind != "f" and (converted.astype(array.dtype) != array).any():
            raise TraceError(f"{path}: holds {array.dtype} values that do not fit {dtype}")
    return converted


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy reads the header as Python, and raises nearly anything for a bad one
        raise TraceError(f"{path}: not a .npy file of numbers ({_one_line(error)})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf" or array.itemsize > 8:
        raise TraceError(
            f"{path}: holds {getattr(array, 'dtype', 'no array')}: must be an array of numbers of 1 to 8 bytes"
        )
    return array


@lru_cache(maxsize=1)
def _load_matrix(path: Path, modified: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return a matrix in CSR form, cached for its three parts; `modified` distinguishes versions of the file."""
    from scipy.io import mmread
    from scipy.sparse import csr_array

    try:
        matrix = csr_array(mmread(path))
    except (OSError, ValueError, TypeError, OverflowError, MemoryError, IndexError) as error:
        raise TraceError(f"{path}: not a Matrix Market file ({_one_line(error)})") from None
    matrix.sort_indices()
    if matrix.data.dtype.kind == "c":
        raise TraceError(f"{path}: holds complex numbers: must be real")
    return matrix.indptr, matrix.indices, matrix.data


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
