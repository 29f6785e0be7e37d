"""Model device memory: arrays of the host at device addresses."""

from __future__ import annotations

import bisect
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.trace import ArrayInfo
from tracegen.arrays import ALIGNMENT

MODULE_BASE = 1 << 44
"""Address of the variables of a module and the parameters of kernels, above every array."""

LOCAL_BASE = 1 << 45
"""Address of local memory in traces: 32 times a thread's bytes per warp, with interleaved words."""

MARGIN = 1 << 21
"""Bytes around an allocation that a device may read without an error: it maps pages of 2 MB."""

_WORD = 8
"""Bytes of an address in memory."""

_WORDS_PER_STEP = 1 << 20

OUTSIDE = "memory outside allocations"
"""Name of arrays of zeros that stand for such bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBuffer:
    """An array in device memory: the kernel reads and writes `array`, which has `bytes` bytes at address `base`.

    `named` is the part that launches name, first byte and bytes; None: all of it.
    In a `private` one, each block has a part of its own, in which it reads only what it has written before.
    """

    name: str
    base: int
    bytes: int
    array: NDArray[np.generic] = field(repr=False)
    named: tuple[int, int] | None = None
    private: bool = False

    @property
    def info(self) -> ArrayInfo:
        """Name, address and size, as part of a `Launch`."""
        first, size = self.named or (0, self.bytes)
        return ArrayInfo(self.name, self.base + first, size)


class DeviceMemory:
    """A flat address space of disjoint buffers; every other address is an error, whose text ends with `advice`."""

    def __init__(self, base: int, advice: str = "") -> None:
        self.advice = advice
        if not isinstance(base, int) or not 0 < base < MODULE_BASE or base % ALIGNMENT:
            raise ConfigError(f"base={base!r}: must be a multiple of {ALIGNMENT}, above 0 and below 2^44")
        self.buffers: list[DeviceBuffer] = []
        self._next = {False: base, True: MODULE_BASE}
        self._ends = {False: MODULE_BASE, True: LOCAL_BASE}
        self._poison: dict[int, NDArray[np.uint8]] = {}
        self._tables: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]] | None = None

    def allocate(
        self, array: NDArray[np.generic], name: str, *, module: bool = False, private: bool = False
    ) -> DeviceBuffer:
        """Place an array behind the last one, 256-byte aligned; raises `ConfigError` if it does not fit.

        The kernel works on the array itself if it is contiguous and writeable, otherwise on a copy.
        """
        if array.dtype.hasobject:
            raise ConfigError(f"array {name}: dtype={array.dtype}: must be a type of fixed size, not Python objects")
        content = np.require(array, requirements=("C", "W"))
        buffer = DeviceBuffer(name, self._next[module], content.nbytes, content, private=private)
        after = buffer.base + max(1, -(-content.nbytes // ALIGNMENT)) * ALIGNMENT
        if after > self._ends[module]:
            raise ConfigError(f"array {name}: {content.nbytes} bytes do not fit into device memory")
        self._next[module] = after
        bisect.insort(self.buffers, buffer, key=lambda b: b.base)
        self._tables = None
        return buffer

    def place(self, array: NDArray[np.generic], name: str, base: int) -> DeviceBuffer:
        """Place an array at an address, which must lie outside all others; the kernel works on the array itself."""
        buffer = DeviceBuffer(name, base, array.nbytes, array)
        bisect.insort(self.buffers, buffer, key=lambda b: b.base)
        self._tables = None
        return buffer

    def name_part(self, base: int, first: int, size: int) -> None:
        """Let launches name `size` bytes, from byte `first` on, of the array at `base`, not all of it."""
        at = bisect.bisect_left(self.buffers, base, key=lambda b: b.base)
        self.buffers[at] = replace(self.buffers[at], named=(first, size))

    def tables(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return device address, bytes and host address of every buffer, by ascending address; at least one row."""
        if self._tables is None:
            rows = [(b.base, b.bytes, b.array.ctypes.data) for b in self.buffers] or [(0, 0, 0)]
            base, size, host = np.array(rows, dtype=np.uint64).T
            self._tables = np.ascontiguousarray(base), np.ascontiguousarray(size), np.ascontiguousarray(host)
        return self._tables

    def find(self, address: int) -> DeviceBuffer | None:
        """Return the buffer that an address lies in, or at its end; None if there is none."""
        at = bisect.bisect_right(self.buffers, address, key=lambda b: b.base) - 1
        inside = at >= 0 and address <= self.buffers[at].base + self.buffers[at].bytes
        return self.buffers[at] if inside else None

    def may_hold_addresses(self, buffer: DeviceBuffer) -> bool:
        """Return whether an aligned word in a buffer is the address of a byte in, or just beside, any buffer."""
        starts = np.array([max(0, b.base - ALIGNMENT) for b in self.buffers], dtype=np.uint64)
        ends = np.array([b.base + b.bytes + ALIGNMENT for b in self.buffers], dtype=np.uint64)
        content = buffer.array.reshape(-1).view(np.uint8)[-buffer.base % _WORD :]
        words = content[: content.size // _WORD * _WORD].view(np.uint64)
        for first in range(0, words.size, _WORDS_PER_STEP):
            part = words[first : first + _WORDS_PER_STEP]
            found = part[(part >= starts[0]) & (part < ends[-1])]
            if found.size and (found < ends[np.searchsorted(starts, found, "right") - 1]).any():
                return True
        return False

    def poison_table(self, used: bool) -> NDArray[np.uint64]:
        """Return the host address of one bit per byte of every buffer; 0 unless `used`.

        A bit is set while a byte holds a value that was not computed. Kernels that share the memory share the bits.
        """
        if not used:
            return np.zeros(max(1, len(self.buffers)), dtype=np.uint64)
        for buffer in self.buffers:
            if buffer.base not in self._poison:  # the pages of zeros are not touched before they are written
                self._poison[buffer.base] = np.zeros(buffer.bytes // 8 + 8, dtype=np.uint8)
        return np.array([self._poison[b.base].ctypes.data for b in self.buffers] or [0], dtype=np.uint64)

    def describe(self, address: int) -> str:
        """Describe an address relative to the nearest buffer."""
        if not self.buffers:
            return "there are no arrays"
        at = bisect.bisect_right(self.buffers, address, key=lambda b: b.base) - 1
        near = [b for b in self.buffers[max(at, 0) : at + 2] if b.base < MODULE_BASE or address >= MODULE_BASE]
        distance, buffer = min(
            ((max(b.base - address, address - b.base - b.bytes), b) for b in near or self.buffers[:1]),
            key=lambda pair: pair[0],
        )
        if address < buffer.base:
            return f"{distance} bytes before {buffer.name}"
        if distance < 0:
            return f"across the end of {buffer.name} ({buffer.bytes} bytes)"
        return f"{distance} bytes past the end of {buffer.name} ({buffer.bytes} bytes)"
