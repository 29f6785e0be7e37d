"""Divide counts into rates, which are undefined where nothing was counted: NaN in Python, null in JSON."""

from __future__ import annotations

from math import isnan, nan


def rate_of(part: float, whole: float) -> float:
    """Return `part` as a share of `whole`; NaN if `whole` is 0."""
    return part / whole if whole else nan


def plain_rate(rate: float) -> float | None:
    """Return a rate as JSON has it: None if it is undefined."""
    return None if isnan(rate) else rate


def plain_rates(rates: dict[str, float]) -> dict[str, float | None]:
    """Return rates by name as JSON has them."""
    return {name: plain_rate(rate) for name, rate in rates.items()}
