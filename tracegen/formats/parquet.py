"""Read and write the lossless archive form of a trace: one Parquet file, compressed with zstd.

A row is a warp instruction: ``block`` (its number in the grid), ``warp`` (its number in the block), the columns of
`rdmodel.trace.Columns` by their names, and ``addresses``, a list with one address per active lane. Rows are in the
order of blocks and warps, those of a warp in program order. The file's metadata has ``rdmodel.format``,
``rdmodel.version``, ``rdmodel.launch`` (JSON, as in the native form) and ``rdmodel.blocks``: the blocks that the trace
holds, including those without instructions, as a JSON list of [first, one beyond the last]. The column ``cache_op`` is
there only if an instruction has a cache operator; the version is 1 without it, else 2.

Needs pyarrow (extra ``parquet``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch, Trace
from rdmodel.trace.columns import join_cache_ops
from rdmodel.trace.lanes import check_lanes
from rdmodel.trace.splitting import split_block
from rdmodel.trace.storage import find_pages, launch_from_json, parse_json
from tracegen.formats.atomic_write import error_reason, refuse_existing, replacing
from tracegen.formats.compressed import is_compressed
from tracegen.formats.empty_blocks import max_warps
from tracegen.formats.parquet_columns import (
    CACHE_OP_COLUMN,
    CACHE_OP_TYPE,
    COLUMN_MEMORY_BYTES,
    COLUMN_TYPES,
    INSTRUCTION_COLUMNS,
    SCALAR_COLUMNS,
    ColumnBuilder,
)

PARQUET_MAGIC = b"PAR1"
PARQUET_FORMAT_NAME = "rdmodel-trace"
PARQUET_FORMAT_VERSION = 2
"""First bytes of a Parquet file, and the name and the newest version of the format in its metadata."""

_PLAIN_VERSION = 1
"""The version of a file without cache operators."""

ROW_GROUP_ADDRESSES = 1 << 20
"""Addresses after which a row group is closed; memory holds at most twice as many."""

ROW_GROUP_ROWS = 1 << 17
"""Rows after which a row group is closed."""

BATCH_ROWS = 1 << 15
"""Rows that are read at a time."""

MAX_ROW_GROUP_BYTES = 1 << 30
"""Bytes of an uncompressed row group that is read."""

_ZSTD_LEVEL = 3


def write_parquet(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a trace as a Parquet file, block by block; memory stays within a few row groups.

    The file appears under its name only when complete. A run that is killed leaves the old file or none, and perhaps a
    hidden ``.NAME.*.partial`` beside it. Raises `TraceError` if `path` exists and `overwrite` is not set, if it cannot
    be written, if nearly all warps are without instructions, or if pyarrow is not installed.
    """
    assert trace.blocks is not None
    target = Path(path)
    arrow, parquet = _pyarrow()
    refuse_existing(target, overwrite=overwrite)
    # A trace that may be made twice is written again with a column of cache operators when one is found.
    given = trace.may_have_cache_ops and not trace.any_order
    with replacing(target) as partial:
        try:
            try:
                rows = _write(trace, partial, given, arrow, parquet)
            except _CacheOpFoundError:
                rows = _write(trace, partial, True, arrow, parquet)
        except arrow.ArrowException as error:
            raise TraceError(f"{path}: cannot be written: {error_reason(error)}") from error
        if len(trace.blocks) * trace.launch.block_warps > max_warps(rows):
            raise TraceError(f"{path}: cannot be written: only {rows} instructions in {len(trace.blocks)} blocks")


class _CacheOpFoundError(Exception):
    """An instruction has a cache operator, for which the file has no column."""


def _write(trace: Trace, path: Path, cache_ops: bool, arrow: ModuleType, parquet: ModuleType) -> int:
    """Write the instructions of a trace, with a column of cache operators or without; return their number."""
    rows = 0
    schema = _schema(arrow, cache_ops).with_metadata(_metadata(trace, cache_ops))
    with (
        path.open("wb") as file,
        parquet.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=[name for name in schema.names if name != "addresses"],
            # Neighbouring lanes differ in their low bytes only, so bytes of equal significance compress best together.
            column_encoding={"addresses.list.element": "BYTE_STREAM_SPLIT"},
            write_page_checksum=True,
        ) as writer,
    ):
        for group in _groups(trace):
            table = _table(arrow, schema, group)
            writer.write_table(table, row_group_size=max(len(table), 1))
            rows += len(table)
    return rows


