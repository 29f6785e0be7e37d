"""What compiled parsers write: warp instructions as arrays, on their way into a `Gathering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, Columns, Op
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.ordering.rows import GAP


class Arrays(NamedTuple):
    """One value per instruction, and in `addresses` one per active lane."""

    block: NDArray[np.int64]
    warp: NDArray[np.int64]
    pc: NDArray[np.int32]
    op: NDArray[np.uint8]
    space: NDArray[np.uint8]
    size: NDArray[np.uint8]
    mask: NDArray[np.uint32]
    addresses: NDArray[np.int64]

    @classmethod
    def of(cls, rows: int, lanes: int) -> Arrays:
        """Return arrays with room for so many instructions and addresses."""
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


class Instructions:
    """The instructions of a launch of which dependences and gaps are unknown, as they come from a parser.

    `gathering` takes them in; it may be set later, before there are any.
    """

    def __init__(self, gathering: Gathering | None = None) -> None:
        self.gathering = gathering
        self._arrays = Arrays.of(0, 0)
        self._accesses = 0
        self._reads = False

    def room(self, rows: int, lanes: int) -> Arrays:
        """Return arrays to write to, the same ones every time if they are large enough."""
        if len(self._arrays.block) < rows or len(self._arrays.addresses) < lanes:
            self._arrays = Arrays.of(rows, lanes)
        return self._arrays

    def take(self, rows: int, lanes: int) -> None:
        """Take in the first `rows` instructions and `lanes` addresses of those arrays."""
        if not rows:
            return
        named: dict[str, NDArray[Any]] = {name: values[:rows] for name, values in self._arrays._asdict().items()}
        named["addresses"] = self._arrays.addresses[:lanes]
        named["gap"] = np.zeros(rows, np.int32)
        named["needs"] = np.full(rows, ALL_NEEDS, np.uint64)
        named["loop_exit"] = np.zeros(rows, np.bool_)
        op = named["op"]
        self._accesses += int(np.count_nonzero(op != GAP))
        self._reads = self._reads or bool(((op == Op.LOAD) | (op == Op.ATOMIC)).any())
        assert self.gathering is not None
        self.gathering.add(named.pop("block"), named.pop("warp"), named)

    def finish(self, which: str) -> tuple[Columns, Sequence[int]]:
        """Return all as `Gathering.finish` does; raise `TraceError` about `which` launch if nothing is loaded."""
        if self.gathering is None or not self._accesses:
            raise TraceError(f"{which}: no accesses to global or local memory")
        if not self._reads:
            raise TraceError(f"{which}: a kernel without loads: all {self._accesses} instructions are stores")
        try:
            return self.gathering.finish()
        except TraceError as error:
            raise TraceError(f"{which}: {error}") from None
