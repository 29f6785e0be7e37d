"""Launch a kernel of a PTX text on arrays, with parameters that the caller flattens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.integrations.host_memory import HostMemory, find_memory, translate_addresses
from rdmodel.trace import Trace

if TYPE_CHECKING:
    from tracegen.ptx.emulator.emulated_launch import DeviceBuffer, EmulatedLaunch

_MAX_INSTRUCTIONS = 10**9
Shape = int | Sequence[int]
"""A grid or a block: one to three numbers (x, y, z)."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """Memory of the host, its copy on the device, and the bytes from `first` to `end` that arguments span."""

    memory: HostMemory
    buffer: DeviceBuffer
    first: int
    end: int

    def extended(self, memory: HostMemory) -> _Placed:
        """Return it with another part of the same memory that an argument spans."""
        kept = memory if memory.writeable else self.memory
        first, end = min(self.first, memory.offset), max(self.end, memory.offset + memory.size)
        return _Placed(kept, self.buffer, first, end)


class PtxLaunch:
    """A launch of a kernel in a PTX text: arguments are added in order, then it is traced.

    `title` is the name of the kernel in results, `entry` that in the PTX (None: the only kernel). With `lenient`, the 2
    MB before and behind each array are memory, too, which holds zeros; `advice` ends errors about other addresses.
    """

    def __init__(
        self, ptx: str, title: str, entry: str | None = None, *, lenient: bool = False, advice: str = ""
    ) -> None:
        from tracegen.ptx import parse
        from tracegen.ptx.emulator.emulated_launch import LoadedModule

        module = parse(ptx, title)
        found = [name for name in module.kernels if entry in (None, name)]
        if len(found) != 1:
            raise ConfigError(f"{title}: the PTX has the kernels {', '.join(module.kernels) or 'none'}")
        self.parameters = module.functions[found[0]].parameters
        self._kernel, self._title = found[0], title
        self._machine = LoadedModule(module)
        self._machine.memory.advice = advice
        self._lenient = lenient
        # By address and bytes on the host: arrays that share their memory share it on the device.
        self._placed: dict[tuple[int, int], _Placed] = {}
        self._given: list[int | float | bytes] = []

    def address(
        self, name: str, value: Any, spans: Sequence[tuple[int, int, int]] = (), *, private: bool = False
    ) -> int:
        """Place a copy of the memory that an array belongs to on the device, and return the address of the array.

        The copy has addresses of the device for addresses of the `spans`: address here, bytes, address on the device.
        A `private` array is scratch memory of the compiler, of which each block has a part of its own.
        """
        memory = find_memory(name, value)
        key = memory.address, memory.bytes
        if key not in self._placed:
            content = memory.content().copy()
            place = self._allocate_between_margins if self._lenient else self._machine.allocate
            buffer = place(content, name, private=private)
            self._placed[key] = _Placed(memory, buffer, memory.offset, memory.offset + memory.size)
        else:
            self._placed[key] = self._placed[key].extended(memory)
        placed = self._placed[key]
        self._machine.memory.name_part(placed.buffer.base, placed.first, placed.end - placed.first)
        if spans:
            translate_addresses(placed.buffer.array.view(np.uint8), memory.offset % 8, spans)
        return int(placed.buffer.base) + memory.offset

    def _allocate_between_margins(self, content: NDArray[np.uint8], name: str, *, private: bool) -> DeviceBuffer:
        from tracegen.arrays import ALIGNMENT
        from tracegen.ptx.emulator.device_memory import MARGIN, OUTSIDE

        if not self._placed:
            self._machine.allocate(MARGIN, OUTSIDE)
        # An access must lie in one array, also one of several words that begins in this array and ends outside.
        buffer = self._machine.allocate(np.pad(content, (0, -content.nbytes % ALIGNMENT)), name, private=private)
        self._machine.allocate(MARGIN, OUTSIDE)
        return buffer

    def add(self, *values: int | float | bytes) -> None:
        """Add the next parameters: numbers, addresses, or the bytes of structures."""
        self._given += values

    @property
    def parameters_left(self) -> int:
        """The number of parameters that have not been added."""
        return max(0, len(self.parameters) - len(self._given))

    def trace(self, grid: Shape, block: Shape, *, shared: int = 0, blocks: Sequence[int] | None = None) -> Trace:
        """Return the trace; raises `ConfigError` if the parameters do not fit, and `LaunchError`."""
        from tracegen.cuda.session import trace_of_launch

        return trace_of_launch(self._launch(grid, block, shared, values=False), self._title, blocks)

    def execute(self, grid: Shape, block: Shape, *, shared: int = 0) -> None:
        """Execute all blocks in ascending order, and copy the bytes that they have changed to the caller's arrays.

        Raises `TraceError` for a result that is not computed, such as one of tensor cores; the arrays then stay.
        """
        launched = self._launch(grid, block, shared, values=True)
        before = [placed.buffer.array.copy() for placed in self._placed.values()]
        for number in range(launched.launch.blocks):
            launched.run(number, record=False)
        for placed, old in zip(self._placed.values(), before, strict=True):
            if placed.memory.writeable and placed.memory.bytes:
                memory = placed.memory.content()
                changed = (placed.buffer.array != old)[: memory.size]
                memory[changed] = placed.buffer.array[: memory.size][changed]

    def _launch(self, grid: Shape, block: Shape, shared: int, *, values: bool) -> EmulatedLaunch:
        if len(self._given) != len(self.parameters):
            raise ConfigError(
                f"{self._title}: has {len(self.parameters)} parameters after compilation, but the arguments make "
                f"{len(self._given)}: this version of the compiler passes them differently"
            )
        return self._machine.launch(
            self._kernel, grid, block, self._given, shared=shared, max_instructions=_MAX_INSTRUCTIONS, values=values
        )


def target_capability(architecture: str) -> tuple[int, int]:
    """Return (8, 0) for ``sm_80``; raises `ConfigError`."""
    found = re.fullmatch(r"sm_(\d{1,2})(\d)a?", architecture)
    if found is None:
        raise ConfigError(f"architecture={architecture!r}: must be a target such as sm_80 or sm_90")
    return int(found[1]), int(found[2])
