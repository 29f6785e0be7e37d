"""The arrays of a kernel: declared by shape or by data, laid out in memory, bounds checked."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rdmodel.errors import ConfigError
from rdmodel.policies import ADDRESS_BITS
from rdmodel.trace import ArrayInfo, Space

ALIGNMENT = 256
"""Bytes that every array is aligned to, as cudaMalloc aligns."""

BASE = 1 << 28
"""Address of the first array unless `base` is given: any large round number; real ones are not known."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Declares an array without data: `shape` (a length or a tuple), element type, and memory space.

    In ``Space.LOCAL`` every thread of the launch has an array of that shape of its own; element i of all
    threads lies together, as the hardware interleaves it.
    """

    shape: int | tuple[int, ...]
    dtype: DTypeLike = np.float32
    space: Space = Space.GLOBAL


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array in memory: where it lies, and what it holds (`data`, flat) if that is known.

    `size` is the bytes per element, `base` the first byte address, `stride` the distance in bytes between
    neighbouring elements: larger than `size` for local arrays. An index is checked against `extents` and
    turned into a flat one by `distances` (row-major), one per dimension.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    base: int
    stride: int
    space: Space = Space.GLOBAL
    data: NDArray[Any] | None = None
    elements: int = field(init=False)
    distances: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Derive what every access needs."""
        object.__setattr__(self, "elements", prod(self.shape))
        object.__setattr__(self, "distances", tuple(prod(self.shape[d + 1 :]) for d in range(len(self.shape))))


@dataclass(frozen=True, slots=True)
class Place:
    """Which elements an instruction accesses: an index per dimension of `extents`, affine in the iteration.

    `bases` are numbers or arrays of one per thread, `steps` the advance per iteration.
    """

    array: Array
    extents: tuple[int, ...]
    bases: tuple[Any, ...]
    steps: tuple[int, ...]

    def flat(self) -> tuple[Any, int]:
        """Return the flat index and its step."""
        if len(self.bases) == 1:
            return self.bases[0], self.steps[0]
        distances = self.array.distances
        base = sum(base * distance for base, distance in zip(self.bases, distances, strict=True))
        return base, sum(step * distance for step, distance in zip(self.steps, distances, strict=True))

    def outside(self, lanes: NDArray[np.bool_], t: int = 0) -> tuple[int, str] | None:
        """Return the first of `lanes` whose index is outside in iteration `t`, and a message, if any."""
        bases = [base + t * step for base, step in zip(self.bases, self.steps, strict=True)] if t else self.bases
        for dimension, (base, extent) in enumerate(zip(bases, self.extents, strict=True)):
            if not isinstance(base, np.ndarray):
                wrong = lanes if not 0 <= base < extent else None
            else:
                inside = base.view(np.uint64) < extent
                wrong = None if inside.all() else lanes & ~inside
            if wrong is not None and wrong.any():
                lane = int(np.argmax(wrong))
                index = ", ".join(str(int(np.broadcast_to(b, lanes.shape)[lane])) for b in bases)
                which = f"dimension {dimension}" if len(self.extents) > 1 else "it"
                return lane, f"{self.array.name}[{index}]: {which} has indices 0 to {extent - 1}"
        return None


def allocate(declared: Mapping[str, Any], *, base: int, threads: int) -> dict[str, Array]:
    """Lay out arrays in the order of `declared`, 256-byte aligned, one after the other, from `base` on.

    Each is declared by its shape (a length or a tuple; float32), a NumPy array (shape, type and data) or a
    `Buffer`. `threads` is the number of threads of the launch. Raises `ConfigError` for a shape, type or base
    that cannot be.
    """
    if not isinstance(base, int) or base < 0 or base % ALIGNMENT:
        raise ConfigError(f"base={base!r}: must be a multiple of {ALIGNMENT} of at least 0")
    arrays = {}
    for name, what in declared.items():
        array = arrays[name] = _array(name, what, base, threads)
        base += -(-extent(array) // ALIGNMENT) * ALIGNMENT
        if base >= 1 << ADDRESS_BITS:
            raise ConfigError(f"array {name}: {array.shape} elements end beyond address 2^{ADDRESS_BITS}")
    return arrays


def extent(array: Array) -> int:
    """Return the bytes that an array takes, over all threads if it is local."""
    return array.elements * array.stride


def info(arrays: Mapping[str, Array]) -> tuple[ArrayInfo, ...]:
    """Return where the arrays lie, as a `Launch` names them."""
    return tuple(ArrayInfo(a.name, a.base, extent(a)) for a in arrays.values())


def _array(name: str, what: Any, base: int, threads: int) -> Array:
    if isinstance(what, np.ndarray):
        return Array(name, what.shape, _size(name, what.dtype), base, what.itemsize, data=np.ravel(what))
    buffer = what if isinstance(what, Buffer) else Buffer(what)
    shape = buffer.shape if isinstance(buffer.shape, tuple) else (buffer.shape,)
    try:
        shape = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise ConfigError(f"array {name}: shape {buffer.shape!r} must be a whole number or a tuple of them") from None
    if not shape or min(shape) < 1:
        raise ConfigError(f"array {name}: shape {shape} needs dimensions of at least 1")
    size = _size(name, buffer.dtype)
    stride = size * threads if buffer.space == Space.LOCAL else size
    return Array(name, shape, size, base, stride, buffer.space)


def _size(name: str, dtype: DTypeLike) -> int:
    size = np.dtype(dtype).itemsize
    if not 1 <= size <= 16:
        raise ConfigError(f"array {name}: elements of {size} bytes, a thread accesses 1 to 16")
    return size
