"""Traces in files: the native form and those of other tools, recognised by content, then by extension.

Compressed files (gzip, xz, zstd) are read as what they hold, by every reader.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmodel.errors import TraceError, unknown
from rdmodel.trace import Trace, storage
from tracegen.formats import accelsim, accelsim_writer, nvbit, parquet, parquet_columns, ppt, trc
from tracegen.formats.compressed import PACKED, first_bytes, unpacked_name
from tracegen.formats.launches import Choice, Listed
from tracegen.formats.ordering.gathering import MEMORY
from tracegen.formats.recorded_trace import Reading, RecordedTrace, Skipped

__all__ = [
    "FORMATS",
    "Format",
    "Listed",
    "Reading",
    "RecordedTrace",
    "Skipped",
    "by_extension",
    "launches",
    "read",
    "recognise",
    "write",
]

_HEAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: how a file or folder of it is told, its reader, and its writer if it has one.

    ``starts(head)`` tells a file by its first bytes, unpacked; ``folder(path)`` a folder by what is in it; then
    `extension` does. ``read(path, reading)`` returns a trace and may rely on `reading` having no options set but
    those in `takes`; ``write(trace, path, overwrite)`` returns what the format could not hold, one line of
    text each. ``launches(path, reading)`` yields the launches of a file, if it may hold several. Reading a file takes
    up to `memory` bytes, and what unpacking it takes.
    """

    name: str
    extension: str
    read: Callable[[Path, Reading], Trace]
    starts: Callable[[bytes], bool] = lambda head: False
    folder: Callable[[Path], bool] = lambda path: False
    takes: frozenset[str] = frozenset()
    memory: int = MEMORY + (24 << 20)
    launches: Callable[[Path, Reading], Iterator[Listed]] | None = None
    write: Callable[[Trace, Path, bool], tuple[str, ...]] | None = None


def _write_native(trace: Trace, path: Path, overwrite: bool) -> tuple[str, ...]:
    storage.save(trace, path, overwrite=overwrite)
    return ()


def _write_parquet(trace: Trace, path: Path, overwrite: bool) -> tuple[str, ...]:
    parquet.write_parquet(trace, path, overwrite=overwrite)
    return ()


NATIVE = Format(
    name="native",
    extension="",
    read=lambda path, reading: storage.load(path),
    folder=lambda path: (path / storage.META).exists(),
    memory=0,
    write=_write_native,
)
TRC = Format(
    name="trc",
    extension=".trc",
    read=lambda path, reading: trc.read_trc(path, lenient=reading.lenient),
    starts=lambda head: head.startswith(trc.MAGIC),
    takes=frozenset({"lenient"}),
    write=lambda trace, path, overwrite: trc.write_trc(trace, path, overwrite=overwrite),
)
ACCELSIM = Format(
    name="accelsim",
    extension=".traceg",
    read=lambda path, reading: accelsim.read_accelsim(path, lenient=reading.lenient, kernel=reading.kernel),
    starts=accelsim.is_trace,
    folder=accelsim.is_folder,
    takes=frozenset({"lenient", "kernel"}),
    launches=lambda path, reading: accelsim.list_accelsim(path),
    write=lambda trace, path, overwrite: accelsim_writer.write_accelsim(trace, path, overwrite=overwrite),
)
KERNELSLIST = Format(
    name="kernelslist",
    extension=".g",
    read=ACCELSIM.read,
    starts=accelsim.is_list,
    takes=ACCELSIM.takes,
    launches=ACCELSIM.launches,
    write=ACCELSIM.write,
)
NVBIT = Format(
    name="nvbit",
    extension=".memtrace",
    read=lambda path, reading: nvbit.read_nvbit(path, kernel=reading.kernel, lenient=reading.lenient),
    starts=nvbit.is_nvbit,
    takes=frozenset({"lenient", "kernel"}),
    launches=lambda path, reading: nvbit.list_nvbit(path),
)
PPT = Format(
    name="ppt",
    extension=".mem",
    read=lambda path, reading: ppt.read_ppt(path, kernel=reading.kernel, block=reading.block, lenient=reading.lenient),
    starts=ppt.is_ppt,
    folder=ppt.is_folder,
    takes=frozenset({"lenient", "kernel", "block"}),
    launches=lambda path, reading: ppt.list_ppt(path, block=reading.block),
)
PARQUET = Format(
    name="parquet",
    extension=".parquet",
    read=lambda path, reading: parquet.read_parquet(path),
    starts=lambda head: head.startswith(parquet.MAGIC),
    memory=2 * parquet_columns.MEMORY + (64 << 20),
    write=_write_parquet,
)
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        NATIVE,
        PARQUET,
        TRC,
        ACCELSIM,
        KERNELSLIST,
        NVBIT,
        PPT,
    )
}
"""Every format by name; `native` is the folder of `rdmodel.trace.storage`."""


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    lenient: bool = False,
    kernel: str | None = None,
    block: tuple[int, int, int] | None = None,
) -> Trace:
    """Return the trace in a file or folder of the given or recognised format.

    `lenient` leaves out bad lines of other tools' files and accounts for them in ``RecordedTrace.skipped``.
    `kernel` picks one of several launches, by its number or by a pattern of its name (``*gemm*``); `block`
    says the block's shape where the format does not. Raises `TraceError` if the format is unknown, takes no
    such option, or the content is malformed.
    """
    chosen = recognise(path) if format is None else _named(format)
    for option, value in (("kernel", kernel), ("block", block)):
        if value is not None and option not in chosen.takes:
            raise TraceError(f"{path}: the format {chosen.name!r} takes no option {option}")
    return chosen.read(Path(path), Reading(lenient=lenient, kernel=kernel, block=block))


