"""Turn the rows that the emulator records into the columns of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, Op


def columns_of_rows(recorded: Mapping[str, NDArray[Any]], cache_ops: NDArray[np.uint8] | None) -> Columns:
    """Return the columns of recorded rows, with the cache operators of loads by pc if there are any."""
    pc, op = recorded["pc"], recorded["op"]
    return Columns(
        loop_exit=np.zeros(len(pc), dtype=np.bool_),
        cache_op=None if cache_ops is None else np.where(op == int(Op.LOAD), cache_ops[pc], 0),
        **recorded,
    )
