"""Compare an estimate with the exact number: the properties of rows of records."""

from __future__ import annotations

from rdmodel.common.intervals import Estimate


class EstimatedRow:
    """Base of the rows that have an `exact` number, an estimated `value`, and its interval from `low` to `high`."""

    __slots__ = ()
    exact: float
    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Error of the estimate relative to the exact number."""
        return self.value / self.exact - 1 if self.exact else float(self.value != 0)

    @property
    def width(self) -> float:
        """Half the width of the interval relative to the exact number."""
        return (self.high - self.low) / 2 / self.exact if self.exact else float(self.high > self.low)

    @property
    def holds(self) -> bool:
        """Whether the interval holds the exact number."""
        return self.exact in Estimate(value=self.value, standard_error=0.0, low=self.low, high=self.high, sampled="")
