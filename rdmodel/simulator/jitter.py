"""Vary what should not matter: latencies by a few cycles, and the places of arrays in memory.

Caches near their limits are chaotic: a latency that is one cycle longer can change how warps interleave, and so the
cycles of a whole run. Runs of several variants tell such noise from effects.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.trace import Trace
from rdmodel.trace.displaced import DisplacedTrace

MOST_CYCLES = 5
"""Largest change of a latency, in cycles."""

MOST_GAP = 64
"""Largest gap before an array, in units of 256 bytes."""


def vary(trace: Trace, gpu: GPU, variant: int, seed: int = 0) -> tuple[Trace, GPU]:
    """Return a variant of a run: both arguments if `variant` is 0, otherwise random ones that the numbers determine.

    The latency of a hit in the L1 and that of the L2 change by -5 to 5 cycles, and every array moves up by up to 16 KB
    from the one before it. All variants of a trace have the same instructions.
    """
    if variant == 0:
        return trace, gpu
    draws = np.random.default_rng([seed, variant])
    hit, l2 = draws.integers(-MOST_CYCLES, MOST_CYCLES, size=2, endpoint=True).tolist()
    gaps = 256 * draws.integers(0, MOST_GAP, size=len(trace.launch.arrays) + 1, endpoint=True)
    changed = gpu.replace(
        core=replace(gpu.core, hit_latency=max(1, gpu.core.hit_latency + hit)),
        l2=replace(gpu.l2, latency=max(0, gpu.l2.latency + l2)),
    )
    return DisplacedTrace(trace, gaps.tolist()), changed