def read_parquet(path: str | os.PathLike[str], *, memory: int = COLUMN_MEMORY_BYTES) -> Trace:
    """Read a Parquet file of `write_parquet`.

    Columns that together exceed `memory` bytes are mapped from temporary files (in ``TMPDIR``), which disappear with
    their last user. In addition, memory holds a row group, and 8 bytes per warp. Raises `TraceError` for a newer
    version, for a foreign, truncated or corrupt file, for inconsistent columns or rows out of order, and if pyarrow is
    not installed.
    """
    name = os.fspath(path)
    arrow, parquet = _pyarrow()
    if is_compressed(name):
        raise TraceError(f"{name}: Parquet is compressed inside; decompress the file around it first")
    with _convert_arrow_errors(arrow, name):
        file = parquet.ParquetFile(name, page_checksum_verification=True)
    with file:
        with _convert_arrow_errors(arrow, name):
            launch, blocks, cache_ops = _read_metadata(file, name)
            _check_schema(arrow, file, name, cache_ops)
            columns = [*COLUMN_TYPES, *([CACHE_OP_COLUMN] if cache_ops else [])]
            batches = file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False)
        builder = ColumnBuilder(launch, blocks, memory, cache_ops=cache_ops)
        while True:
            with _convert_arrow_errors(arrow, name):
                batch = next(batches, None)
            if batch is None:
                break
            try:
                builder.append(batch)
            except TraceError as error:
                raise TraceError(f"{name}: rows from {builder.rows}: {error}") from None
    held = builder.finish()
    pages = find_pages(held)
    try:
        check_lanes(launch, held, blocks, pages)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None
    return Trace(launch, held, blocks, trusted=True, pages=pages)


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TraceError("a Parquet file needs pyarrow: pip install 'rdmodel[parquet]'") from None
    return pyarrow, pyarrow.parquet


@contextmanager
def _convert_arrow_errors(arrow: ModuleType, name: str) -> Iterator[None]:
    """Turn the exceptions of pyarrow for an unreadable file into `TraceError`."""
    try:
        yield
    except (TraceError, MemoryError):
        raise
    except (OSError, ValueError, OverflowError, arrow.ArrowException) as error:
        raise TraceError(f"{name}: cannot be read: {error_reason(error)}") from None


def _schema(arrow: ModuleType, cache_ops: bool) -> Any:
    aliases = {**COLUMN_TYPES, **({CACHE_OP_COLUMN: CACHE_OP_TYPE} if cache_ops else {})}
    types = {name: arrow.type_for_alias(alias) for name, alias in aliases.items()}
    types["addresses"] = arrow.list_(arrow.field("element", types["addresses"], nullable=False))
    return arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in types.items()])


# ---- Writing


def _metadata(trace: Trace, cache_ops: bool) -> dict[str, str]:
    assert trace.blocks is not None
    return {
        "rdmodel.format": PARQUET_FORMAT_NAME,
        "rdmodel.version": str(PARQUET_FORMAT_VERSION if cache_ops else _PLAIN_VERSION),
        "rdmodel.launch": json.dumps(asdict(trace.launch)),
        "rdmodel.blocks": json.dumps(_ranges(trace.blocks)),
    }


def _ranges(blocks: Sequence[int]) -> list[list[int]]:
    """Return ascending block ids as [first, one beyond the last] of each contiguous range."""
    if isinstance(blocks, range) and blocks.step == 1:
        return [[blocks.start, blocks.stop]] if blocks else []
    ids = np.asarray(blocks, np.int64)
    breaks = np.flatnonzero(np.diff(ids) != 1) + 1
    return [[int(part[0]), int(part[-1]) + 1] for part in np.split(ids, breaks) if len(part)]


def _groups(trace: Trace) -> Iterator[list[tuple[int, int, Columns]]]:
    """Yield the row groups of a trace, as lists of (block, first warp, piece)."""
    assert trace.blocks is not None
    group: list[tuple[int, int, Columns]] = []
    lanes = rows = 0
    for block in map(int, trace.blocks):
        for first, columns in split_block(trace, block, ROW_GROUP_ADDRESSES):
            group.append((block, first, columns))
            lanes, rows = lanes + len(columns.addresses), rows + len(columns)
            if lanes >= ROW_GROUP_ADDRESSES or rows >= ROW_GROUP_ROWS:
                yield group
                group, lanes, rows = [], 0, 0
    if rows:
        yield group


