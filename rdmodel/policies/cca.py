"""Define adaptive allocation of the cache and of concurrency."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CCA(Policy):
    """Adaptive cache and concurrency allocation: some warps use the L1, some bypass it (Zheng et al., IEEE CAL 2015).

    Of each scheduler's warps, the oldest bring lines into the L1, the next ones only read there, and the rest may issue
    no loads. Every SM adapts the sizes of these groups: it tries half or twice a size for a `period`, and keeps what
    executes more thread instructions, by a share of more than `gain`, than the period before.
    """

    period: int = 512
    gain: float = 0.0
    name: ClassVar[str] = "cca"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("period", self.period, 1)
        check_number("gain", self.gain, 0)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "adaptive", "period": self.period, "gain": float(self.gain)}
