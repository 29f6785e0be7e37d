"""Rewrite Parquet files with other values, types, columns, order, metadata or layout."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

from validation.fuzzing.mutation import Case
from validation.fuzzing.shaping import INTEGERS, change_json, dumped


def table(case: Case, rng: Random) -> Case:
    """Rewrite a Parquet file with other values, types, columns, order, metadata or layout."""
    import pyarrow
    from pyarrow import parquet

    name = next(iter(case), "")
    try:
        held = parquet.ParquetFile(io.BytesIO(case.get(name, b""))).read(use_threads=False)
        if len(held) > 1000 or held.nbytes > 1 << 20:
            return case
        for _ in range(rng.randint(1, 3)):
            held = rng.choice(_TABLES)(pyarrow, held, rng)
        out = io.BytesIO()
        parquet.write_table(held, out, **_layout(rng))
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, TypeError):
        return case
    return {**case, name: out.getvalue()}


def _layout(rng: Random) -> dict[str, Any]:
    return {
        "row_group_size": rng.choice((1, 2, 5, 1000)),
        "compression": rng.choice(("none", "zstd", "snappy", "gzip")),
        "use_dictionary": rng.random() < 0.5,
        "write_page_checksum": rng.random() < 0.5,
        "data_page_version": rng.choice(("1.0", "2.0")),
        "store_schema": rng.random() < 0.7,
        "data_page_size": rng.choice((1, 100, 1 << 20)),
    }


def _metadata(arrow: Any, held: Any, rng: Random) -> Any:
    """Change the metadata about the launch and its blocks."""
    metadata = dict(held.schema.metadata or {})
    if not metadata:
        return held
    key = rng.choice(list(metadata))
    try:
        metadata[key] = dumped(change_json(json.loads(metadata[key]), rng))
    except (ValueError, RecursionError):
        metadata[key] = rng.choice((b"", b"\xff", b"0", b"2", b"9" * 12, "²".encode(), b"rdmodel-trace"))
    if rng.random() < 0.1:
        metadata[key] = rng.choice((b"[" * 9000, b"9" * 5000, b"[[0," + b"9" * 5000 + b"]]", b"NaN", b""))
    if rng.random() < 0.05:
        del metadata[key]
    return held.replace_schema_metadata(metadata)


def _cells(arrow: Any, held: Any, rng: Random) -> Any:
    """Change a value, or a value in a list."""
    at = rng.randrange(held.num_columns)
    values = held.column(at).to_pylist()
    if not values:
        return held
    row, field = rng.randrange(len(values)), held.schema.field(at)
    if isinstance(values[row], list):
        values[row] = rng.choice((values[row][:-1], values[row] * 2, [rng.choice(INTEGERS)] * len(values[row]), []))
    else:
        values[row] = rng.choice([*INTEGERS, True, values[rng.randrange(len(values))]])
    return held.set_column(at, field, arrow.array(values, field.type))


def _kind(arrow: Any, held: Any, rng: Random) -> Any:
    """Change the type of a column, or whether it may have missing values."""
    at = rng.randrange(held.num_columns)
    field = held.schema.field(at)
    kinds = [arrow.int32(), arrow.int64(), arrow.uint8(), arrow.string(), arrow.float64(), arrow.bool_(), field.type]
    kinds += [arrow.list_(arrow.int64()), arrow.large_list(arrow.field("element", arrow.int64(), nullable=False))]
    kind, nullable = rng.choice(kinds), rng.random() < 0.3
    values = held.column(at).cast(kind)
    if nullable and len(values):
        values = arrow.array([None, *values.to_pylist()[1:]], kind)
    return held.set_column(at, arrow.field(field.name, kind, nullable=nullable), values)


def _columns(arrow: Any, held: Any, rng: Random) -> Any:
    """Drop, repeat, rename or move a column."""
    at, kind = rng.randrange(held.num_columns), rng.randrange(4)
    field, values = held.schema.field(at), held.column(at)
    if kind == 0:
        return held.remove_column(at)
    if kind == 1:
        return held.add_column(at, field, values)
    if kind == 2:
        return held.set_column(at, field.with_name(rng.choice(("x", "", "pc", "addresses", "a.b"))), values)
    return held.remove_column(at).append_column(field, values)


def _rows(arrow: Any, held: Any, rng: Random) -> Any:
    """Drop, repeat or shuffle rows."""
    order = list(range(len(held)))
    kind = rng.randrange(4)
    if kind == 0:
        order = order[: rng.randint(0, len(order))]
    elif kind == 1:
        order += order[: rng.randint(0, len(order))]
    elif kind == 2:
        rng.shuffle(order)
    elif len(order) > 1:
        at = rng.randrange(len(order) - 1)
        order[at], order[at + 1] = order[at + 1], order[at]
    return held.take(arrow.array(order, arrow.int64()))


_TABLES: tuple[Callable[[Any, Any, Random], Any], ...] = (_metadata, _metadata, _cells, _cells, _kind, _columns, _rows)
