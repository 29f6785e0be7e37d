"""Model the device memory of a recorded program: its allocations and variables, at the addresses that it saw."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from tracegen.arrays import BASE
from tracegen.ptx.emulator.device_memory import MARGIN, OUTSIDE, DeviceMemory


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Memory at an address, with the bytes that kernels read and write; `kind` is as in the event ``allocate``."""

    name: str
    address: int
    content: NDArray[np.uint8]
    kind: str = "device"

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.address + len(self.content)


class AddressSpace:
    """The live allocations by address."""

    def __init__(self) -> None:
        self._allocations: list[Allocation] = []
        self._made = 0

    def __iter__(self) -> Iterator[Allocation]:
        """Iterate over the allocations by ascending address."""
        return iter(self._allocations)

    def add(self, address: int, content: NDArray[np.uint8], kind: str) -> Allocation:
        """Add the next allocation of the program."""
        self._made += 1
        return self.insert(Allocation(f"allocation {self._made}", address, content, kind))

    def insert(self, allocation: Allocation) -> Allocation:
        """Insert an allocation or a variable; raises `TraceError` if it overlaps another one."""
        at = bisect.bisect_right(self._allocations, allocation.address, key=lambda a: a.address)
        before, after = self._allocations[at - 1 : at], self._allocations[at : at + 1]
        if (before and before[0].end > allocation.address) or (after and after[0].address < allocation.end):
            raise TraceError(f"address={allocation.address}: lies in another allocation")
        self._allocations.insert(at, allocation)
        return allocation

    def remove(self, address: int) -> Allocation | None:
        """Remove the allocation that begins at an address, and return it; None if there is none."""
        found = self.find(address)
        if found is None or found.address != address:
            return None
        self._allocations.remove(found)
        return found

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """Return the allocation that holds all bytes from an address on; None if there is none."""
        at = bisect.bisect_right(self._allocations, address, key=lambda a: a.address) - 1
        found = self._allocations[at] if at >= 0 else None
        return found if found is not None and address + size <= max(found.end, found.address + 1) else None

    def view(self, address: int, size: int) -> NDArray[np.uint8] | None:
        """Return the bytes from an address on, which kernels see; None if they are in no allocation."""
        found = self.find(address, size)
        if found is None:
            return None
        start = address - found.address
        return found.content[start : start + size]

    def device_memory(
        self, *, copies: bool, freed: Iterable[Allocation] = (), margins: bool = False, advice: str = ""
    ) -> DeviceMemory:
        """Return the memory for a launch, also with allocations that are `freed`: the contents, or copies of them.

        With `margins`, `MARGIN` bytes before and behind each allocation are memory, too, with zeros. `advice` ends the
        errors about other addresses.
        """
        memory = DeviceMemory(BASE, advice)
        for allocation in (*self._allocations, *freed):
            content = allocation.content.copy() if copies else allocation.content
            memory.place(content, allocation.name, allocation.address)
        for start, end in self._margins() if margins else ():
            memory.place(np.zeros(end - start, np.uint8), OUTSIDE, start)
        return memory

    def _margins(self) -> Iterator[tuple[int, int]]:
        """Yield first address and end of the free memory near allocations."""
        end = 0
        for allocation in self._allocations:
            if allocation.address - end > 2 * MARGIN:
                yield from ((end, end + MARGIN),) if end else ()
                yield allocation.address - MARGIN, allocation.address
            elif allocation.address > end:
                yield end, allocation.address
            end = allocation.end
        if end:
            yield end, end + MARGIN
