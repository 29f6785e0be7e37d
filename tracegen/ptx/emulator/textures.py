"""Lay out textures and surfaces in device memory, and describe them to the emulator.

Textures of one dimension lie in memory as arrays do. The layout of others is not documented for computing; the one used
here is that of NVIDIA's graphics memory (block linear, Tegra X1 Technical Reference Manual, section on memory layouts):
64 bytes of 8 rows are 512 neighbouring bytes, and 1 to 16 of such pieces lie on top of each other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.text import shape_text
from rdmodel.errors import ConfigError, unknown
from tracegen.ptx.isa._code import ADDRESS_MODES, KINDS

TEXTURE_FIELDS = (
    "handle", "base", "width", "height", "depth", "components", "bytes", "kind", "block", "columns", "slice",
    "normalised", "linear", "address",
)  # fmt: skip
"""Columns of the table of textures; the struct `Texture` of the emulator is the twin of a row."""

FILTERS = ("point", "linear")
ADDRESSES = {name.removeprefix("ADDRESS_").lower(): number for name, number in ADDRESS_MODES.items()}
LAYOUTS = ("block", "rows")
"""Filters, address modes by name, and layouts of textures with more than one dimension."""

_PIECE_BYTES, _PIECE_ROWS, _MAX_BLOCK = 64, 8, 16
_KINDS = {"f": "FLOAT", "i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}
_MAX_TEXTURE_BYTES = 1 << 32


@dataclass(frozen=True, slots=True)
class TextureOptions:
    """Options of a texture: `normalized` coordinates, `filter`, `address` mode, and the `layout` in memory."""

    normalized: bool = False
    filter: str = "point"
    address: str = "clamp"
    layout: str = "block"

    def __post_init__(self) -> None:
        """Reject unknown names."""
        for name, allowed in (("filter", FILTERS), ("address", ADDRESSES), ("layout", LAYOUTS)):
            if getattr(self, name) not in allowed:
                raise ConfigError(unknown(name, getattr(self, name), allowed))
        if self.normalized not in (False, True):
            raise ConfigError(f"normalized={self.normalized!r}: must be true or false")


@dataclass(frozen=True, slots=True, eq=False)
class Texture:
    """A texture: its texels as (depth, height, width, components), and the `content` of its device memory."""

    texels: NDArray[Any]
    content: NDArray[Any]
    options: TextureOptions
    block: int

    @property
    def bytes_of_row(self) -> int:
        """Bytes of the texels of a row."""
        return int(self.texels.shape[2] * self.texels.shape[3] * self.texels.itemsize)

    def row(self, handle: int, base: int) -> tuple[int, ...]:
        """Return the row of the table of textures for a texture in device memory at `base`."""
        depth, height, width, components = self.texels.shape
        return texture_row(
            handle, base, (width, height, depth), components, self.texels.itemsize,
            KINDS[_KINDS[self.texels.dtype.kind]], self.block, self.bytes_of_row, self.content.nbytes // depth,
            normalised=self.options.normalized, linear=self.options.filter == "linear",
            address=ADDRESSES[self.options.address],
        )  # fmt: skip

    def update(self, array: NDArray[Any]) -> None:
        """Write the texels in device memory to the array that the texture was made from."""
        if self.block:
            places = block_places(self.bytes_of_row, self.texels.shape[1], self.block)
            slices = self.content.view(np.uint8).reshape(self.texels.shape[0], -1)
            array[...] = slices[:, places].ravel().view(array.dtype).reshape(array.shape)


def make_texture(
    name: str, array: NDArray[Any], axes: Collection[int], options: TextureOptions, content: NDArray[Any] | None = None
) -> Texture:
    """Return the texture of an array for a kernel that accesses textures with these numbers of `axes`.

    A last axis of 1, 2 or 4 beyond them holds the components of a texel. `content` is device memory that has the array
    already, one row after the other. Raises `ConfigError` for another shape or for elements that no texture has.
    """
    if array.dtype.kind not in _KINDS or array.itemsize > 8 or (array.dtype.kind == "f" and array.itemsize > 4):
        raise ConfigError(
            f"texture {name}: is an array of {array.dtype}, must be one of whole numbers, float or half "
            "(programs read a double as int2)"
        )
    shape: tuple[int, ...]
    if array.ndim in axes:
        shape = (*array.shape, 1)
    elif array.ndim - 1 in axes and array.shape[-1] in (1, 2, 4):
        shape = array.shape
    elif set(axes) == {1}:
        shape = (array.size, 1)
    else:
        wanted = " or ".join(map(str, sorted(axes)))
        raise ConfigError(
            f"texture {name}: has shape {shape_text(array.shape)}, must have {wanted} dimensions (and perhaps one more "
            "of 2 or 4 components)"
        )
    texels = array.reshape((1,) * (4 - len(shape)) + shape)
    if options.layout != "block" or len(shape) == 2:
        return Texture(texels, array if content is None else content, options, 0)
    depth, height, width, components = texels.shape
    row_bytes = width * components * array.itemsize
    block = block_height(height)
    slice_bytes = block_bytes(row_bytes, height, block)
    if depth * slice_bytes > _MAX_TEXTURE_BYTES:
        raise ConfigError(f"texture {name}: has {depth * slice_bytes} bytes in memory, must have at most 2^32")
    laid_out = np.zeros((depth, slice_bytes), np.uint8)
    places = block_places(row_bytes, height, block)
    laid_out[:, places] = np.ascontiguousarray(texels).view(np.uint8).reshape(depth, height, row_bytes)
    return Texture(texels, laid_out.reshape(-1), options, block)


def block_height(height: int) -> int:
    """Return the pieces of 8 rows that lie on top of each other: as few as hold the texture, at most 16."""
    block = 1
    while block < _MAX_BLOCK and block * _PIECE_ROWS < height:
        block *= 2
    return block


def block_bytes(row_bytes: int, height: int, block: int) -> int:
    """Return the bytes of a slice in the layout of blocks."""
    return -(-row_bytes // _PIECE_BYTES) * -(-height // (_PIECE_ROWS * block)) * block * 512


def block_places(row_bytes: int, height: int, block: int) -> NDArray[np.int64]:
    """Return the offset of every byte of a slice in the layout of blocks, as (height, row_bytes)."""
    x, y = np.arange(row_bytes, dtype=np.int64)[None, :], np.arange(height, dtype=np.int64)[:, None]
    columns = -(-row_bytes // _PIECE_BYTES)
    pieces = (y // _PIECE_ROWS // block * columns + x // _PIECE_BYTES) * block + y // _PIECE_ROWS % block
    inside = x % 64 // 32 * 256 + y % 8 // 2 * 64 + x % 32 // 16 * 32 + y % 2 * 16 + x % 16
    return pieces * 512 + inside


def texture_row(
    handle: int,
    base: int,
    extent: tuple[int, int, int],
    components: int,
    bytes: int,
    kind: int,
    block: int,
    pitch: int,
    slice: int,
    *,
    normalised: bool,
    linear: bool,
    address: int,
) -> tuple[int, ...]:
    """Return a row of the table of textures, in the order of `TEXTURE_FIELDS`; `pitch` is the bytes of a row."""
    columns = -(-pitch // _PIECE_BYTES) if block else pitch
    return (
        handle, base, *extent, components, bytes, kind, block, columns, slice, int(normalised), int(linear), address,
    )  # fmt: skip


class TextureTable:
    """The textures that kernels can read: `rows` by handle; `has_blocks` tells whether one lies in blocks."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, ...]] = {}
        self.has_blocks = False

    def add(self, row: tuple[int, ...]) -> None:
        """Add a texture, or change the one with the same handle."""
        self.rows[row[0]] = row
        self.has_blocks |= bool(row[TEXTURE_FIELDS.index("block")])

    def table(self) -> NDArray[np.int64]:
        """Return the rows as a table of `TEXTURE_FIELDS`; without any, one row with a handle that no kernel has."""
        return np.array([*self.rows.values()] or [(-1, *(0 for _ in TEXTURE_FIELDS[1:]))], dtype=np.int64)
