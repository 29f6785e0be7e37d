"""Represent estimated numbers: a value, its standard error and its confidence interval."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import import_library

CONFIDENCE = 0.95
"""Probability with which an interval is meant to contain the exact value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number that was estimated from a sample instead of counted; `sampled` describes the sample ("4 of 14 SMs").

    `standard_error` is the estimated standard deviation of `value`. The interval from `low` to `high` is meant to
    contain the exact number with probability `confidence`, over the random choice of the sample. If everything was
    sampled, `value` is exact and the interval has zero width.
    """

    value: float
    standard_error: float
    low: float
    high: float
    sampled: str
    confidence: float = CONFIDENCE

    def plus(self, known: float) -> Estimate:
        """Return the estimate of a number that is larger by a known one."""
        if not known:
            return self
        return replace(self, value=self.value + known, low=self.low + known, high=self.high + known)

    def __contains__(self, value: float) -> bool:
        """Tell whether the interval contains a number; rounding errors at its ends are tolerated."""
        slack = 1e-12 * max(1.0, abs(value))
        return self.low - slack <= value <= self.high + slack

    def __str__(self) -> str:
        """Return value, interval and sample in one line."""
        share = 100 * self.confidence
        return f"{self.value:.6g} ({share:g} % interval {self.low:.6g} to {self.high:.6g}, {self.sampled})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dict."""
        return asdict(self)


def student_quantile(freedom: float) -> float:
    """Return half the width of an interval in standard errors: Student's t with `freedom` degrees of freedom."""
    special = import_library("scipy.special")
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def student_estimate(
    value: float, variance: float, freedom: float, sampled: str, *, most: float = float("inf")
) -> Estimate:
    """Return the `Estimate` of a number between 0 and `most` with a Student's t interval of `freedom` degrees."""
    error = max(0.0, variance) ** 0.5
    half = student_quantile(freedom) * error if error else 0.0
    return Estimate(
        value=value,
        standard_error=error,
        low=min(value, max(0.0, value - half)),
        high=max(value, min(most, value + half)),
        sampled=sampled,
    )
