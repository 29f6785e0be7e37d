"""Check the fields of value objects: whole numbers, finite numbers, choices and flags, each named in the error."""

from __future__ import annotations

from typing import Any, get_args

from rdmodel.errors import ConfigError, unknown

MAX_VALUE = 1 << 40
"""The largest number that a field may have: larger than any machine needs, and small enough for 64-bit sums."""

MAX_SMS, MAX_L2_SLICES, MAX_DRAM_BANKS = 1 << 12, 1 << 12, 1 << 12
"""Maximum numbers of parts of a machine, many times those of the largest GPU."""

MAX_SEEDS, MAX_JOBS = 1 << 16, 1 << 12
"""Maximum numbers of runs of one call, and of threads or processes."""


def check_int(name: str, value: Any, least: int, most: int | None = MAX_VALUE) -> None:
    """Raise `ConfigError` unless `value` is a whole number from `least` to `most` (None: without an upper bound)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}={value!r}: must be a whole number")
    if value < least:
        raise ConfigError(f"{name}={value}: must be at least {least}")
    if most is not None and value > most:
        raise ConfigError(f"{name}={value}: must be at most {'2^40' if most == MAX_VALUE else most}")


def check_number(name: str, value: Any, least: float) -> None:
    """Raise `ConfigError` unless `value` is a finite number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MAX_VALUE:
        raise ConfigError(f"{name}={value!r}: must be a finite number of at least {least:g} (and at most 2^40)")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise `ConfigError` unless `value` is among those of the `Literal` type `choices`."""
    allowed = get_args(choices)
    if value not in allowed:
        raise ConfigError(unknown(f"value for {name}:", value, map(str, allowed)))


def check_flag(name: str, value: Any) -> None:
    """Raise `ConfigError` unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r}: must be True or False")
