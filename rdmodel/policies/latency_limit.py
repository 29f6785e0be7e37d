"""Define warp limiting by the latency of the crossbar."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimit(Policy):
    """Warp limiting by latency: the warps of an SM follow the latency of the crossbar (Chen et al., MICRO 2014).

    At the end of each `period`, an SM compares the mean latency of its answers in the crossbar with the shortest one.
    If the mean is over `high` times that, and more than the share `lost` of the loads asked for lines that the L1 has
    lost, `step` warps of each scheduler less may issue loads. If it is under `low` times that, `step` warps more may.
    """

    period: int = 1000
    high: float = 4.0
    low: float = 2.0
    lost: float = 0.1
    step: int = 1
    name: ClassVar[str] = "latency-limit"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options; refuse bounds that cross."""
        check_int("period", self.period, 1)
        for name in ("high", "low"):
            check_number(name, getattr(self, name), 1)
        check_number("lost", self.lost, 0)
        check_int("step", self.step, 1)
        if self.lost > 1:
            raise ConfigError(f"lost={self.lost}: must be at most 1")
        if self.low > self.high:
            raise ConfigError(f"low={self.low}: must be at most high={self.high}")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "latency",
            "period": self.period,
            "high_latency": float(self.high),
            "low_latency": float(self.low),
            "lost_share": float(self.lost),
            "step": self.step,
        }
