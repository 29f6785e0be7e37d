"""Save and load traces in the native format: a folder with one raw ``.npy`` file per column and ``meta.json``.

Columns are little-endian, one-dimensional and named as in `rdmodel.trace.Columns`; ``blocks.npy`` (int64) holds the ids
of the blocks. ``cache_op.npy`` exists only if an instruction has a cache operator; the version is 1 without it, else 2.
``meta.json`` holds ``format``, ``version``, ``launch``, ``columns`` (the length of every column) and
``source`` (a description of the trace's origin, as its writer gave it). Reading maps the columns into memory, so a
trace may be larger than memory; writing keeps only a piece of one block in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import LaunchError, TraceError
from rdmodel.trace import npy
from rdmodel.trace.columns import Columns
from rdmodel.trace.launch import ArrayInfo, Launch
from rdmodel.trace.mapped_pages import Pages
from rdmodel.trace.replacement import folder_replaced_when_complete, recover, resolve_folder
from rdmodel.trace.splitting import split_block
from rdmodel.trace.trace import Trace

TRACE_FORMAT = "rdmodel-trace"
TRACE_VERSION = 2
"""The format's name and newest version, as ``meta.json`` has them."""

META = "meta.json"
"""The name of the file that describes a trace."""

MAX_META_BYTES = 1 << 26
"""Bytes that the file of that name may have."""

DTYPES = {
    "blocks": "<i8",
    "warp_start": "<i8",
    "pc": "<i4",
    "op": "|u1",
    "space": "|u1",
    "size": "|u1",
    "gap": "<i4",
    "needs": "<u8",
    "loop_exit": "|b1",
    "mask": "<u4",
    "address_start": "<i8",
    "addresses": "<i8",
}
"""Every column of the format with its dtype on disk, without that of cache operators."""

OPERATOR_COLUMN = "cache_op"
OPERATOR_DTYPE = "|u1"
PLAIN_VERSION = 1
"""The column of cache operators, and the version of a trace that does without it."""

_OFFSETS = ("warp_start", "address_start")
_PER_INSTRUCTION = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
_MAX_COUNT = (1 << 63) - 1
"""The largest number that ``meta.json`` may hold."""

_ZEROS_AT_ONCE = 1 << 20
"""Zeros that are written at a time for instructions before the first one with a cache operator."""

IDS_PER_CHECK = 1 << 16
"""Block ids that `compact_ids` compares at a time."""


