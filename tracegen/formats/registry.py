"""List the formats of trace files, and read, write and recognise files of all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError, unknown
from rdmodel.trace import Trace, storage
from rdmodel.trace.replacement import recover
from tracegen.formats import accelsim, accelsim_writer, nvbit, parquet, parquet_columns, plain, ppt, trc
from tracegen.formats.compressed import STDIN, first_bytes, uncompressed_name
from tracegen.formats.launch_entries import LaunchChoice, LaunchEntry
from tracegen.formats.names import COMPRESSED_EXTENSIONS, EXTENSIONS, STDIN_NAME
from tracegen.formats.ordering.gathering import SORT_MEMORY_BYTES
from tracegen.formats.recorded_trace import Reading

_RECOGNITION_BYTES = 1 << 20
"""Bytes at the start of a file by which its format is recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A trace format: its name, how to recognise its files, and its reader and writer.

    Parameters
    ----------
    name, extension : str
        Name of the format, and the extension of its files; empty if no extension stands for the format.
    read : callable
        ``read(path, reading)`` returns a trace. `reading` has no options set but those in `takes`.
    starts : callable
        ``starts(head)`` recognises a file by its first bytes, decompressed.
    folder : callable
        ``folder(path)`` recognises a folder by its content.
    takes : frozenset of str
        Names of the fields of `Reading` that the reader supports.
    memory : int
        Bytes of memory that reading a file takes at most, apart from decompression.
    streams : bool
        Whether the reader takes `tracegen.formats.compressed.STDIN`, since it reads a file once, from start to end.
    launches : callable, optional
        ``launches(path, reading)`` yields the launches of a file; None if a file holds one launch.
    write : callable, optional
        ``write(trace, path, overwrite)`` writes a trace, and returns one line of text for each kind of content that
        the format cannot hold; None if the format can only be read.
    """

    name: str
    extension: str
    read: Callable[[Path, Reading], Trace]
    starts: Callable[[bytes], bool] = lambda head: False
    folder: Callable[[Path], bool] = lambda path: False
    takes: frozenset[str] = frozenset()
    memory: int = SORT_MEMORY_BYTES + (24 << 20)
    streams: bool = False
    launches: Callable[[Path, Reading], Iterator[LaunchEntry]] | None = None
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
    extension=EXTENSIONS["trc"],
    read=lambda path, reading: trc.read_trc(path, lenient=reading.lenient),
    starts=lambda head: head.startswith(trc.TRC_MAGIC),
    takes=frozenset({"lenient"}),
    streams=True,
    write=lambda trace, path, overwrite: trc.write_trc(trace, path, overwrite=overwrite),
)
ACCELSIM = Format(
    name="accelsim",
    extension=EXTENSIONS["accelsim"],
    read=lambda path, reading: accelsim.read_accelsim(path, lenient=reading.lenient, kernel=reading.kernel),
    starts=accelsim.is_traceg,
    folder=accelsim.is_accelsim_folder,
    takes=frozenset({"lenient", "kernel"}),
    launches=lambda path, reading: accelsim.list_accelsim(path),
    write=lambda trace, path, overwrite: accelsim_writer.write_accelsim(trace, path, overwrite=overwrite),
)
KERNELSLIST = Format(
    name="kernelslist",
    extension=EXTENSIONS["kernelslist"],
    read=ACCELSIM.read,
    starts=accelsim.is_kernels_list,
    takes=ACCELSIM.takes,
    launches=ACCELSIM.launches,
    write=ACCELSIM.write,
)
NVBIT = Format(
    name="nvbit",
    extension=EXTENSIONS["nvbit"],
    read=lambda path, reading: nvbit.read_nvbit(path, kernel=reading.kernel, lenient=reading.lenient),
    starts=nvbit.is_nvbit,
    takes=frozenset({"lenient", "kernel"}),
    streams=True,
    launches=lambda path, reading: nvbit.list_nvbit(path),
)
PPT = Format(
    name="ppt",
    extension=EXTENSIONS["ppt"],
    read=lambda path, reading: ppt.read_ppt(path, kernel=reading.kernel, block=reading.block, lenient=reading.lenient),
    starts=ppt.is_ppt,
    folder=ppt.is_ppt_folder,
    takes=frozenset({"lenient", "kernel", "block"}),
    launches=lambda path, reading: ppt.list_ppt(path, block=reading.block),
)
PARQUET = Format(
    name="parquet",
    extension=EXTENSIONS["parquet"],
    read=lambda path, reading: parquet.read_parquet(path),
    starts=lambda head: head.startswith(parquet.PARQUET_MAGIC),
    memory=2 * parquet_columns.COLUMN_MEMORY_BYTES + (64 << 20),
    write=_write_parquet,
)


def _read_plain(path: Path, reading: Reading, *, form: str) -> Trace:
    return plain.read_plain(path, form, block=reading.block, grid=reading.grid, lenient=reading.lenient)


PLAIN = tuple(
    Format(
        name=name,
        extension="",
        read=partial(_read_plain, form=name),
        starts=plain.is_lackey if name == "lackey" else lambda head: False,
        takes=frozenset({"lenient", "block", "grid"}),
        streams=True,
    )
    for name in plain.PLAIN_FORMATS
)
FORMATS: dict[str, Format] = {
    trace_format.name: trace_format
    for trace_format in (
        NATIVE,
        PARQUET,
        TRC,
        ACCELSIM,
        KERNELSLIST,
        NVBIT,
        PPT,
        *PLAIN,
    )
}
"""All formats by name; `native` is the folder of `rdmodel.trace.storage`."""


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    lenient: bool = False,
    kernel: str | int | None = None,
    block: tuple[int, int, int] | None = None,
    grid: tuple[int, int, int] | None = None,
) -> Trace:
    """Read the trace in a file or folder.

    Parameters
    ----------
    path : path
        The file or folder. The text "-" stands for standard input, whose format must be named.
    format : str, optional
        A name in `FORMATS`; by default the format is recognised (`recognise`).
    lenient : bool
        Leave out bad lines of other tools' files; ``RecordedTrace.skipped`` accounts for them.
    kernel : str or int, optional
        Number of the launch, or pattern of its name (``*gemm*``), if the file holds several.
    block, grid : tuple of int, optional
        Shape of a block and of the grid (x, y, z), for formats that do not contain them.

    Returns
    -------
    Trace
        The trace; a `RecordedTrace` if another tool wrote the file.

    Raises
    ------
    TraceError
        If the format is unknown or does not take an option that is set, or if the content is malformed.
    """
    chosen = recognise(path) if format is None else _named(format)
    for option, value in (("kernel", kernel), ("block", block), ("grid", grid)):
        if value is not None and option not in chosen.takes:
            raise TraceError(f"{path}: the format {chosen.name!r} takes no option {option}")
    if path == STDIN_NAME and not chosen.streams:
        raise TraceError(f"{path}: the format {chosen.name!r} cannot be read from standard input; name a file")
    where = STDIN if path == STDIN_NAME else Path(path)
    return chosen.read(where, Reading(lenient=lenient, kernel=kernel, block=block, grid=grid))


def launches(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    kernel: str | int | None = None,
    block: tuple[int, int, int] | None = None,
) -> tuple[LaunchEntry, ...]:
    """List the launches in a file or folder of another tool without reading their accesses.

    Parameters
    ----------
    path : path
        The file or folder.
    format : str, optional
        A name in `FORMATS`; by default the format is recognised (`recognise`).
    kernel : str or int, optional
        Number of a launch or pattern of a name; only launches that match are listed.
    block : tuple of int, optional
        Shape of a block (x, y, z), for formats that do not contain it.

    Returns
    -------
    tuple of LaunchEntry
        The launches in the order of the file.

    Raises
    ------
    TraceError
        For a format whose files hold one launch, for malformed content, and if `kernel` matches no launch.
    """
    chosen = recognise(path) if format is None else _named(format)
    if chosen.launches is None:
        raise TraceError(f"{path}: a trace of the format {chosen.name!r} is one launch")
    if block is not None and "block" not in chosen.takes:
        raise TraceError(f"{path}: the format {chosen.name!r} takes no option block")
    listed = tuple(chosen.launches(Path(path), Reading(block=block)))
    choice = LaunchChoice(os.fspath(path), kernel)
    matching = tuple(entry for entry in listed if choice.accepts(entry.number, entry.launch.kernel))
    if not matching:
        raise choice.no_match_error([(entry.number, entry.launch.kernel) for entry in listed])
    return matching


def write(
    trace: Trace, path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False
) -> tuple[str, ...]:
    """Write a trace; by default in the format of the extension, or else in the native one.

    Parameters
    ----------
    trace : Trace
        The trace.
    path : path
        The file or folder to write.
    format : str, optional
        A name in `FORMATS`.
    overwrite : bool
        Replace an existing file or folder.

    Returns
    -------
    tuple of str
        One line of text for each kind of content that the format cannot hold.

    Raises
    ------
    TraceError
        If the format cannot be written, or if `path` exists and `overwrite` is not set.
    """
    chosen = by_extension(path) if format is None else _named(format)
    if chosen.write is None:
        raise TraceError(f"{path}: the format {chosen.name!r} can be read but not written")
    return chosen.write(trace, Path(path), overwrite)


def recognise(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file or folder by its content, else its extension; raise `TraceError`."""
    if path == STDIN_NAME:
        names = "|".join(name for name, trace_format in FORMATS.items() if trace_format.streams)
        raise TraceError(f"{path}: standard input needs the name of its format: --input-format {names}")
    where = Path(path)
    recover(where)
    if where.is_dir():
        for trace_format in FORMATS.values():
            if trace_format.folder(where):
                return trace_format
        raise TraceError(f"{path}: a folder without {storage.META} or the files of another tool is not a trace")
    head = first_bytes(where, _RECOGNITION_BYTES)
    if not head:
        raise TraceError(f"{path}: is empty")
    for trace_format in FORMATS.values():
        if trace_format.starts(head):
            return trace_format
    extension = extension_of(where)
    for trace_format in FORMATS.values():
        if trace_format.extension and trace_format.extension == extension:
            return trace_format
    known = ", ".join(name for name in FORMATS if name not in plain.PLAIN_FORMATS)
    advice = f"lines of plain text need --input-format {'|'.join(plain.PLAIN_FORMATS)}"
    raise TraceError(f"{path}: not a trace of a known format ({known}); {advice}")


def by_extension(path: str | os.PathLike[str]) -> Format:
    """Return the format for writing a file of this name: that of its extension, or the native one.

    Raises `TraceError` for the extension of a compressed file, which can only be read.
    """
    if Path(path).suffix.lower() in COMPRESSED_EXTENSIONS:
        raise TraceError(f"{path}: compressed files cannot be written; write {uncompressed_name(path)} and compress it")
    extensions = {trace_format.extension: trace_format for trace_format in FORMATS.values() if trace_format.extension}
    return extensions.get(Path(path).suffix.lower(), NATIVE)


def extension_of(path: Path) -> str:
    """Return the extension of a file in lower case; of ``x.trc.gz``, this is ``.trc``."""
    return Path(uncompressed_name(path)).suffix.lower()


def _named(name: str) -> Format:
    try:
        return FORMATS[name]
    except KeyError:
        raise TraceError(unknown("trace format", name, FORMATS)) from None
