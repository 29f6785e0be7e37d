"""Launch a kernel of a PTX text on arrays, with parameters that the caller flattens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from rdmodel.integrations.torch_on_cpu import device_of
from rdmodel.trace import Trace

if TYPE_CHECKING:
    from tracegen.ptx.emulator.emulated_launch import DeviceBuffer, EmulatedLaunch

_MAX_INSTRUCTIONS = 10**9
_BITS_OF_TORCH = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Types of torch that NumPy lacks."""

Shape = int | Sequence[int]
"""A grid or a block: one to three numbers (x, y, z)."""


def memory_span(name: str, value: Any, *, writeable: bool = False) -> NDArray[Any]:
    """Return the memory that a NumPy array or a tensor on the CPU spans, as one dimension without gaps.

    With `writeable`, the span may be written where the array may. Raises `ConfigError` for a tensor on another device,
    and for negative strides.
    """
    if not isinstance(value, np.ndarray):
        if (device := device_of(value)) != "cpu":
            raise ConfigError(f"{name}: is on {device}: must be on the CPU")
        value = value.detach()
        if str(value.dtype).removeprefix("torch.") in _BITS_OF_TORCH:
            import torch

            value = value.view(torch.int16 if value.element_size() == 2 else torch.int8)
        value = value.numpy()
    if not value.size:
        return np.zeros(0, value.dtype)
    if any(stride < 0 for stride in value.strides):
        raise ConfigError(f"{name}: has a negative stride: pass a copy of it")
    # In units of bytes: strides of a field of a structure need not be multiples of its size.
    span = sum((size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True)) + value.itemsize
    flat: NDArray[Any] = np.lib.stride_tricks.as_strided(value.view(np.ndarray), (1,), (value.itemsize,))
    return np.lib.stride_tricks.as_strided(flat.view(np.uint8), (span,), (1,), writeable=writeable)


def host_span(name: str, value: Any) -> tuple[int, int]:
    """Return the address of an array in this process, and the bytes that it spans."""
    span = memory_span(name, value)
    return int(span.ctypes.data), span.size


def translate_addresses(value: Any, spans: Sequence[tuple[int, int, int]]) -> Any:
    """Return an array with its addresses of this process as addresses of the device; other numbers stay.

    `spans` has the address of each array here, its bytes, and its address on the device.
    """
    if not spans:
        return value
    given = np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)
    numbers = given.copy()
    for here, size, there in spans:
        inside = (given >= here) & (given < here + size)
        numbers[inside] = given[inside] - here + there
    return numbers


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
        # An array that is passed twice is one array on the device.
        self._placed: dict[int, tuple[str, Any, DeviceBuffer]] = {}
        self._given: list[int | float | bytes] = []

    def address(self, name: str, value: Any) -> int:
        """Place a copy of an array in device memory and return its address."""
        if id(value) not in self._placed:
            content = memory_span(name, value).copy()
            place = self._allocate_between_margins if self._lenient else self._machine.allocate
            self._placed[id(value)] = name, value, place(content, name)
        return int(self._placed[id(value)][2].base)

    def _allocate_between_margins(self, content: NDArray[np.uint8], name: str) -> DeviceBuffer:
        from tracegen.arrays import ALIGNMENT
        from tracegen.ptx.emulator.device_memory import MARGIN, OUTSIDE

        if not self._placed:
            self._machine.allocate(MARGIN, OUTSIDE)
        # An access must lie in one array, also one of several words that begins in this array and ends outside.
        buffer = self._machine.allocate(np.pad(content, (0, -content.nbytes % ALIGNMENT)), name)
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
        for number in range(launched.launch.blocks):
            launched.run(number, record=False)
        memories = [memory_span(name, value, writeable=True) for name, value, _ in self._placed.values()]
        contents = [buffer.array for *_, buffer in self._placed.values()]
        spans = [(memory, new[: memory.size]) for memory, new in zip(memories, contents, strict=True)]
        # Arrays may overlap, each with a copy on the device: all are compared before the first is written.
        changes = [(memory, new, memory != new) for memory, new in spans if memory.size and memory.flags.writeable]
        for memory, new, changed in changes:
            memory[changed] = new[changed]

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
