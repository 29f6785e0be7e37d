"""Files as streams of bytes: compressed ones (gzip, xz, zstd; told by their first bytes) read as what they hold.

Nothing is ever held but a buffer, so a file that unpacks to terabytes costs no memory; xz and zstd files that
ask for a window of more than 256 and 128 MiB are refused. Damaged or truncated files are a `TraceError`.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rdmodel.errors import TraceError

CHUNK = 1 << 20
"""Bytes read at a time."""

PACKED = (".gz", ".xz", ".zst")
"""Extensions of compressed files; what they hold is told by their bytes."""

_XZ_MEMORY = 256 << 20
_ZSTD_WINDOW_LOG = 27
_PACKED = 1 << 16


def open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, unpacked if it is compressed; close it, or use it in a ``with``.

    This and every read raise `TraceError` with the file's name if it cannot be read, is damaged or ends early,
    or if it is packed with zstd and the package for that is missing.
    """
    return io.BufferedReader(_Guarded(os.fspath(path)), CHUNK)


def first_bytes(path: str | os.PathLike[str], count: int) -> bytes:
    """Return the first `count` bytes of a file, unpacked, or fewer if it ends; raise `TraceError` as `open_stream`."""
    with open_stream(path) as stream:
        return stream.read(count)


def whole_lines(stream: BinaryIO, longest: int, chunk: int = CHUNK) -> Iterator[bytes]:
    """Yield the rest of a stream in pieces of about `chunk` bytes that end with a line.

    Only the last piece may lack its newline. A line of more than `longest` bytes may be cut short, yet keeps
    more than `longest` of them, so memory is bounded and whoever checks lengths still sees that it is too long.
    """
    tail = b""
    while data := stream.read(chunk):
        data = tail + data
        end = data.rfind(b"\n") + 1
        tail = data[end : end + longest + 1] if len(data) - end > longest else data[end:]
        if end:
            yield data[:end]
    if tail:
        yield tail


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is compressed, by its first bytes; raise `TraceError` as `open_stream`."""
    with _Guarded(os.fspath(path)) as file:
        return file.packed


def kernel_name(path: str | os.PathLike[str]) -> str:
    """Return what a trace is called whose file does not say it: the file's name without its extensions."""
    return Path(unpacked_name(path)).stem


def unpacked_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its folder and without the extension of its compression."""
    name = Path(path)
    return name.stem if name.suffix.lower() in PACKED else name.name


# ---- Compression


class _Guarded(io.RawIOBase):
    """The bytes of a file, unpacked, with every way of failing turned into a `TraceError` that names the file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._failures: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError)
        self._source: Any = None
        try:
            file = open(name, "rb")  # noqa: SIM115 - it lives as long as this object
        except OSError as error:
            raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None
        self._file = file
        try:
            self._source = self._unpacked(file)
        except BaseException:
            file.close()
            raise

    def _unpacked(self, file: BinaryIO) -> Any:
        if not file.seekable():
            raise TraceError(
                f"{self._name}: is a pipe; a trace is read from a file, which may be packed: {', '.join(PACKED)}"
            )
        try:
            head = file.read(6)
            file.seek(0)
        except OSError as error:
            raise TraceError(f"{self._name}: cannot be read: {error.strerror or error}") from None
        if head.startswith(b"\x1f\x8b"):
            return gzip.GzipFile(fileobj=file)
        if head == b"\xfd7zXZ\x00":
            return _Unpacked(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY))
        if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[:1] >= b"\x50"):
            return _Unpacked(file, self._zstd())
        return file

    def _zstd(self) -> Callable[[], Any]:
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            try:
                from backports import zstd
            except ImportError:
                raise TraceError(
                    f"{self._name}: is packed with zstd; reading that needs: pip install 'rdmodel[zstd]'"
                ) from None
        self._failures += (zstd.ZstdError,)
        options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        return lambda: zstd.ZstdDecompressor(options=options)

    @property
    def packed(self) -> bool:
        """Whether the file is compressed."""
        return self._source is not self._file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._source is self._file:
                return self._file.readinto(buffer)  # type: ignore[no-any-return]
            data = self._source.read(min(len(buffer), CHUNK))
        except self._failures as error:
            why = "is damaged or ends early" if self.packed else "cannot be read"
            raise TraceError(f"{self._name}: {why}: {getattr(error, 'strerror', None) or error}") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Unpacked:
    """Streams of xz or zstd, one after another, unpacked a bounded piece at a time."""

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file = file
        self._new = new
        self._decoder: Any = new()

    def read(self, count: int) -> bytes:
        while True:
            if self._decoder.eof and not self._next_stream():
                return b""
            packed = self._file.read(_PACKED) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not packed:
                raise EOFError("the compressed data is cut off")
            if data := self._decoder.decompress(packed, count):
                return bytes(data)

    def _next_stream(self) -> bool:
        # What follows a stream may be zero bytes (xz pads with them), another stream, or damage, which it raises.
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest:
            if not (more := self._file.read(_PACKED)):
                return False
            rest = more.lstrip(b"\0")
        self._decoder = self._new()
        self._file.seek(-len(rest), os.SEEK_CUR)
        return True
