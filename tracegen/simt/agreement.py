"""Check that the blocks of a batch, which run as one, agree on the values that decide their control flow.

A value of a batch has the shape (blocks, threads) if it differs between threads, and (blocks, 1) if it differs only
between blocks. A value of a single block has the shape (threads,), or is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rdmodel.errors import TraceError


class DivergenceError(TraceError):
    """The blocks of a batch diverge: each has to run on its own."""


def is_per_thread(value: Any) -> bool:
    """Return whether a value has one number per thread, not only one per block."""
    return np.ndim(value) == 1 or (np.ndim(value) == 2 and value.shape[1] != 1)


def common_value(value: Any) -> Any:
    """Return the number that is common to all blocks; raises `DivergenceError` if blocks have different ones."""
    if np.ndim(value) == 0:
        return value
    first = value.flat[0]
    if not (value == first).all():
        raise DivergenceError("the blocks of a batch diverge")
    return first


def in_common(values: Any) -> Any:
    """Return the number that is common to all blocks as one of Python, or else the values, one for each block."""
    first = values.flat[0]
    return first.item() if (values == first).all() else values
