"""Pack the arguments of a launch into the bytes of the kernel's parameters."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from rdmodel.errors import LaunchError
from tracegen.ptx.emulator.device_memory import DeviceBuffer
from tracegen.ptx.lowering.program import PTX_TYPES, LoweredKernel

Argument = DeviceBuffer | int | float | np.generic | bytes
"""An argument of a kernel: a buffer, a number, or bytes that are used unchanged."""

MAX_PARAMETER_BYTES = 32764
"""Largest size of the parameters of a kernel, in bytes."""


def pack_parameters(program: LoweredKernel, args: Sequence[Argument]) -> bytes:
    """Pack arguments into the bytes of the parameters; raises `LaunchError` if one does not fit."""
    if len(args) != len(program.parameters):
        raise LaunchError(f"{program.name}: {len(args)} arguments, but it has {len(program.parameters)} parameters")
    packed = bytearray()
    for index, (value, (offset, size, type_name)) in enumerate(zip(args, program.parameters, strict=True)):
        packed += bytes(offset - len(packed))
        try:
            packed += _pack_argument(value, size, type_name)
        except (ValueError, OverflowError, TypeError, struct.error) as error:
            wanted = f".{type_name}" if type_name else f"{size} bytes"
            raise LaunchError(f"{program.name}: argument {index} ({value!r}) does not fit {wanted}: {error}") from None
    if len(packed) > MAX_PARAMETER_BYTES:
        raise LaunchError(f"{program.name}: {len(packed)} bytes of parameters, at most {MAX_PARAMETER_BYTES} fit")
    return bytes(packed)


def _pack_argument(value: Argument, size: int, type_name: str | None) -> bytes:
    if isinstance(value, bytes):
        if len(value) != size:
            raise ValueError(f"it has {len(value)} bytes")
        return value
    if isinstance(value, DeviceBuffer):
        if size != 8:
            raise ValueError("an address has 8 bytes")
        return value.base.to_bytes(8, "little")
    if type_name is None or type_name not in PTX_TYPES:
        raise ValueError("give it as bytes")
    if PTX_TYPES[type_name].kind == "FLOAT":
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], float(value))
    if not isinstance(value, int | np.integer) and float(value) != int(value):
        raise ValueError("it is not a whole number")
    return _pack_integer(int(value), size)


def _pack_integer(value: int, size: int) -> bytes:
    """Pack a whole number; PTX parameters have no signedness, so both ranges are accepted."""
    if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise ValueError(f"it does not fit {8 * size} bits")
    return (value % (1 << (8 * size))).to_bytes(size, "little")
