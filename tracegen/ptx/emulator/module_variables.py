"""Place the variables of a module in device memory, with their initial values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rdmodel.errors import TraceError
from tracegen.ptx.emulator.device_memory import DeviceBuffer, DeviceMemory
from tracegen.ptx.lowering.calls import function_addresses
from tracegen.ptx.lowering.lowering import variable_bytes
from tracegen.ptx.syntax.ast import Module, Variable

MAX_PLACED_BYTES = 1 << 30
"""Largest size in bytes of a variable of a module."""

PLACED_SPACES = ("global", "const")
"""State spaces of the variables that lie in device memory."""


def placed_variables(module: Module) -> dict[str, int]:
    """Return the bytes of the variables in global and constant memory by name; raises `TraceError` for a huge one."""
    found = {v.name: variable_bytes(v) for v in module.variables.values() if v.space in PLACED_SPACES}
    for name, size in found.items():
        if size > MAX_PLACED_BYTES:
            raise TraceError(f"variable {name}: {size} bytes, must be at most 1 GiB")
    return found


def load_variables(module: Module, memory: DeviceMemory, places: Mapping[str, int] | None) -> dict[str, DeviceBuffer]:
    """Allocate the variables at their addresses in `places`, or else behind each other, with their initial values."""
    buffers = {}
    for name, size in placed_variables(module).items():
        content = np.zeros(size, np.uint8)
        initial = np.frombuffer(module.variables[name].initial or b"", np.uint8)
        content[: len(initial)] = initial[: len(content)]
        if places is None:
            buffers[name] = memory.allocate(content, name, module=True)
        else:
            buffers[name] = memory.place(content, name, places[name])
    addresses = function_addresses(module) | {name: buffer.base for name, buffer in buffers.items()}
    for name, buffer in buffers.items():
        _add_addresses(module.variables[name], buffer, addresses)
    return buffers


def _add_addresses(variable: Variable, buffer: DeviceBuffer, addresses: Mapping[str, int]) -> None:
    """Add the addresses of variables and functions to the numbers in the initial value of a variable."""
    for offset, symbol in variable.addresses.items():
        if symbol in addresses and offset + 8 <= buffer.bytes:
            content = buffer.array.view(np.uint8)
            old = int.from_bytes(content[offset : offset + 8].tobytes(), "little")
            address = (addresses[symbol] + old) % (1 << 64)
            content[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
