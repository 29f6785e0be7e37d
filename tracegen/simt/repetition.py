"""Find the iterations of a loop that repeat, by what they wait for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracegen.simt.agreement import common_value


def repetition(needs: NDArray[np.uint64], period: int) -> tuple[int, int]:
    """Return (first iteration, period) of the repetition with which a list of iterations ends.

    `needs` have the shape (iterations, instructions, blocks, warps), and iterations that follow repeat the last
    `period` ones. The period that is returned is 1 if these are all the same. The first iteration is the number of all
    iterations if they are fewer than a period. Raises `DivergenceError` if the blocks differ in the result.
    """
    n = len(needs)
    constant = (needs[-min(period, n) :] == needs[-1]).all(axis=(0, 1, 3))
    if common_value(constant):
        period = 1
    if n < period:
        return n, period
    same = (needs[: n - period] == needs[period:]).all(axis=(1, 3))
    steady = np.logical_and.accumulate(same[::-1], axis=0).sum(axis=0)
    return n - period - int(common_value(steady)), period
