"""Place the arrays and textures of one launch in device memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.cuda.textures import TextureValue
from tracegen.ptx.emulator.emulated_launch import DeviceBuffer, LoadedModule
from tracegen.ptx.emulator.textures import Texture, TextureOptions, make_texture
from tracegen.ptx.lowering.program import LoweredKernel, ParameterPart
from tracegen.ptx.lowering.textures import ANY_HANDLE, texture_axes

_HANDLE_BYTES = 8


class LaunchMemory:
    """The arrays of a launch of `program`. With `copies`, the kernel works on copies.

    An array that is given twice is one array on the device. An array is a texture if it is a `TextureValue`, or if the
    kernel reads textures through the parameter at its place.
    """

    def __init__(self, machine: LoadedModule, program: LoweredKernel, *, copies: bool) -> None:
        self._machine, self._copies = machine, copies
        self._axes = texture_axes(program)
        self._placed: dict[int, tuple[NDArray[Any], DeviceBuffer]] = {}
        self._blocks: dict[int, tuple[NDArray[Any], Texture, DeviceBuffer]] = {}

    def place(self, value: NDArray[Any] | TextureValue, name: str, at: int | None) -> DeviceBuffer:
        """Place an array whose address stands at byte `at` of the parameters; raises `ConfigError`.

        None stands for a place in an array of handles.
        """
        place = ANY_HANDLE if at is None else ParameterPart(at, _HANDLE_BYTES, signed=False)
        axes = self._axes.get(place)
        if isinstance(value, TextureValue):
            axes = axes or self._axes.get(ANY_HANDLE)
            return self._place_texture(value, name, axes) if axes else self._place_array(value.array, name)
        return (
            self._place_texture(TextureValue(value, TextureOptions()), name, axes)
            if axes
            else self._place_array(value, name)
        )

    def bind(self, reference: str, value: TextureValue) -> None:
        """Bind a texture to a reference, by its name in the PTX, if the kernel uses it."""
        axes = self._axes.get(self._machine.address_of(reference))
        if axes:
            self._place_texture(value, reference, axes, reference)

    def copy_back(self) -> None:
        """Copy what the kernel wrote to the arrays, where it did not work on them."""
        for array, buffer in self._placed.values():
            if array.flags.writeable and not np.shares_memory(array, buffer.array):
                array[...] = buffer.array
        for array, texture, _ in self._blocks.values():
            if array.flags.writeable:
                texture.update(array)

    def _place_array(self, array: NDArray[Any], name: str) -> DeviceBuffer:
        if id(array) not in self._placed:
            self._placed[id(array)] = array, self._machine.allocate(array.copy() if self._copies else array, name)
        return self._placed[id(array)][1]

    def _place_texture(
        self, value: TextureValue, name: str, axes: Collection[int], reference: str | None = None
    ) -> DeviceBuffer:
        known = self._blocks.get(id(value.array))
        if known is not None:
            texture, buffer = known[1:]
        else:
            texture = make_texture(name, value.array, axes, value.options)
            if texture.block:
                buffer = self._machine.allocate(texture.content, name)
                self._blocks[id(value.array)] = value.array, texture, buffer
            else:
                buffer = self._place_array(value.array, name)
        self._machine.bind_texture(texture, buffer, reference)
        return buffer
