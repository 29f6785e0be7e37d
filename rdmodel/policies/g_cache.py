"""Define the G-Cache."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import MAX_SMS, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings

MAX_HEAT = 1 << 16
"""Limit of the heat of a line, far beyond the few bits that a tag can have for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCache(Policy):
    """G-Cache: the L2 tells an L1 which lines it has lost, and these stay (Chen et al., MES 2014).

    A slice has a victim bit per line for every `sharers` SMs, which is set when an SM reads the line. An SM that reads
    the line again gets a hint. After a hint, lines with hints and lines that loads have found are hot. A fill stays out
    of a set whose lines are all hot, and `heat` such fills cool them. That ends after a `period` without hints.
    """

    period: int = 10_000
    sharers: int = 1
    heat: int = 3
    name: ClassVar[str] = "g-cache"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("period", self.period, 1)
        check_int("sharers", self.sharers, 1, MAX_SMS)
        check_int("heat", self.heat, 1, MAX_HEAT)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "cold", "period": self.period, "sharers": self.sharers, "heat": self.heat}