def _table(arrow: ModuleType, schema: Any, group: Sequence[tuple[int, int, Columns]]) -> Any:
    """Return the pieces of a row group as an Arrow table."""
    values: dict[str, NDArray[Any]] = {
        name: np.concatenate([getattr(columns, name) for _, _, columns in group]) for name in INSTRUCTION_COLUMNS
    }
    cache_ops = join_cache_ops([columns for _, _, columns in group])
    if CACHE_OP_COLUMN in schema.names:
        values[CACHE_OP_COLUMN] = np.zeros(len(values["pc"]), np.uint8) if cache_ops is None else cache_ops
    elif cache_ops is not None and cache_ops.any():
        raise _CacheOpFoundError
    values["block"] = np.repeat([block for block, _, _ in group], [len(columns) for _, _, columns in group])
    values["warp"] = np.concatenate(
        [np.repeat(np.arange(columns.warps) + first, np.diff(columns.warp_start)) for _, first, columns in group]
    )
    lanes = np.concatenate([np.diff(columns.address_start) for _, _, columns in group])
    addresses = np.concatenate([columns.addresses for _, _, columns in group])
    starts = np.concatenate([[0], np.cumsum(lanes)]).astype(np.int32)
    arrays = [arrow.array(values[name], type=schema.field(name).type) for name in SCALAR_COLUMNS]
    arrays.append(arrow.ListArray.from_arrays(starts, arrow.array(addresses), type=schema.field("addresses").type))
    if CACHE_OP_COLUMN in values:
        arrays.append(arrow.array(values[CACHE_OP_COLUMN]))
    return arrow.Table.from_arrays(arrays, schema=schema)


# ---- Reading


def _read_metadata(file: Any, name: str) -> tuple[Launch, Sequence[int], bool]:
    """Return the launch, the blocks, and whether the file has a column of cache operators."""
    metadata = file.schema_arrow.metadata or {}
    if metadata.get(b"rdmodel.format") != PARQUET_FORMAT_NAME.encode():
        raise TraceError(f"{name}: a Parquet file, but not a trace ('rdmodel.format' is not {PARQUET_FORMAT_NAME!r})")
    version = metadata.get(b"rdmodel.version", b"").decode("latin-1")
    if not (version.isdecimal() and version.isascii() and 1 <= len(version) <= 9) or int(version) < 1:
        raise TraceError(f"{name}: rdmodel.version={version[:20]!r}: must be a whole number of at least 1")
    if int(version) > PARQUET_FORMAT_VERSION:
        raise TraceError(f"{name}: version {int(version)} is newer than this rdmodel reads ({PARQUET_FORMAT_VERSION})")
    launch = launch_from_json(_json(metadata, "rdmodel.launch", name), name)
    blocks = _blocks(_json(metadata, "rdmodel.blocks", name), launch, file.metadata.num_rows, name)
    return launch, blocks, int(version) > _PLAIN_VERSION


def _json(metadata: dict[bytes, bytes], key: str, name: str) -> Any:
    try:
        return parse_json(metadata[key.encode()])
    except KeyError:
        raise TraceError(f"{name}: {key} is missing") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{name}: {key}: is not JSON: {error}") from None


def _blocks(ranges: Any, launch: Launch, rows: int, name: str) -> Sequence[int]:
    """Return the blocks of a list of ranges, whose number is checked before any list of them is built."""
    end = warps = 0
    parts: list[Any] = ranges if isinstance(ranges, list) else [None]
    for pair in parts:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        if not whole or not end <= pair[0] < pair[1] <= launch.blocks:
            raise TraceError(f"{name}: rdmodel.blocks: must be ascending ranges of blocks below {launch.blocks}")
        end = pair[1]
        warps += (pair[1] - pair[0]) * launch.block_warps
    if max(warps, launch.block_warps) > max_warps(rows):
        raise TraceError(f"{name}: {warps} warps for {rows} instructions; at most {max_warps(rows)} are read")
    if len(ranges) == 1:
        return range(*ranges[0])
    return [block for pair in ranges for block in range(*pair)]


def _check_schema(arrow: ModuleType, file: Any, name: str, cache_ops: bool) -> None:
    expected_schema, schema = _schema(arrow, cache_ops), file.schema_arrow
    for column in expected_schema.names:
        at = schema.get_field_index(column)
        if at < 0:
            raise TraceError(f"{name}: the column {column} is missing")
        field, expected = schema.field(at), expected_schema.field(column)
        if field.type != expected.type or field.nullable:
            found_type = f"{field.type}{'' if field.nullable else ' not null'}"
            raise TraceError(f"{name}: the column {column} is {found_type}, not {expected.type} not null")
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).total_byte_size
        if not 0 <= size <= MAX_ROW_GROUP_BYTES:
            raise TraceError(f"{name}: row group {group} holds {size} bytes; at most {MAX_ROW_GROUP_BYTES} are read")
