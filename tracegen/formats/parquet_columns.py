"""Define the columns of a Parquet trace, and collect them batch by batch in bounded memory while a file is read."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch
from tracegen.formats.ordering.external_sort import temporary_file_error

COLUMN_TYPES = {
    "block": "int64",
    "warp": "int32",
    "pc": "int32",
    "op": "uint8",
    "space": "uint8",
    "size": "uint8",
    "gap": "int32",
    "needs": "uint64",
    "loop_exit": "bool",
    "mask": "uint32",
    "addresses": "int64",
}
"""Type of the values of every column; ``addresses`` has a list of values per row."""

CACHE_OP_COLUMN, CACHE_OP_TYPE = "cache_op", "uint8"
"""The column of cache operators, and its type; only files with an operator have it."""

SCALAR_COLUMNS = tuple(name for name in COLUMN_TYPES if name != "addresses")
"""Columns with one value per row."""

INSTRUCTION_COLUMNS = SCALAR_COLUMNS[2:]
"""The scalar columns without ``block`` and ``warp``."""

COLUMN_MEMORY_BYTES = 64 << 20
"""Default limit for the columns that are kept in memory; larger ones go to temporary files."""


class ColumnBuilder:
    """Collects the columns of a trace, in memory or, beyond `memory` bytes, in temporary files.

    `blocks` are the ids of the blocks that the trace holds; `cache_ops` says that there is a column of cache operators.
    """

    def __init__(self, launch: Launch, blocks: Sequence[int], memory: int, *, cache_ops: bool = False) -> None:
        self._ends = {"block": launch.blocks, "warp": launch.block_warps}
        self._blocks = np.asarray(blocks, np.int64)
        self._lengths = np.zeros(len(blocks) * launch.block_warps, np.int64)
        self._types = {**COLUMN_TYPES, **({CACHE_OP_COLUMN: CACHE_OP_TYPE} if cache_ops else {})}
        self._scalars = [name for name in self._types if name != "addresses"]
        self._columns = {name: _SpillableColumn() for name in (*self._scalars[2:], "address_start", "addresses")}
        self._columns["address_start"].append(np.zeros(1, np.int64))
        self._memory_left = memory
        self._last = 0
        self.rows = self._lanes = 0

    def append(self, batch: Any) -> None:
        """Append a batch of rows; raise `TraceError` for invalid values, and for rows out of order."""
        values = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in self._scalars}
        lists = batch.column("addresses")
        starts = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))])
        warp_index = self._warp_indices(values.pop("block"), values.pop("warp").astype(np.int64))
        values["addresses"] = lists.flatten().to_numpy(zero_copy_only=False)
        Columns(warp_start=np.array([0, len(warp_index)]), address_start=starts, **values).check()
        values["address_start"] = starts[1:] + self._lanes
        for name, column in values.items():
            self._columns[name].append(column)
            self._memory_left -= column.nbytes
        if self._memory_left < 0:
            for column_in_memory in self._columns.values():
                column_in_memory.spill()
        warps, counts = np.unique(warp_index, return_counts=True)
        self._lengths[warps] += counts
        self.rows += len(warp_index)
        self._lanes += int(starts[-1])

    def finish(self) -> Columns:
        """Return the columns; nothing may be appended afterwards."""
        warp_start = np.concatenate([[0], np.cumsum(self._lengths)])
        types = {**self._types, "address_start": "int64"}
        columns: dict[str, Any] = {name: column.finish(types[name]) for name, column in self._columns.items()}
        return Columns(warp_start=warp_start, **columns)

    def _warp_indices(self, block: NDArray[np.int64], warp: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each row's warp among all warps of the trace."""
        for name, numbers in (("block", block), ("warp", warp)):
            _refuse(
                (numbers < 0) | (numbers >= self._ends[name]), numbers, f"{name} {{}}: must be below", self._ends[name]
            )
        at = np.minimum(np.searchsorted(self._blocks, block), max(len(self._blocks) - 1, 0))
        known = self._blocks[at] == block if len(self._blocks) else np.zeros(len(block), np.bool_)
        _refuse(~known, block, "block {} is not among", "those of rdmodel.blocks")
        index = at * self._ends["warp"] + warp
        late = np.diff(index, prepend=self._last) < 0
        _refuse(late, block, "block {}: rows are not in", "the order of blocks and warps")
        self._last = int(index[-1]) if len(index) else self._last
        return index


class _SpillableColumn:
    """A growing column: parts in memory, or a temporary file without a name."""

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Append values."""
        self._count += len(values)
        self._parts.append(values)
        if self._file is not None:
            self.spill()

    def spill(self) -> None:
        """Move the parts in memory to the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the mapping lives on when it is closed
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._file.flush()
        except OSError as error:
            raise temporary_file_error(error) from None
        self._parts = []

    def finish(self, kind: str) -> NDArray[Any]:
        """Return all values."""
        if self._file is None:
            return np.concatenate(self._parts) if self._parts else np.empty(0, kind)
        with self._file as file:
            return np.memmap(file, kind, "r", shape=(self._count,)) if self._count else np.empty(0, kind)


def _refuse(wrong: NDArray[np.bool_], values: NDArray[np.int64], message: str, *rest: object) -> None:
    if wrong.any():
        raise TraceError(" ".join([message.format(values[np.argmax(wrong)]), *map(str, rest)]))
