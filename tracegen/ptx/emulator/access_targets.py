"""Find the arrays that the accesses of a launch may reach: from its parameters, and from what its memory contains."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tracegen.ptx.emulator.device_memory import DeviceBuffer, DeviceMemory
from tracegen.ptx.isa._code import TENSOR_MAP
from tracegen.ptx.isa.tensor_map import BYTES as MAP_BYTES
from tracegen.ptx.lowering.pointers import global_targets
from tracegen.ptx.lowering.program import Constant, LoweredKernel, ParameterPart, Step
from tracegen.ptx.lowering.slicing import PARAMETER, PRIVATE


def access_targets(
    program: LoweredKernel, parameters: bytes, memory: DeviceMemory, place: DeviceBuffer
) -> Callable[[Step], frozenset[str]]:
    """Return the function that tells the arrays which a step may access in global memory; see `global_targets`.

    `parameters` are the bytes of the kernel's parameters, which lie at `place` in `memory`.
    """
    buffers = {_name(buffer): buffer for buffer in memory.buffers if buffer is not place}

    @cache
    def holds_addresses(name: str) -> bool:
        return name not in buffers or memory.may_hold_addresses(buffers[name])

    pointers = _pointers(program, parameters, memory, place)
    return global_targets(program, pointers, _mapped_arrays(program, parameters, memory), holds_addresses)


def constant_value(constant: Constant, parameters: bytes) -> int:
    """Return the value of a number or of a part of the parameters, in 64 bits."""
    if isinstance(constant, ParameterPart):
        part = parameters[constant.offset : constant.offset + constant.bytes]
        return int.from_bytes(part, "little", signed=constant.signed) % (1 << 64)
    assert isinstance(constant, int)
    return constant


def _name(buffer: DeviceBuffer) -> str:
    return f"{PRIVATE if buffer.private else ''}{buffer.base}"


def _pointers(program: LoweredKernel, parameters: bytes, memory: DeviceMemory, place: DeviceBuffer) -> dict[int, str]:
    """Return the array that each constant of the launch points to, by slot, without numbers that are no address."""
    found = {}
    for slot, constant in enumerate(program.constants, start=program.variables):
        address = 0 if isinstance(constant, str) else constant_value(constant, parameters)
        buffer = memory.find(address)
        if buffer is place:
            found[slot] = f"{PARAMETER}{address - buffer.base}"
        elif buffer is not None:
            found[slot] = _name(buffer)
    return found


def _mapped_arrays(program: LoweredKernel, parameters: bytes, memory: DeviceMemory) -> dict[str, str]:
    """Return the array that each parameter with the size of a tensor map describes, if it is one."""
    found = {}
    for offset, size, _ in program.parameters:
        if size == MAP_BYTES:
            start = offset + TENSOR_MAP["MAP_ADDRESS"]
            buffer = memory.find(int.from_bytes(parameters[start : start + 8], "little"))
            if buffer is not None:
                found[f"{PARAMETER}{offset}"] = _name(buffer)
    return found
