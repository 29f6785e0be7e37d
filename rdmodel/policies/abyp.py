"""Define adaptive bypassing."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings, check_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ABYP(Policy):
    """Adaptive bypass: loads whose lines go unused stop allocating (a baseline of Koo et al., section 6.5).

    Each SM has `entries` counters, from 0 to `most`, that loads share by program counter. The counter goes up when a
    line that the load brought is evicted unused, and down when one is used. A load whose counter is at least
    `threshold` bypasses where it would miss.
    """

    entries: int = 128
    most: int = 15
    threshold: int = 8
    name: ClassVar[str] = "abyp"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options; refuse a threshold that no counter reaches."""
        check_table("entries", self.entries)
        check_int("most", self.most, 1)
        check_int("threshold", self.threshold, 1)
        if self.threshold > self.most:
            raise ConfigError(f"threshold={self.threshold}: must be at most most={self.most}")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "used",
            "counters": self.entries,
            "max_unused": self.most,
            "unused_threshold": self.threshold,
        }
