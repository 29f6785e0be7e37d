"""Draw the random numbers of the model: one pair of streams per SM and run, spawned from the seed.

The compiled cores and the reference read the same streams in the same order, so equal seeds give equal results.
A `FastCore` draws the same numbers by itself (`rdmodel/model/_generators.pyx`).
"""

from __future__ import annotations

import numpy as np
import numpy.random  # NumPy would load it at its first use, when the memory for it may be gone
from numpy.typing import NDArray


class Draws:
    """Random latencies and warp choices of one SM in one run, drawn in batches.

    `seed` and `sm` alone determine every number, whatever the sizes of the batches. `sigma` is the scale of the
    half-normal part of a miss's latency, in steps.
    """

    def __init__(self, seed: int, sm: int, sigma: float) -> None:
        # The children of SeedSequence(seed, spawn_key=(sm,)), by their names.
        self._latency, self._choice = (
            np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(sm, child))))
            for child in range(2)
        )
        self._sigma = sigma

    def latencies(self, count: int) -> NDArray[np.int64]:
        """Return the next `count` values of round(|N(0, sigma)|): steps of a miss beyond the minimum latency."""
        draws = self._latency.standard_normal(count)
        np.abs(draws, out=draws)
        draws *= self._sigma
        return np.rint(draws, out=draws).astype(np.int64)

    def choices(self, count: int) -> NDArray[np.float64]:
        """Return the next `count` uniform draws in [0, 1)."""
        return self._choice.random(count)
