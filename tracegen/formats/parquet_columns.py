"""The columns of an archived trace, and what grows to them batch by batch while a file is read, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch

TYPES = {
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
"""Every column and the type of its values; ``addresses`` is a list of them."""

PLAIN = tuple(name for name in TYPES if name != "addresses")
INSTRUCTION = PLAIN[2:]

MEMORY = 64 << 20
"""Bytes of columns that are kept in memory, if nobody says otherwise."""


class Growing:
    """The columns of a trace while they are read, in memory or in temporary files."""

    def __init__(self, launch: Launch, blocks: Sequence[int], memory: int) -> None:
        self._ends = {"block": launch.blocks, "warp": launch.block_warps}
        self._blocks = np.asarray(blocks, np.int64)
        self._lengths = np.zeros(len(blocks) * launch.block_warps, np.int64)
        self._columns = {name: _Column() for name in (*INSTRUCTION, "address_start", "addresses")}
        self._columns["address_start"].append(np.zeros(1, np.int64))
        self._room = memory
        self._last = 0
        self.rows = self._lanes = 0

    def append(self, batch: Any) -> None:
        """Take the next rows; raise `TraceError` for values that cannot be, or that come too late."""
        values = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in PLAIN}
        lists = batch.column("addresses")
        starts = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))])
        place = self._place(values.pop("block"), values.pop("warp").astype(np.int64))
        values["addresses"] = lists.flatten().to_numpy(zero_copy_only=False)
        Columns(warp_start=np.array([0, len(place)]), address_start=starts, **values).check()
        values["address_start"] = starts[1:] + self._lanes
        for name, column in values.items():
            self._columns[name].append(column)
            self._room -= column.nbytes
        if self._room < 0:
            for spilled in self._columns.values():
                spilled.spill()
        warps, counts = np.unique(place, return_counts=True)
        self._lengths[warps] += counts
        self.rows += len(place)
        self._lanes += int(starts[-1])

    def finish(self) -> Columns:
        """Return the columns; nothing may be appended afterwards."""
        warp_start = np.concatenate([[0], np.cumsum(self._lengths)])
        types = {**TYPES, "address_start": "int64"}
        columns: dict[str, Any] = {name: column.finish(types[name]) for name, column in self._columns.items()}
        return Columns(warp_start=warp_start, **columns)

    def _place(self, block: NDArray[np.int64], warp: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each row's warp in the trace."""
        for name, numbers in (("block", block), ("warp", warp)):
            _refuse(
                (numbers < 0) | (numbers >= self._ends[name]), numbers, f"{name} {{}}: must be below", self._ends[name]
            )
        at = np.minimum(np.searchsorted(self._blocks, block), max(len(self._blocks) - 1, 0))
        held = self._blocks[at] == block if len(self._blocks) else np.zeros(len(block), np.bool_)
        _refuse(~held, block, "block {} is not among", "those of rdmodel.blocks")
        place = at * self._ends["warp"] + warp
        late = np.diff(place, prepend=self._last) < 0
        _refuse(late, block, "block {}: rows are not in", "the order of blocks and warps")
        self._last = int(place[-1]) if len(place) else self._last
        return place


class _Column:
    """A column that grows: parts in memory, or a file without a name."""

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        self._count += len(values)
        self._parts.append(values)
        if self._file is not None:
            self.spill()

    def spill(self) -> None:
        """Move what is in memory to the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the mapping lives on when it is closed
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._file.flush()
        except OSError as error:
            folder = tempfile.gettempdir()
            raise TraceError(
                f"{folder}: the temporary folder (TMPDIR) cannot be written: {error.strerror or error}"
            ) from None
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
