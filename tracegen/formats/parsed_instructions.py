"""Buffer the warp instructions that compiled parsers write, and hand them on to a `Gathering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, Columns
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.ordering.rows import NO_ACCESS_OP


class InstructionArrays(NamedTuple):
    """Arrays with one value per instruction; `addresses` has one per active lane."""

    block: NDArray[np.int64]
    warp: NDArray[np.int64]
    pc: NDArray[np.int32]
    op: NDArray[np.uint8]
    space: NDArray[np.uint8]
    size: NDArray[np.uint8]
    mask: NDArray[np.uint32]
    addresses: NDArray[np.int64]

    @classmethod
    def of(cls, rows: int, lanes: int) -> InstructionArrays:
        """Return uninitialised arrays for `rows` instructions with `lanes` addresses in total."""
        return cls(
            block=np.empty(rows, np.int64),
            warp=np.empty(rows, np.int64),
            pc=np.empty(rows, np.int32),
            op=np.empty(rows, np.uint8),
            space=np.empty(rows, np.uint8),
            size=np.empty(rows, np.uint8),
            mask=np.empty(rows, np.uint32),
            addresses=np.empty(lanes, np.int64),
        )


class InstructionBuffer:
    """Buffers parsed instructions of a launch whose dependences and gaps are unknown.

    A parser writes to the arrays of `reserve`; `append` passes them on to `gathering`, which must be set by then.
    """

    def __init__(self, gathering: Gathering | None = None) -> None:
        self.gathering = gathering
        self._arrays = InstructionArrays.of(0, 0)
        self._unknown = _unknown_columns(0)
        self._accesses = 0

    def reserve(self, rows: int, lanes: int) -> InstructionArrays:
        """Return arrays to write to: the same ones every time if they are large enough."""
        if len(self._arrays.block) < rows or len(self._arrays.addresses) < lanes:
            self._arrays = InstructionArrays.of(rows, lanes)
        return self._arrays

    def append(self, rows: int, lanes: int, cache_ops: NDArray[np.uint8]) -> None:
        """Pass the first `rows` instructions and `lanes` addresses of the reserved arrays on.

        `cache_ops` has the cache operator of each opcode, by the number that the parser wrote as `pc`.
        """
        if not rows:
            return
        if len(self._unknown["gap"]) < rows:  # far fewer than are reserved
            self._unknown = _unknown_columns(rows)
        columns: dict[str, NDArray[Any]] = {name: values[:rows] for name, values in self._arrays._asdict().items()}
        columns["addresses"] = self._arrays.addresses[:lanes]
        columns |= {name: values[:rows] for name, values in self._unknown.items()}
        columns["cache_op"] = cache_ops[columns["pc"]]
        op = columns["op"]
        self._accesses += int(np.count_nonzero(op != NO_ACCESS_OP))
        assert self.gathering is not None
        self.gathering.add(columns.pop("block"), columns.pop("warp"), columns)

    def finish(self, launch_name: str) -> tuple[Columns, Sequence[int]]:
        """Return the columns and blocks as `Gathering.finish` does; raise `TraceError` for a launch without accesses.

        Messages begin with `launch_name`.
        """
        if self.gathering is None or not self._accesses:
            raise TraceError(f"{launch_name}: no accesses to global or local memory")
        try:
            return self.gathering.finish()
        except TraceError as error:
            raise TraceError(f"{launch_name}: {error}") from None


def _unknown_columns(rows: int) -> dict[str, NDArray[Any]]:
    """Return the columns of `rows` instructions whose dependences and gaps are unknown."""
    return {
        "gap": np.zeros(rows, np.int32),
        "needs": np.full(rows, ALL_NEEDS, np.uint64),
        "loop_exit": np.zeros(rows, np.bool_),
    }