def launches(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    kernel: str | None = None,
    block: tuple[int, int, int] | None = None,
) -> tuple[Listed, ...]:
    """Return the launches in a file or folder of another tool, in its order, without reading what they access.

    `format`, `kernel` and `block` are those of `read`; `kernel` may match any number of launches. Raises `TraceError`
    for a format whose files hold one launch, for malformed content, and if `kernel` matches none.
    """
    chosen = recognise(path) if format is None else _named(format)
    if chosen.launches is None:
        raise TraceError(f"{path}: a trace of the format {chosen.name!r} is one launch")
    if block is not None and "block" not in chosen.takes:
        raise TraceError(f"{path}: the format {chosen.name!r} takes no option block")
    found = tuple(chosen.launches(Path(path), Reading(block=block)))
    choice = Choice(os.fspath(path), kernel)
    meant = tuple(one for one in found if choice.accepts(one.number, one.launch.kernel))
    if not meant:
        raise choice.none([(one.number, one.launch.kernel) for one in found])
    return meant


def write(
    trace: Trace, path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False
) -> tuple[str, ...]:
    """Write a trace in the given format, or that of the extension, or the native one.

    Returns what the format could not hold, one line of text each. Raises `TraceError` if the format cannot be
    written or `path` exists and may not be replaced.
    """
    chosen = by_extension(path) if format is None else _named(format)
    if chosen.write is None:
        raise TraceError(f"{path}: the format {chosen.name!r} can be read but not written")
    return chosen.write(trace, Path(path), overwrite)


def recognise(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file or folder by its content, else its extension; raise `TraceError`."""
    where = Path(path)
    if where.is_dir():
        for form in FORMATS.values():
            if form.folder(where):
                return form
        raise TraceError(f"{path}: a folder without {storage.META} or the files of another tool is not a trace")
    head = first_bytes(where, _HEAD_BYTES)
    if not head:
        raise TraceError(f"{path}: is empty")
    for form in FORMATS.values():
        if form.starts(head):
            return form
    extension = extension_of(where)
    for form in FORMATS.values():
        if form.extension and form.extension == extension:
            return form
    raise TraceError(f"{path}: not a trace of a known format ({', '.join(FORMATS)})")


def by_extension(path: str | os.PathLike[str]) -> Format:
    """Return the format that a file of this name is written in: that of its extension, or the native one.

    Raises `TraceError` for the extension of a compressed file: these are only read.
    """
    if Path(path).suffix.lower() in PACKED:
        raise TraceError(f"{path}: compressed files are read, not written; write {unpacked_name(path)} and pack it")
    extensions = {form.extension: form for form in FORMATS.values()}
    return extensions.get(Path(path).suffix.lower(), NATIVE)


def extension_of(path: Path) -> str:
    """Return the extension of a file, in lower case and without that of its compression."""
    return Path(unpacked_name(path)).suffix.lower()


def _named(name: str) -> Format:
    try:
        return FORMATS[name]
    except KeyError:
        raise TraceError(unknown("trace format", name, FORMATS)) from None