def save(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    source: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a trace as a folder, block by block, in the memory of a few pieces (`rdmodel.trace.splitting`).

    The folder appears under its name only when it is complete. A run that is killed leaves the old folder or none, and
    perhaps hidden ones beside it, which the next run with this name deletes (`rdmodel.trace.replacement`). The new
    folder has the permissions of the one that it replaces; a symbolic link stays, and its target is replaced.

    Parameters
    ----------
    trace
        The trace, of any kind.
    path
        The folder.
    source
        Any JSON object that describes the trace's origin; `rdmodel.trace.storage.read_source` returns it.
    overwrite
        Replace an existing folder, provided that it contains nothing but a trace.
    progress
        Called with (blocks written, blocks in all).

    Raises
    ------
    TraceError
        If `path` exists and may not be replaced, if `source` is not JSON, or if a file cannot be written.
    """
    target = resolve_folder(path)
    recover(target)
    head = {
        "format": TRACE_FORMAT,
        "version": PLAIN_VERSION,
        "launch": asdict(trace.launch),
        "source": dict(source or {}),
    }
    try:
        json.dumps(head, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"source: cannot be written as JSON: {error}") from None
    _refuse_foreign(target, overwrite)
    try:
        with folder_replaced_when_complete(target) as folder:
            counts = _write_columns(trace, folder, progress)
            head["version"] = TRACE_VERSION if OPERATOR_COLUMN in counts else PLAIN_VERSION
            text = json.dumps({**head, "columns": counts}, indent=1, allow_nan=False)
            (folder / META).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from error


def load(path: str | os.PathLike[str], *, trusted: bool = False) -> Trace:
    """Return the trace in a folder that `save` wrote, with its columns mapped into memory, read-only.

    Pages that were read are released as readers go on (`Trace.pages`), so that a trace takes
    `rdmodel.trace.mapped_pages.WINDOW_BYTES` bytes of memory, whatever its length.

    Parameters
    ----------
    path
        The folder.
    trusted
        Skip the check of all columns against each other, which reads them once, in bounded memory. For a folder that
        is known to be sound.

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    TraceError
        If the version is newer than this rdmodel reads, if a file is missing, truncated or of another kind, or if
        columns disagree. The message names the file and the problem.
    """
    folder = Path(path)
    recover(folder)
    meta = _read_meta(folder)
    launch = launch_from_json(meta.get("launch"), folder / META)
    columns = {name: _map_column(folder, name, meta.get("columns"), kind) for name, kind in DTYPES.items()}
    rows = len(columns["pc"])
    per_instruction = list(_PER_INSTRUCTION)
    if meta["version"] > PLAIN_VERSION:
        columns[OPERATOR_COLUMN] = _map_column(folder, OPERATOR_COLUMN, meta.get("columns"), OPERATOR_DTYPE)
        per_instruction.append(OPERATOR_COLUMN)
    for name in per_instruction:
        if len(columns[name]) != rows:
            raise TraceError(f"{folder / name}.npy: {len(columns[name])} values, but pc.npy has {rows}")
    if len(columns["address_start"]) != rows + 1:
        offsets = len(columns["address_start"])
        raise TraceError(f"{folder}/address_start.npy: {offsets} values, {rows} instructions need {rows + 1}")
    blocks = columns.pop("blocks")
    try:
        mapped = Columns(**columns)
        return Trace(launch, mapped, compact_ids(blocks), trusted, find_pages(mapped))
    except TraceError as error:
        raise TraceError(f"{folder}: {error}") from None


def read_source(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the `source` that `save` was given; raises `TraceError` as `load` does."""
    source = _read_meta(Path(path)).get("source", {})
    return dict(source) if isinstance(source, dict) else {}


def is_trace(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a folder with the ``meta.json`` of this format, of any version."""
    try:
        meta = parse_json(read_bounded_bytes(Path(path) / META, MAX_META_BYTES))
    except (TraceError, ValueError, RecursionError):
        return False
    return isinstance(meta, dict) and meta.get("format") == TRACE_FORMAT


# ---- Writing


def _refuse_foreign(target: Path, overwrite: bool) -> None:
    # Other files beside the columns would be deleted with the folder.
    if not os.path.lexists(target):
        return
    ours = {META, *(f"{name}.npy" for name in (*DTYPES, OPERATOR_COLUMN))}
    if not is_trace(target) or not {entry.name for entry in target.iterdir()} <= ours:
        raise TraceError(f"{target}: exists and is not a trace folder, or holds other files; it is never overwritten")
    if not overwrite:
        raise TraceError(f"{target}: exists already; overwrite=True (--overwrite) replaces it")


class _ColumnFile:
    """A growing ``.npy`` file; its header, of fixed length, is rewritten once the number of values is known."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._file = path.open("xb")
        self._dtype = np.dtype(dtype)
        self.count = 0
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.count += len(values)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()

    def close(self) -> None:
        self._file.close()

    def _write_header(self) -> None:
        # NumPy pads the header so that the first dimension has room to grow.
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.count,)}
        np.lib.format.write_array_header_1_0(self._file, header)


