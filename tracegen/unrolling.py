"""Define how compilers are assumed to unroll loops, for all front ends: the option `unroll`."""

from __future__ import annotations

from rdmodel.errors import ConfigError

DEFAULT_UNROLL = 4
"""Iterations in an unrolled body: NVIDIA's compilers unroll a loop four times unless the source says otherwise."""

NEVER = "none"
"""Value of `unroll` for loops that never wait for their own loads."""

MAX_UNROLL = 1 << 20

Unroll = int | str | None
"""A number of iterations, or `NEVER`; None stands for `NEVER`, too."""


def parse_unroll(value: object, where: str = "unroll") -> int | None:
    """Return the number of iterations of an unrolled body, None for `NEVER`; raises `ConfigError`."""
    if value is None or value == NEVER:
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_UNROLL:
        raise ConfigError(f"{where}={value!r:.60}: must be a whole number from 1 to 2^20, or '{NEVER}'")
    return value
