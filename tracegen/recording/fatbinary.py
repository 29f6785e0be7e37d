"""Find the PTX in the images that programs load: fat binaries, PTX texts, and machine code, which has none.

A fat binary is a header (magic number, version, header bytes, bytes of all entries) and one entry per architecture,
each with a header of its own: kind, compute capability, flags and sizes. Entries are plain, or compressed as LZ4 blocks
or zstd frames. NVIDIA documents none of this; the layout was found in the output of nvcc 11 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError

MAGIC = 0xBA55ED50
"""First four bytes of a fat binary, as a number."""

PTX_KIND = 1
"""Kind of an entry with PTX; others hold machine code."""

LZ4, ZSTD = 0x2000, 0x8000
"""Flags of compressed entries."""

MAX_PTX_BYTES = 1 << 28
"""Largest PTX text in bytes."""

REBUILD = "rebuild the program with 'rdmodel nvcc', or with the option {} of nvcc"

_NO_PTX = "holds machine code and no PTX: " + REBUILD.format("-gencode arch=compute_75,code=compute_75")


class _WithoutPtxError(TraceError):
    """An image without PTX."""

    def __init__(self) -> None:
        super().__init__(_NO_PTX)


_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<H2xIQI8xI8xQ8xQ")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a fat binary: its kind, compute capability (75 is 7.5), flags, bytes, and uncompressed size."""

    kind: int
    capability: int
    flags: int
    data: bytes
    size: int


def find_ptx(image: bytes, capability: int) -> str:
    """Return the PTX text in an image for a device of a compute capability (75 is 7.5).

    Of several texts, it is the newest one that the device runs, or else the oldest. Raises `TraceError` for an image
    without PTX, for a damaged one, and for one that cannot be decompressed here; the message names the option of nvcc
    that helps.
    """
    if image[:4] == b"\x7fELF":
        raise _WithoutPtxError
    if image[:4] != MAGIC.to_bytes(4, "little"):
        return _decode(image)
    found = [entry for entry in entries(image) if entry.kind == PTX_KIND]
    if not found:
        raise _WithoutPtxError
    fitting = [entry for entry in found if entry.capability <= capability]
    chosen = max(fitting, key=lambda e: e.capability) if fitting else min(found, key=lambda e: e.capability)
    return _decode(_decompress(chosen))


def find_linked_ptx(images: bytes, capability: int) -> str:
    """Return the PTX of one image, or of fat binaries behind each other: the units of relocatable device code.

    The text of several units is that of `tracegen.ptx.syntax.linking`. Units without PTX, such as the device runtime,
    are left out if others have some. Raises `TraceError` as `find_ptx` does.
    """
    texts, at = [], 0
    while at < len(images):
        end = at + _HEADER.size
        whole = len(images)
        if images[at : at + 4] == MAGIC.to_bytes(4, "little") and end <= len(images):
            _, _, header, size = _HEADER.unpack_from(images, at)
            whole = at + header + size
        with suppress(_WithoutPtxError):
            texts.append(find_ptx(images[at:whole], capability))
        at = max(whole, end)
    if not texts:
        raise _WithoutPtxError
    return "\n".join(texts)


def entries(image: bytes) -> Iterator[Entry]:
    """Yield the entries of a fat binary; raises `TraceError` for a damaged one."""
    if len(image) < _HEADER.size:
        raise TraceError(f"fat binary: has {len(image)} bytes, needs a header of {_HEADER.size}")
    _, _, at, size = _HEADER.unpack_from(image)
    end = at + size
    if end > len(image):
        raise TraceError(f"fat binary: claims {end} bytes, has {len(image)}")
    while at < end:
        if end - at < _ENTRY.size:
            raise TraceError(f"fat binary: byte {at}: the header of an entry is cut off")
        kind, header, padded, compressed, capability, flags, plain = _ENTRY.unpack_from(image, at)
        packed = bool(flags & (LZ4 | ZSTD))
        length = compressed if packed else padded
        if header < _ENTRY.size or header + padded > end - at or length > padded:
            raise TraceError(f"fat binary: byte {at}: an entry of {header} and {padded} bytes does not fit")
        body = image[at + header : at + header + length]
        yield Entry(kind, capability, flags, body, plain if packed else length)
        at += header + padded


def _decompress(entry: Entry) -> bytes:
    if entry.size > MAX_PTX_BYTES:
        raise TraceError(f"fat binary: a PTX text of {entry.size} bytes, must be at most {MAX_PTX_BYTES}")
    if entry.flags & LZ4:
        return decompress_lz4(entry.data, entry.size)
    if entry.flags & ZSTD:
        return _decompress_zstd(entry)
    return entry.data


def decompress_lz4(data: bytes, size: int) -> bytes:
    """Return the `size` bytes in an LZ4 block; raises `TraceError` for a damaged one.

    A block is a series of literals and matches. A token holds the lengths of both, which more bytes of up to 255
    extend; a match repeats at least four bytes from some distance back in the output.
    """
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            token = data[at]
            at += 1
            literals = token >> 4
            if literals == 15:
                literals, at = _longer(data, at, literals)
            out += data[at : at + literals]
            at += literals
            if at >= len(data):
                break
            distance = data[at] | data[at + 1] << 8
            at += 2
            length = token & 15
            if length == 15:
                length, at = _longer(data, at, length)
            length += 4
            if not 0 < distance <= len(out) or len(out) + length > size:
                raise IndexError
            start = len(out) - distance
            piece = out[start : start + length]
            out += (piece * (length // distance + 1))[:length]  # a match may repeat its own beginning
    except IndexError:
        raise TraceError(f"fat binary: byte {at} of a compressed entry: is damaged") from None
    if len(out) != size:
        raise TraceError(f"fat binary: a compressed entry has {len(out)} bytes, must have {size}")
    return bytes(out)


def _longer(data: bytes, at: int, length: int) -> tuple[int, int]:
    while True:
        length += data[at]
        at += 1
        if data[at - 1] != 255:
            return length, at


def _decompress_zstd(entry: Entry) -> bytes:
    zstd = _zstd()
    try:
        decoder = zstd.ZstdDecompressor()
        text = bytes(decoder.decompress(entry.data, max_length=entry.size))
    except zstd.ZstdError as error:
        raise TraceError(f"fat binary: a compressed entry is damaged: {error}") from None
    if len(text) != entry.size:
        raise TraceError(f"fat binary: a compressed entry has {len(text)} bytes, must have {entry.size}")
    return text


def _zstd() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise TraceError(
                "holds PTX that is compressed with zstd: pip install 'rdmodel[zstd]', or "
                + REBUILD.format("--no-compress")
            ) from None
    return zstd


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace").rstrip("\0")
