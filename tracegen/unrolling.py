"""Define how compilers are assumed to unroll loops, for all front ends: the option `unroll`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from tracegen.simt.agreement import common_value

DEFAULT_UNROLL = 4
"""Iterations in an unrolled body: NVIDIA's compilers unroll a loop four times unless the source says otherwise."""

NEVER = "none"
"""Value of `unroll` for loops that never wait for their own loads."""

MAX_UNROLL = 64
"""Maximum number of iterations of an unrolled body: `needs` reach back as many instructions."""

Unroll = int | str | None
"""A number of iterations, or `NEVER`; None: as usual."""


def parse_unroll(value: object, where: str = "unroll") -> int | None:
    """Return the number of iterations of an unrolled body, None for `NEVER`; raises `ConfigError`."""
    if value is None:
        return DEFAULT_UNROLL
    if isinstance(value, str) and value == NEVER:
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_UNROLL:
        raise ConfigError(f"{where}={value!r:.60}: must be a whole number from 1 to {MAX_UNROLL}, or '{NEVER}'")
    return value


@dataclass(frozen=True, slots=True)
class UnrolledBodies:
    """The unrolled bodies of a loop: `warps` wait after every `times` iterations.

    `first` is the number of the iteration from which `end_with` counts.
    """

    warps: NDArray[np.bool_]
    times: int
    first: int = 0

    def end_with(self, iterations: int) -> bool:
        """Return whether a body ends after so many of the iterations."""
        return (self.first + iterations) % self.times == 0


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
