"""Encode tensor maps, the descriptors of tensors that copies of boxes and of pixels take as arguments.

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

TENSOR_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Element types, in the order of their numbers in PTX; the last three are packed, 16 elements in 8 or 12 bytes."""

_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4, 0.5, 1, 1)
"""Bytes of an element in shared memory."""

SWIZZLES = (0, 32, 64, 128)
"""Bytes of the rows whose pieces change places in shared memory, in the order of their numbers in PTX."""

_MAX_RANK, _MAX_BOX, _MAX_PIXELS, _MAX_STEP = 5, 256, 1024, 8


def tensor_map(
    address: int,
    element: str,
    *,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int] | None = None,
    swizzle: int = 0,
    nan: bool = False,
) -> bytes:
    """Return a tensor map for boxes: 128 bytes, for a parameter of a kernel.

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
    steps
        Distances of the elements that are copied along each dimension, 1 to 8 (default: 1); along the last one, 1.
    swizzle
        Bytes of the rows in shared memory whose pieces of 16 bytes change places: one of `SWIZZLES`, 0 for none.
    nan
        Whether elements outside the tensor are not a number; otherwise, they are zeros.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    """
    steps = [1] * len(shape) if steps is None else steps
    content = _tensor(address, element, shape, strides, steps, swizzle, nan)
    if len(box) != len(shape):
        raise ConfigError(f"box={tuple(box)}: must have {len(shape)} sizes, one for each dimension")
    if not all(1 <= size <= _MAX_BOX for size in box):
        raise ConfigError(f"box={shape_text(tuple(box))}: must have sizes of 1 to {_MAX_BOX}")
    if prod(-(-size // step) for size, step in zip(box, steps, strict=True)) * _bytes(element) > 1 << 20:
        raise ConfigError(f"box={shape_text(tuple(box))}: must have at most 1 MiB")
    struct.pack_into(f"<{len(box)}I", content, TENSOR_MAP["MAP_BOX"], *reversed(box))
    return bytes(content)


def pixel_map(
    address: int,
    element: str,
    *,
    shape: Sequence[int],
    strides: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    channels: int,
    pixels: int,
    steps: Sequence[int] | None = None,
    swizzle: int = 0,
    nan: bool = False,
) -> bytes:
    """Return a tensor map for columns of pixels (``im2col``): 128 bytes, for a parameter of a kernel.

    The three to five dimensions are images, then depth, height and width, as many as there are, and channels. The first
    pixels of the windows of a convolution form a box, from `lower` on to `upper`, which is counted from the last pixel
    of the image on.

    Parameters
    ----------
    address, element, shape, strides, steps, swizzle, nan
        As of `tensor_map`; `steps` are the strides of the convolution.
    lower, upper
        Corners of the box along depth, height and width, such as -1 and -1 for a window of 3 pixels and a border of 1.
    channels
        Channels of a pixel that are copied, at most 256.
    pixels
        Pixels of a column, at most 1024.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    """
    steps = [1] * len(shape) if steps is None else steps
    content = _tensor(address, element, shape, strides, steps, swizzle, nan)
    spatial = len(shape) - 2
    if spatial < 1 or len(lower) != spatial or len(upper) != spatial:
        raise ConfigError(
            f"shape={tuple(shape)}, lower={tuple(lower)}, upper={tuple(upper)}: must have three to five dimensions, "
            "and corners with two numbers less"
        )
    if not all(-(1 << 15) <= corner < 1 << 15 for corner in (*lower, *upper)):
        raise ConfigError(f"lower={tuple(lower)}, upper={tuple(upper)}: must be -32768 to 32767")
    if not 1 <= channels <= _MAX_BOX or not 1 <= pixels <= _MAX_PIXELS:
        raise ConfigError(
            f"channels={channels}, pixels={pixels}: must be 1 to {_MAX_BOX} channels and 1 to {_MAX_PIXELS} pixels"
        )
    struct.pack_into("<2I", content, TENSOR_MAP["MAP_BOX"], channels, pixels)
    struct.pack_into(f"<{spatial}h", content, TENSOR_MAP["MAP_LOWER"], *reversed(lower))
    struct.pack_into(f"<{spatial}h", content, TENSOR_MAP["MAP_UPPER"], *reversed(upper))
    content[TENSOR_MAP["MAP_PIXELS"]] = 1
    return bytes(content)


def _bytes(element: str) -> float:
    return _TYPE_BYTES[TENSOR_TYPES.index(element)]


def _tensor(
    address: int,
    element: str,
    shape: Sequence[int],
    strides: Sequence[int],
    steps: Sequence[int],
    swizzle: int,
    nan: bool,
) -> bytearray:
    """Return the part of a map that describes the tensor itself."""
    rank = len(shape)
    if element not in TENSOR_TYPES:
        raise ConfigError(f"element={element!r}: must be one of {', '.join(TENSOR_TYPES)}")
    if not 1 <= rank <= _MAX_RANK or len(strides) != rank - 1 or len(steps) != rank:
        raise ConfigError(
            f"shape={tuple(shape)}, strides={tuple(strides)}, steps={tuple(steps)}: must have one to five dimensions, "
            "one stride less than dimensions, and a step for each"
        )
    if not all(1 <= size < 1 << 32 for size in shape):
        raise ConfigError(f"shape={shape_text(tuple(shape))}: must be 1 to 2^32 - 1")
    if not all(0 <= stride < 1 << 40 and stride % 16 == 0 for stride in strides) or not 0 <= address < 1 << 63:
        raise ConfigError(f"strides={tuple(strides)}, address={address}: strides must be multiples of 16 bytes")
    if not all(1 <= step <= _MAX_STEP for step in steps) or steps[-1] != 1:
        raise ConfigError(f"steps={tuple(steps)}: must be 1 to {_MAX_STEP}, and 1 along the last dimension")
    if swizzle not in SWIZZLES:
        raise ConfigError(f"swizzle={swizzle!r}: must be one of {', '.join(map(str, SWIZZLES))}")
    content = bytearray(BYTES)
    struct.pack_into("<Q", content, TENSOR_MAP["MAP_ADDRESS"], address)
    struct.pack_into("<I", content, TENSOR_MAP["MAP_RANK"], rank - 1)
    content[TENSOR_MAP["MAP_TYPE"]] = TENSOR_TYPES.index(element)
    content[TENSOR_MAP["MAP_SWIZZLE"]], content[TENSOR_MAP["MAP_FILL"]] = SWIZZLES.index(swizzle), nan
    for field, values in (("MAP_DIMS", shape), ("MAP_STEPS", steps)):
        struct.pack_into(f"<{rank}I", content, TENSOR_MAP[field], *reversed(values))
    struct.pack_into(f"<{rank - 1}Q", content, TENSOR_MAP["MAP_STRIDES"], *reversed(strides))
    return content
