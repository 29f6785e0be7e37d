"""Find the clock of a GPU under matrix products, for which it has a bounded power (docs/time.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rdmodel.gpu.config import GPU

EXPONENT = 3
"""The electrical power is proportional to the clock and to the square of the voltage, which follows the clock."""


def clock_share(used: float, rates: Mapping[str, float]) -> float:
    """Return the clock relative to the highest one, if tensor cores are busy for the share `used` of the time.

    They are the more often busy, the lower is the clock at which they need the power that the GPU has for them. It is
    ``rates["matrix_clock"]`` if they are always busy.
    """
    return min(1.0, rates["matrix_clock"] / used ** (1 / EXPONENT)) if used > 0 else 1.0


def with_clock_share(gpu: GPU, share: float) -> GPU:
    """Return the GPU with another clock of the SMs, and of the L2 and the crossbar, which follow it."""
    if share == 1:
        return gpu

    def slower(clock: int) -> int:
        return max(1, round(share * clock))

    return replace(
        gpu,
        clock=slower(gpu.clock),
        crossbar=replace(gpu.crossbar, clock=slower(gpu.crossbar.clock)),
        l2=replace(gpu.l2, clock=slower(gpu.l2.clock)),
    )
