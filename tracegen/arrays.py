"""Declare the arrays of a kernel by shape or data, lay them out in memory, and check the bounds of accesses."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies import ADDRESS_BITS
from rdmodel.trace import ArrayInfo, Space
from tracegen._addresses import add_dimension

ALIGNMENT = 256
"""Alignment of arrays in bytes, that of cudaMalloc."""

SHARED_ALIGNMENT = 16
"""Alignment of arrays in shared memory in bytes."""

BASE = 1 << 28
"""Default address of the first array: an arbitrary large round number, since real addresses are unknown."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Declaration of an array without data: `shape` (a length or a tuple), element type, and memory space.

    A `shared` array lies in the shared memory of each block: accesses to it are part of the work of a block, but no
    memory instructions of a trace.

    In ``Space.LOCAL`` every thread of the launch has its own array of that shape. As in hardware, the arrays are
    interleaved: element i of all threads is contiguous.
    """

    shape: int | tuple[int, ...]
    dtype: DTypeLike = np.float32
    space: Space = Space.GLOBAL
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array in memory, with its content (`data`, flat) if that is known.

    `base` is the address of the first byte, `size` the number of bytes per element, and `stride` the distance in bytes
    between neighbouring elements, which is larger than `size` for local arrays. `elements` is the number of elements,
    and `distances` has the distance in elements between neighbours along each dimension (row-major).
    """

    name: str
    shape: tuple[int, ...]
    size: int
    base: int
    stride: int
    space: Space = Space.GLOBAL
    data: NDArray[Any] | None = None
    shared: bool = False
    elements: int = field(init=False)
    distances: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Compute `elements` and `distances`."""
        object.__setattr__(self, "elements", prod(self.shape))
        object.__setattr__(self, "distances", tuple(prod(self.shape[d + 1 :]) for d in range(len(self.shape))))


class Place(NamedTuple):
    """The elements that an instruction accesses: a flat index or one per dimension, affine in the iteration.

    `bases` are the indices in iteration 0, numbers or arrays with one value per thread; `steps` are their increments
    per iteration.
    """

    array: Array
    bases: Sequence[Any]
    steps: Sequence[int]

    @property
    def flat(self) -> Any:
        """The flat index in iteration 0."""
        if len(self.bases) == 1:
            return self.bases[0]
        return sum(base * distance for base, distance in zip(self.bases, self.array.distances, strict=True))

    def locate(self, shape: tuple[int, ...]) -> tuple[Any, bool]:
        """Return the address in iteration 0, and whether every index is within its bounds.

        The address lacks the offset of a thread in a local array. All lanes of the `shape` count, active or not.
        """
        address: Any = self.array.base
        arrays = []
        for base, bytes, extent in zip(self.bases, self._distances(), self._extents(), strict=True):
            if isinstance(base, np.ndarray):
                arrays.append((base if base.shape == shape else np.broadcast_to(base, shape), bytes, extent))
            elif 0 <= base < extent:
                address += base * bytes
            else:
                return address, False
        if not arrays:
            return address, True
        whole, inside = np.empty(shape, np.int64), True
        whole.fill(address)
        lanes = whole.reshape(-1)
        for base, bytes, extent in arrays:
            inside &= add_dimension(np.ascontiguousarray(base).reshape(-1), bytes, extent, lanes)
        return whole, inside

    @property
    def advance(self) -> int:
        """The bytes by which the address advances per iteration."""
        return sum(step * bytes for step, bytes in zip(self.steps, self._distances(), strict=True))

    def _distances(self) -> Sequence[int]:
        """Return the bytes between neighbouring elements along each dimension."""
        stride = self.array.stride
        return (stride,) if len(self.bases) == 1 else [distance * stride for distance in self.array.distances]

    def _extents(self) -> Sequence[int]:
        """Return the elements along each dimension."""
        return (self.array.elements,) if len(self.bases) == 1 else self.array.shape

    def outside(self, lanes: NDArray[np.bool_], t: int = 0) -> tuple[int, str] | None:
        """Return the first of `lanes` whose index is out of bounds in iteration `t`, with a message, or None."""
        bases = [base + t * step for base, step in zip(self.bases, self.steps, strict=True)] if t else self.bases
        extents = self._extents()
        for dimension, (base, extent) in enumerate(zip(bases, extents, strict=True)):
            if not isinstance(base, np.ndarray):
                wrong = lanes if not 0 <= base < extent else None
            else:
                inside = base.view(np.uint64) < extent
                wrong = None if inside.all() else lanes & ~inside
            if wrong is not None and wrong.any():
                lane = int(np.argmax(wrong))
                index = ", ".join(str(int(np.broadcast_to(b, lanes.shape).flat[lane])) for b in bases)
                subject = f"dimension {dimension}" if len(extents) > 1 else "it"
                return lane, f"{self.array.name}[{index}]: {subject} has indices 0 to {extent - 1}"
        return None


def allocate(declared: Mapping[str, Any], *, base: int, threads: int) -> dict[str, Array]:
    """Lay out arrays in the order of `declared`, one after the other from `base` on, aligned to 256 bytes.

    An array is declared by its shape (a length or a tuple; float32), by a NumPy array (shape, type and data) or by a
    `Buffer`. `threads` is the number of threads of the launch. Raises `ConfigError` for an invalid shape, type or
    base.
    """
    if not isinstance(base, int) or base < 0 or base % ALIGNMENT:
        raise ConfigError(f"base={base!r}: must be a multiple of {ALIGNMENT} of at least 0")
    arrays, shared = {}, 0
    for name, declaration in declared.items():
        if isinstance(declaration, Buffer) and declaration.shared:
            array = arrays[name] = _array(name, declaration, shared, threads)
            shared += -(-allocated_bytes(array) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            continue
        array = arrays[name] = _array(name, declaration, base, threads)
        base += -(-allocated_bytes(array) // ALIGNMENT) * ALIGNMENT
        if base >= 1 << ADDRESS_BITS:
            raise ConfigError(f"array {name}: {array.shape} elements end beyond address 2^{ADDRESS_BITS}")
    return arrays


def allocated_bytes(array: Array) -> int:
    """Return the bytes that an array takes, for all threads if it is local."""
    return array.elements * array.stride


def array_infos(arrays: Mapping[str, Array]) -> tuple[ArrayInfo, ...]:
    """Return the places of the arrays, in the form of ``Launch.arrays``, without shared ones."""
    return tuple(ArrayInfo(a.name, a.base, allocated_bytes(a)) for a in arrays.values() if not a.shared)


def shared_bytes(arrays: Mapping[str, Array]) -> int:
    """Return the bytes of shared memory that the shared arrays take."""
    return max((a.base + allocated_bytes(a) for a in arrays.values() if a.shared), default=0)


def _array(name: str, declaration: Any, base: int, threads: int) -> Array:
    if isinstance(declaration, np.ndarray):
        size = _element_bytes(name, declaration.dtype)
        return Array(name, declaration.shape, size, base, declaration.itemsize, data=np.ravel(declaration))
    buffer = declaration if isinstance(declaration, Buffer) else Buffer(declaration)
    shape = buffer.shape if isinstance(buffer.shape, tuple) else (buffer.shape,)
    try:
        shape = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise ConfigError(f"array {name}: shape {buffer.shape!r} must be a whole number or a tuple of them") from None
    if not shape or min(shape) < 1:
        raise ConfigError(f"array {name}: shape {shape} needs dimensions of at least 1")
    size = _element_bytes(name, buffer.dtype)
    stride = size * threads if buffer.space == Space.LOCAL else size
    return Array(name, shape, size, base, stride, buffer.space, shared=buffer.shared)


def _element_bytes(name: str, dtype: DTypeLike) -> int:
    size = np.dtype(dtype).itemsize
    if not 1 <= size <= 16:
        raise ConfigError(f"array {name}: elements of {size} bytes, but a thread accesses 1 to 16")
    return size
