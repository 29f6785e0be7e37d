"""Define how compilers are assumed to unroll loops, for all front ends: the option `unroll`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError

DEFAULT_UNROLL = 4
"""Iterations in an unrolled body: NVIDIA's compilers unroll a loop four times unless the source says otherwise."""

NEVER = "none"
"""Value of `unroll` for loops that never wait for their own loads."""

MAX_UNROLL = 64
"""Maximum number of iterations of an unrolled body: `needs` reach back as many instructions."""

Unroll = int | str | None
"""A number of iterations, or `NEVER`; None: as usual."""


def parse_unroll(value: object) -> int | None:
    """Return the number of iterations of an unrolled body, None for `NEVER`; raises `ConfigError`."""
    if value is None:
        return DEFAULT_UNROLL
    if isinstance(value, str) and value == NEVER:
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_UNROLL:
        raise ConfigError(f"unroll={value!r:.60}: must be a whole number from 1 to {MAX_UNROLL}, or '{NEVER}'")
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
