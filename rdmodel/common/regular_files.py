"""Open and read files that users name, and refuse pipes, devices and files that are larger than expected."""

from __future__ import annotations

import codecs
import os
import stat
from typing import BinaryIO

from rdmodel.errors import RdmodelError, TraceError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_PIECE_BYTES = 1 << 20

# Without O_NONBLOCK, opening a pipe waits until another process writes to it. Windows has none of the first three.
_OPEN_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag, 0)


def open_regular_file(path: str | os.PathLike[str], error: type[RdmodelError] = TraceError) -> BinaryIO:
    """Open a regular file, or a link to one, for reading in binary; the caller closes it.

    Raises `error` for a missing or unreadable file, and at once for a folder, a pipe, a device or a socket: reading
    these may never end.
    """
    name = os.fspath(path)
    try:
        _check_regular(name, os.stat(name).st_mode, error)  # opening a device may already have an effect
        descriptor = os.open(name, _OPEN_FLAGS)
    except OSError as failure:
        raise error(f"{name}: {failure.strerror or failure}") from None
    except UnicodeError:
        raise error(f"{name}: is no file name in this system's encoding") from None
    except ValueError as failure:
        if isinstance(failure, RdmodelError):
            raise
        raise error(f"{name}: must be a file name without a null character") from None
    try:
        _check_regular(name, os.fstat(descriptor).st_mode, error)  # another file may have taken the name
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bounded_bytes(path: str | os.PathLike[str], most_bytes: int, error: type[RdmodelError] = TraceError) -> bytes:
    """Return the bytes of a regular file of at most `most_bytes` bytes.

    Raises `error` as `open_regular_file` does, for a larger file, and for one that cannot be read. At most
    `most_bytes` + 1 bytes are read, whatever size the file system reports.
    """
    with open_regular_file(path, error) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            content = _read_at_most(file, most_bytes + 1) if size <= most_bytes else b""
        except OSError as failure:
            raise error(f"{os.fspath(path)}: {failure.strerror or failure}") from None
    if max(size, len(content)) > most_bytes:
        shown = str(size) if size > most_bytes else f"more than {most_bytes}"
        raise error(f"{os.fspath(path)}: has {shown} bytes, must be at most {most_bytes}")
    return content


def read_bounded_text(path: str | os.PathLike[str], most_bytes: int, error: type[RdmodelError] = TraceError) -> str:
    """Return the UTF-8 text of a regular file of at most `most_bytes` bytes, without its byte order mark.

    Raises `error` as `read_bounded_bytes` does, and for a file that is no text in UTF-8, with the line.
    """
    content = read_bounded_bytes(path, most_bytes, error).removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise error(f"{os.fspath(path)}:{line}: is no text in UTF-8: has byte {content[failure.start]:#04x}") from None


def _read_at_most(file: BinaryIO, most: int) -> bytes:
    """Return the first `most` bytes of a file; a single read would allocate all of them for a short file, too."""
    content = bytearray()
    while len(content) < most and (piece := file.read(min(_PIECE_BYTES, most - len(content)))):
        content += piece
    return bytes(content)


def _check_regular(name: str, mode: int, error: type[RdmodelError]) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no file of bytes")
        raise error(f"{name}: is {kind}, must be a regular file")