class _CacheOpsFile:
    """The file of cache operators, which is created with the first instruction that has one."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._file: _ColumnFile | None = None

    def append(self, cache_ops: NDArray[np.uint8] | None, before: int, rows: int) -> None:
        """Append the operators of `rows` instructions, which follow the `before` first ones of the trace."""
        if self._file is None:
            if cache_ops is None or not cache_ops.any():
                return
            self._file = self._stack.enter_context(
                closing(_ColumnFile(self._folder / f"{OPERATOR_COLUMN}.npy", OPERATOR_DTYPE))
            )
            for first in range(0, before, _ZEROS_AT_ONCE):
                self._file.append(np.zeros(min(_ZEROS_AT_ONCE, before - first), np.uint8))
        self._file.append(np.zeros(rows, np.uint8) if cache_ops is None else cache_ops)

    def opened(self) -> dict[str, _ColumnFile]:
        """Return the file by the name of its column, if it was created."""
        return {} if self._file is None else {OPERATOR_COLUMN: self._file}


def _write_columns(trace: Trace, folder: Path, progress: Progress | None) -> dict[str, int]:
    """Write every column of the trace; return their lengths."""
    assert trace.blocks is not None
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(closing(_ColumnFile(folder / f"{name}.npy", dtype)))
            for name, dtype in DTYPES.items()
        }
        for name in _OFFSETS:
            files[name].append(np.zeros(1, dtype=np.int64))
        cache_ops = _CacheOpsFile(folder, stack)
        for done, block in enumerate(trace.blocks, start=1):
            files["blocks"].append(np.array([block]))
            _write_block(trace, int(block), files, cache_ops)
            if progress is not None:
                progress(done, len(trace.blocks))
        files |= cache_ops.opened()
        for file in files.values():
            file.finish()
        return {name: file.count for name, file in files.items()}


def _write_block(trace: Trace, block: int, files: Mapping[str, _ColumnFile], cache_ops: _CacheOpsFile) -> None:
    warp_end = np.zeros(trace.launch.block_warps, dtype=np.int64)
    rows = files["pc"].count
    for first, columns in split_block(trace, block):
        warp_end[first : first + columns.warps] += np.diff(columns.warp_start)
        files["address_start"].append(columns.address_start[1:] + files["addresses"].count)
        cache_ops.append(columns.cache_op, files["pc"].count, len(columns))
        for name in (*_PER_INSTRUCTION, "addresses"):
            files[name].append(getattr(columns, name))
    files["warp_start"].append(rows + np.cumsum(warp_end))


# ---- Reading


def _read_meta(folder: Path) -> dict[str, Any]:
    where = folder / META
    try:
        meta = parse_json(read_bounded_bytes(where, MAX_META_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{where}: is not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != TRACE_FORMAT:
        raise TraceError(f"{where}: is not the description of a trace ('format' is not {TRACE_FORMAT!r})")
    version = meta.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TraceError(f"{where}: version={version!r}: must be a whole number of at least 1")
    if version > TRACE_VERSION:
        raise TraceError(f"{where}: version {version} is newer than this rdmodel reads ({TRACE_VERSION})")
    return meta


def parse_json(content: bytes) -> Any:
    """Return the value of a JSON text; raise `ValueError` also for an object that gives a key two values."""
    return json.loads(content, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dict; raise `ValueError` if two of them give one key different values."""
    result = dict(pairs)
    for key, value in pairs:
        if len(result) < len(pairs) and result[key] != value:
            raise ValueError(f"{key!r} is given twice: {value!r:.60} and then {result[key]!r:.60}")
    return result


def launch_from_json(plain: Any, where: str | os.PathLike[str]) -> Launch:
    """Return the launch that JSON describes; raise a `TraceError` that names its file, `where`."""
    try:
        arrays = tuple(ArrayInfo(str(a["name"]), _count(a["base"]), _count(a["bytes"])) for a in plain["arrays"])
        return Launch(
            kernel=str(plain["kernel"]),
            grid=_shape(plain["grid"]),
            block=_shape(plain["block"]),
            registers=_count(plain["registers"]),
            shared_memory=_count(plain["shared_memory"]),
            arrays=arrays,
        )
    except KeyError as error:
        raise TraceError(f"{where}: launch: {error.args[0]} is missing") from None
    except (TypeError, LaunchError, TraceError) as error:
        raise TraceError(f"{where}: launch: {error}") from None


def _shape(values: Any) -> tuple[int, int, int]:
    x, y, z = (_count(n) for n in values) if isinstance(values, list) and len(values) == 3 else (0, 0, 0)
    return x, y, z


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT


def _count(value: Any) -> int:
    if not _is_count(value):
        raise TraceError(f"{value!r} is not a whole number from 0 to 2^63 - 1")
    return int(value)


def _map_column(folder: Path, name: str, counts: Any, kind: str) -> NDArray[Any]:
    where = folder / f"{name}.npy"
    if not isinstance(counts, dict) or not _is_count(counts.get(name)):
        raise TraceError(f"{folder / META}: columns: the length of {name} is missing")
    return npy.map_values(where, kind, counts[name])


def compact_ids(blocks: NDArray[np.int64]) -> range | list[int]:
    """Return block ids as a range if they are evenly spaced, as those of one SM or of a whole grid are, else a list."""
    if len(blocks) < 2 or blocks[0] >= blocks[1]:
        return blocks.tolist()  # type: ignore[no-any-return]
    step = int(blocks[1]) - int(blocks[0])
    for start in range(0, len(blocks), IDS_PER_CHECK):
        if (np.diff(blocks[start : start + IDS_PER_CHECK + 1]) != step).any():
            return blocks.tolist()  # type: ignore[no-any-return]
    return range(int(blocks[0]), int(blocks[0]) + step * len(blocks), step)


def find_pages(columns: Columns) -> Pages:
    """Return the pages of the columns that are mapped from files, or are views of such arrays."""
    maps, names = [], []
    for column in fields(columns):
        owner: Any = getattr(columns, column.name)
        while owner is not None and not isinstance(owner, np.memmap):
            owner = getattr(owner, "base", None)
        mapped = getattr(owner, "_mmap", None)
        if mapped is not None:
            maps.append(mapped)
            names.append(str(getattr(owner, "filename", None) or "a temporary file"))
    return Pages(maps, names=names)
