"""Several blocks that run as one: what they have to agree on.

Values of several blocks have a row for each: of shape (blocks, threads) where threads differ, (blocks, 1) where only
blocks do. Values of a single block have no rows: they are of shape (threads,), or numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rdmodel.errors import TraceError


class DivergenceError(TraceError):
    """Blocks that run as one would have to go on differently: each has to run by itself."""


def is_per_thread(value: Any) -> bool:
    """Tell whether a value is one per thread, and not one per block."""
    return np.ndim(value) == 1 or (np.ndim(value) == 2 and value.shape[1] != 1)


def common_value(value: Any) -> Any:
    """Return the one number that all blocks have, given one per block, or a number; raises `DivergenceError`."""
    if np.ndim(value) == 0:
        return value
    first = value.flat[0]
    if not (value == first).all():
        raise DivergenceError("blocks go on differently")
    return first
