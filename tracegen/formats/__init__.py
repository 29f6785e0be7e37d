"""Traces in files: the native form and those of other tools, recognised by content, then by extension."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rdmodel import storage
from rdmodel.errors import TraceError, unknown
from rdmodel.trace import Trace
from tracegen.formats import trc
from tracegen.formats.recorded import RecordedTrace, Skipped

__all__ = ["FORMATS", "Format", "RecordedTrace", "Skipped", "read", "recognise", "write"]

_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A file format: how it is told (first bytes, extension), its reader, and its writer if it has one.

    ``read(path, lenient)`` returns a trace; ``write(trace, path, overwrite)`` what the format could not hold,
    one line of text each.
    """

    name: str
    extension: str
    starts: Callable[[bytes], bool]
    read: Callable[[Path, bool], Trace]
    write: Callable[[Trace, Path, bool], tuple[str, ...]] | None = None


def _read_native(path: Path, lenient: bool) -> Trace:
    return storage.load(path)


def _write_native(trace: Trace, path: Path, overwrite: bool) -> tuple[str, ...]:
    storage.save(trace, path, overwrite=overwrite)
    return ()


NATIVE = Format(
    name="native",
    extension="",
    starts=lambda head: False,
    read=_read_native,
    write=_write_native,
)
TRC = Format(
    name="trc",
    extension=".trc",
    starts=lambda head: head.startswith(trc.MAGIC),
    read=lambda path, lenient: trc.read_trc(path, lenient=lenient),
    write=lambda trace, path, overwrite: trc.write_trc(trace, path, overwrite=overwrite),
)
FORMATS: dict[str, Format] = {form.name: form for form in (NATIVE, TRC)}
"""Every format by name; `native` is the folder of `rdmodel.storage`."""


def read(path: str | os.PathLike[str], *, format: str | None = None, lenient: bool = False) -> Trace:
    """Return the trace in a file or folder of the given or recognised format.

    `lenient` leaves out bad lines of other tools' files and accounts for them in ``RecordedTrace.skipped``.
    Raises `TraceError` if the format is unknown, or the content malformed.
    """
    chosen = recognise(path) if format is None else _named(format)
    return chosen.read(Path(path), lenient)


def write(
    trace: Trace, path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False
) -> tuple[str, ...]:
    """Write a trace in the given format, or that of the extension, or the native one.

    Returns what the format could not hold, one line of text each. Raises `TraceError` if the format cannot be
    written or `path` exists and may not be replaced.
    """
    by_extension = {form.extension: form for form in FORMATS.values()}
    chosen = by_extension.get(Path(path).suffix.lower(), NATIVE) if format is None else _named(format)
    if chosen.write is None:
        raise TraceError(f"{path}: the format {chosen.name!r} can be read but not written")
    return chosen.write(trace, Path(path), overwrite)


def recognise(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file or folder by its first bytes, else its extension; raise `TraceError`."""
    where = Path(path)
    if where.is_dir():
        if (where / storage.META).exists():
            return NATIVE
        raise TraceError(f"{path}: a folder without {storage.META} is not a trace")
    try:
        with where.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    for form in FORMATS.values():
        if form.starts(head):
            return form
    for form in FORMATS.values():
        if form.extension and form.extension == where.suffix.lower():
            return form
    raise TraceError(f"{path}: not a trace of a known format ({', '.join(FORMATS)})")


def _named(name: str) -> Format:
    try:
        return FORMATS[name]
    except KeyError:
        raise TraceError(unknown("trace format", name, FORMATS)) from None
