"""Turn the rows that the emulator records into the columns of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Op


def columns_of_rows(
    rows: NDArray[Any],
    addresses: NDArray[np.int64],
    warp_start: NDArray[np.int64],
    cache_ops: NDArray[np.uint8] | None,
) -> Columns:
    """Return the columns of recorded rows, with the cache operators of loads by pc if there are any."""
    lanes = np.where(rows["op"] == int(Op.BARRIER), 0, np.bitwise_count(rows["mask"]))
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lanes, out=start[1:])
    names = ("pc", "op", "space", "size", "gap", "needs", "mask")
    return Columns(
        warp_start=warp_start,
        loop_exit=np.zeros(len(rows), dtype=np.bool_),
        address_start=start,
        addresses=addresses,
        cache_op=None if cache_ops is None else np.where(rows["op"] == int(Op.LOAD), cache_ops[rows["pc"]], 0),
        **{name: rows[name] for name in names},
    )
