"""Find the memory of arrays, of tensors on the CPU, and of objects that wrap them."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.integrations.torch_on_cpu import device_of, without_redirection

MOST_SHARED = 1 << 28
"""Largest storage in bytes that is passed as a whole; of a larger one, each view is passed alone."""

_WRAPPED = ("base", "data", "storage", "tensor")
"""Attributes in which objects with the method ``data_ptr`` hold their tensor."""

_MOST_WRAPPERS = 3

_LEAST_ADDRESS, _LAST_ADDRESS = 1 << 32, 1 << 47
"""Numbers that may be addresses of the data of a process."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The memory that an array belongs to: `bytes` bytes at `address`.

    The array spans `size` of them from byte `offset` on. `owner` keeps the memory alive. `writeable` tells whether the
    array may be written.
    """

    owner: Any
    address: int
    bytes: int
    offset: int
    size: int
    writeable: bool

    def content(self) -> NDArray[np.uint8]:
        """Return the bytes in place."""
        if not self.bytes:
            return np.zeros(0, np.uint8)
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.bytes).from_address(self.address))

    def part(self) -> HostMemory:
        """Return the memory that the array spans, without what is around it."""
        return HostMemory(self.owner, self.address + self.offset, self.size, 0, self.size, self.writeable)


def find_memory(name: str, value: Any) -> HostMemory:
    """Return the memory of a NumPy array, a tensor on the CPU, or an object with ``data_ptr`` that wraps a tensor.

    It is the whole storage of a tensor, and the array that a view is of, since a kernel may access these through a view
    as well, unless they have more than `MOST_SHARED` bytes. Raises `ConfigError` for a tensor on another device, for
    negative strides, and for an object whose tensor is unknown.
    """
    with without_redirection():  # the program does not ask for the address
        memory = _of_array(name, value) if isinstance(value, np.ndarray) else _of_tensor(name, value)
    return memory if memory.bytes <= MOST_SHARED else memory.part()


def _of_array(name: str, value: NDArray[Any]) -> HostMemory:
    if any(stride < 0 for stride in value.strides):
        raise ConfigError(f"{name}: has a negative stride: pass a copy of it")
    low, high = np.lib.array_utils.byte_bounds(value) if value.size else (value.ctypes.data, value.ctypes.data)
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    first, end = np.lib.array_utils.byte_bounds(owner) if owner.size else (low, high)
    first, end = min(first, low), max(end, high)
    return HostMemory(owner, first, end - first, low - first, high - low, bool(value.flags.writeable))


def _of_tensor(name: str, value: Any) -> HostMemory:
    tensor = _unwrapped(name, value)
    if (device := device_of(tensor)) != "cpu":
        raise ConfigError(f"{name}: is on {device}: must be on the CPU")
    storage = tensor.untyped_storage()
    address, bytes_ = storage.data_ptr(), storage.nbytes()
    start = value.data_ptr()
    if tensor.numel():
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        size = (last + 1) * tensor.element_size()
    else:
        size = 0
    if not size and not bytes_:
        return HostMemory(tensor, address, 0, 0, 0, True)
    if not address <= start <= address + bytes_:
        raise ConfigError(f"{name}: its address is outside the tensor that it wraps")
    return HostMemory(tensor, address, bytes_, start - address, min(size, address + bytes_ - start), True)


def _unwrapped(name: str, value: Any) -> Any:
    """Return the tensor of an object with the method ``data_ptr``, which Triton takes as an array."""
    found = value
    for _ in range(_MOST_WRAPPERS):
        if hasattr(found, "untyped_storage"):
            return found
        found = next((getattr(found, each) for each in _WRAPPED if hasattr(found, each)), None)
    raise ConfigError(
        f"{name}={value!r:.60}: must be a NumPy array or a tensor on the CPU, or have one as .base or .data"
    )


class HandedOut:
    """The storages of tensors whose address a program may have, as far as they still exist."""

    def __init__(self) -> None:
        self._storages: dict[int, weakref.ref[Any]] = {}

    def add(self, tensor: Any) -> None:
        """Note that a program knows the address of a tensor on the CPU."""
        if device_of(tensor) == "cpu" and hasattr(tensor, "untyped_storage"):
            storage = tensor.untyped_storage()
            self._storages[storage.data_ptr()] = weakref.ref(storage)

    def targets(self, values: Iterable[Any]) -> list[NDArray[np.uint8]]:
        """Return the bytes of the storages into which whole numbers of 64 bits point, in arrays or on their own.

        All tensors are searched if a number may be an address that the program had before `add` could note it.
        """
        given = np.concatenate([np.zeros(0, np.uint64), *(_numbers(value) for value in values)])
        numbers = given[(given >= _LEAST_ADDRESS) & (given < _LAST_ADDRESS)]
        found, left = self._find(numbers)
        if left.size:
            for tensor in _all_tensors():
                self.add(tensor)
            found, _ = self._find(numbers)
        return found

    def _find(self, numbers: NDArray[np.uint64]) -> tuple[list[NDArray[np.uint8]], NDArray[np.uint64]]:
        """Return the bytes of the storages that numbers point into, and the numbers that point into none."""
        found = []
        for address, known in list(self._storages.items()):
            storage = known()
            if storage is None or storage.data_ptr() != address:
                del self._storages[address]
                continue
            inside = (numbers >= address) & (numbers < address + storage.nbytes())
            if inside.any():
                memory = HostMemory(storage, address, storage.nbytes(), 0, storage.nbytes(), True)
                found.append(memory.content())
                numbers = numbers[~inside]
        return found, numbers


def _all_tensors() -> list[Any]:
    """Return the tensors of the program."""
    torch = sys.modules.get("torch")
    return [] if torch is None else [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]


def _numbers(value: Any) -> NDArray[np.uint64]:
    if isinstance(value, int | np.integer):
        return np.array([int(value) % (1 << 64)], np.uint64)
    given = np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)
    return np.ascontiguousarray(given).view(np.uint64).ravel()


def translate_addresses(content: NDArray[np.uint8], first: int, spans: Sequence[tuple[int, int, int]]) -> None:
    """Replace addresses of this process by addresses of the device, in the words of 64 bits from byte `first` on.

    `spans` has the address of each array here, its bytes, and its address on the device. Other numbers stay.
    """
    words = content[first : first + (content.size - first) // 8 * 8].view(np.uint64)
    given = words.copy()
    for here, size, there in spans:
        inside = (given >= here) & (given < here + size)
        words[inside] = given[inside] - np.uint64(here) + np.uint64(there)


def translate_address(number: int, spans: Sequence[tuple[int, int, int]]) -> int:
    """Return the address on the device for an address of this process, and any other number as it is."""
    return next((number - here + there for here, size, there in spans if here <= number < here + size), number)
