"""Open files as streams of bytes, and decompress them (gzip, xz, zstd) if their first bytes say so.

Memory holds only a buffer, whatever the uncompressed size is. A file of many streams that are nearly all empty is
refused, since it takes much time. A window of more than 256 MiB (xz) or 128 MiB (zstd) is
refused. Damaged and truncated files raise `TraceError`.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import TraceError
from tracegen.formats.names import COMPRESSED_EXTENSIONS

Text = bytes | bytearray
"""A piece of a file. A zero byte follows it in memory."""

CHUNK_BYTES = 1 << 20
"""Bytes of text that readers of lines work on at a time."""

_FIRST_CHUNK_BYTES = 1 << 16
"""Bytes of the first of these pieces, of which each is twice as long as the one before: many files are small."""

STDIN = Path("stdin")
"""This very object, not an equal one, stands for standard input where a reader takes the path of a file."""

_STREAM_BUFFER_BYTES = 1 << 16
"""Bytes that a stream reads ahead; longer reads go past its buffer to their place."""

_DECOMPRESSED_BYTES = 1 << 20
"""Bytes that are decompressed at a time, at most."""

_XZ_MEMORY_BYTES = 256 << 20
_ZSTD_WINDOW_LOG = 27
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_COMPRESSED_READ_BYTES = 1 << 16
_FIRST_PIECE_BYTES = 1 << 7
_MAX_TINY_STREAMS = 10_000
_MIN_STREAM_CONTENT_BYTES = 16
"""Bounds on streams with hardly any content: a decoder for each of them takes time."""

_NONZERO = re.compile(rb"[^\0]")


def open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, or `STDIN`, for reading, decompressed if it is compressed; the caller closes it.

    This function and every read raise `TraceError` with the file's name if it cannot be read, is damaged or ends
    early, or if it is compressed with zstd and the package for that is missing.
    """
    return io.BufferedReader(_CheckedStream(path), _STREAM_BUFFER_BYTES)


def first_bytes(path: str | os.PathLike[str], count: int) -> bytes:
    """Return up to `count` decompressed bytes from the start of a file; raise `TraceError` as `open_stream` does."""
    with open_stream(path) as stream:
        return stream.read(count)


def whole_lines(stream: BinaryIO, max_line_bytes: int, chunk_bytes: int | None = None) -> Iterator[bytearray]:
    """Yield the rest of a stream in pieces of up to `chunk_bytes` (default: `CHUNK_BYTES`) that end with a newline.

    A piece is valid until the next one, which takes its memory. Only the last piece, which is a single line, may lack
    its newline (`is_cut`). A line of more than `max_line_bytes` may be cut, but keeps more than `max_line_bytes`:
    memory is bounded, and a parser still sees that the line is too long.
    """
    most = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    chunk = min(most, _FIRST_CHUNK_BYTES)
    text = bytearray()
    tail = b""  # the beginning of a line
    while True:
        # Only what was cut off from the last piece is filled with zeros, and the stream writes to its place directly.
        text += bytes(max(len(tail) + chunk - len(text), 0))
        text[: len(tail)] = tail
        with memoryview(text) as memory, memory[len(tail) : len(tail) + chunk] as place:
            read = stream.readinto(place)  # type: ignore[attr-defined]
        filled = len(tail) + read
        end = text.rfind(b"\n", len(tail), filled) + 1
        if not read:
            del text[filled:]
            if text:
                yield text
            return
        tail = bytes(text[end : min(filled, end + max_line_bytes + 1)])
        if end:
            del text[end:]
            yield text
        chunk = min(2 * chunk, most)


def is_cut(text: Text) -> bool:
    """Tell whether a piece of `whole_lines` is a last line without a newline, unless it is blank.

    Part of its last word may be missing: another number would be read. Tools that write lines end the last one, too.
    """
    return not text.endswith(b"\n") and not text.isspace()


def line_end(text: Text, position: int) -> int:
    """Return the position of the next newline, or the length of the text if there is none."""
    end = text.find(b"\n", position)
    return len(text) if end < 0 else end


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Tell by its first bytes whether a file is compressed; raise `TraceError` as `open_stream` does."""
    with _CheckedStream(path) as file:
        return file.compressed


def kernel_name(path: str | os.PathLike[str]) -> str:
    """Return the default name of the kernel in a file: the file's name without its extensions."""
    return Path(uncompressed_name(path)).stem


