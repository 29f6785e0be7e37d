"""Encode tensor maps, the descriptors of tensors that copies of boxes take as arguments.

Their 128 bytes are opaque to programs, and have a layout of their own here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from rdmodel.common.text import shape_text
from rdmodel.errors import ConfigError
from tracegen.ptx.isa._code import TENSOR_MAP

BYTES = 128
"""Size of a tensor map."""

TENSOR_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz")
"""Element types, in the order of their numbers in PTX."""

_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
_MAX_RANK, _MAX_BOX = 5, 256


def tensor_map(
    address: int, element: str, *, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> bytes:
    """Return a tensor map: 128 bytes, for a parameter of a kernel.

    Parameters
    ----------
    address
        Device address of the tensor, such as the `base` of a buffer.
    element
        Type of the elements: one of `TENSOR_TYPES`.
    shape
        Elements of the tensor along each of its one to five dimensions; those of the last one are contiguous.
    strides
        Bytes between neighbours along each dimension but the last one.
    box
        Elements of a box along each dimension, at most 256.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    """
    rank = len(shape)
    if element not in TENSOR_TYPES:
        raise ConfigError(f"element={element!r}: must be one of {', '.join(TENSOR_TYPES)}")
    if not 1 <= rank <= _MAX_RANK or len(strides) != rank - 1 or len(box) != rank:
        raise ConfigError(
            f"shape={tuple(shape)}, strides={tuple(strides)}, box={tuple(box)}: must have one to five dimensions, one "
            "stride less than dimensions, and as many sizes of the box"
        )
    if not all(1 <= size < 1 << 32 for size in shape) or not all(1 <= size <= _MAX_BOX for size in box):
        raise ConfigError(
            f"shape={shape_text(tuple(shape))}, box={shape_text(tuple(box))}: must be 1 to 2^32 - 1, boxes at most 256"
        )
    if not all(0 <= stride < 1 << 40 and stride % 16 == 0 for stride in strides) or not 0 <= address < 1 << 63:
        raise ConfigError(f"strides={tuple(strides)}, address={address}: strides must be multiples of 16 bytes")
    number = TENSOR_TYPES.index(element)
    if prod(box) * _TYPE_BYTES[number] > 1 << 20:
        raise ConfigError(f"box={shape_text(tuple(box))}: must have at most 1 MiB")
    content = bytearray(BYTES)
    struct.pack_into("<Q", content, TENSOR_MAP["MAP_ADDRESS"], address)
    struct.pack_into("<I", content, TENSOR_MAP["MAP_RANK"], rank - 1)
    content[TENSOR_MAP["MAP_TYPE"]] = number
    for field, values in (("MAP_DIMS", shape), ("MAP_BOX", box), ("MAP_STEPS", [1] * rank)):
        struct.pack_into(f"<{rank}I", content, TENSOR_MAP[field], *reversed(values))
    struct.pack_into(f"<{rank - 1}Q", content, TENSOR_MAP["MAP_STRIDES"], *reversed(strides))
    return bytes(content)