def uncompressed_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its folder and without the extension of a compressed file."""
    name = Path(path)
    return name.stem if name.suffix.lower() in COMPRESSED_EXTENSIONS else name.name


# ---- Compression


class _CheckedStream(io.RawIOBase):
    """The decompressed bytes of a file; every failure becomes a `TraceError` that names the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        self._failures: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError)
        self._source: Any = None
        self._file = file = _StandardInput() if path is STDIN else open_regular_file(self._name)
        try:
            self._source = self._decompressed(file)
        except BaseException:
            file.close()
            raise

    def _decompressed(self, file: Any) -> Any:
        try:
            head = file.read(6)
            file.seek(0)
        except OSError as error:
            raise TraceError(f"{self._name}: cannot be read: {error.strerror or error}") from None
        if head.startswith(b"\x1f\x8b"):
            return _DecompressedStreams(file, _GzipDecoder)
        if head == b"\xfd7zXZ\x00":
            return _DecompressedStreams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))
        if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[:1] >= b"\x50"):
            return _DecompressedStreams(file, self._zstd())
        return file

    def _zstd(self) -> Callable[[], Any]:
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            try:
                from backports import zstd
            except ImportError:
                raise TraceError(
                    f"{self._name}: is compressed with zstd; reading it needs: pip install 'rdmodel[zstd]'"
                ) from None
        self._failures += (zstd.ZstdError,)
        options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        return lambda: zstd.ZstdDecompressor(options=options)

    @property
    def compressed(self) -> bool:
        """Whether the file is compressed."""
        return self._source is not self._file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._source is self._file:
                return self._file.readinto(buffer)  # type: ignore[no-any-return]
            data = self._source.read(min(len(buffer), _DECOMPRESSED_BYTES))
        except self._failures as error:
            why = "is damaged or ends early" if self.compressed else "cannot be read"
            raise TraceError(f"{self._name}: {why}: {getattr(error, 'strerror', None) or error}") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _StandardInput:
    """Standard input, which can go back to its start while only its first bytes have been read."""

    def __init__(self) -> None:
        if sys.stdin is None or sys.stdin.closed:
            raise TraceError(f"{STDIN}: is closed")
        self._source = sys.stdin.buffer
        self._first: bytes | None = None
        self._again = b""

    def read(self, count: int) -> bytes:
        if not self._again:
            data = self._source.read(count)
            self._first = data if self._first is None else b""
            return data
        data, self._again = self._again[:count], self._again[count:]
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, position: int) -> None:
        assert position == 0
        self._again = self._first or b""

    def close(self) -> None:
        """Leave standard input open: it belongs to the process."""


class _DecompressedStreams:
    """One or more gzip, xz or zstd streams in a file, decompressed in bounded pieces.

    A new stream gets little input at first, because it may be tiny, and what it does not use is copied.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file = file
        self._new = new
        self._decoder: Any = new()
        self._input = b""
        self._at = 0  # first byte of the input that no decoder has got
        self._piece_bytes = _FIRST_PIECE_BYTES
        self._streams = 1
        self._content_bytes = 0

    def read(self, count: int) -> bytes:
        while True:
            if self._decoder.eof and not self._next_stream():
                return b""
            piece = self._next_piece() if self._decoder.needs_input else b""
            if data := self._decoder.decompress(piece, count):
                self._content_bytes += len(data)
                return bytes(data)

    def _fill(self) -> bool:
        """Read more input if there is none left; return False at the end of the file."""
        if self._at == len(self._input):
            self._input, self._at = self._file.read(_COMPRESSED_READ_BYTES), 0
        return bool(self._input)

    def _next_piece(self) -> bytes:
        if not self._fill():
            raise EOFError("the compressed data is cut off")
        piece = self._input[self._at : self._at + self._piece_bytes]
        self._at += len(piece)
        self._piece_bytes = min(2 * self._piece_bytes, _COMPRESSED_READ_BYTES)
        return piece

    def _next_stream(self) -> bool:
        # A stream may be followed by zero bytes (padding of xz), by another stream, or by damage, which raises.
        self._at -= len(self._decoder.unused_data)
        while (start := _NONZERO.search(self._input, self._at)) is None:
            self._at = len(self._input)
            if not self._fill():
                return False
        self._streams += 1
        if self._streams > _MAX_TINY_STREAMS + self._content_bytes // _MIN_STREAM_CONTENT_BYTES:
            raise EOFError(f"there are {self._streams} streams in it with hardly any content")
        self._at = start.start()
        self._decoder, self._piece_bytes = self._new(), _FIRST_PIECE_BYTES
        return True


class _GzipDecoder:
    """A decompressor of one gzip stream with the interface of those of xz and zstd."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(_GZIP_WINDOW_BITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        left = self._decoder.unconsumed_tail
        result = self._decoder.decompress(left + data if left else data, max_length)
        self.needs_input = not self._decoder.unconsumed_tail and len(result) < max_length
        return result
