"""Define divergence-aware warp scheduling."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings

MAX_LOADS = 64
"""Limit of `DAWS.loads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DAWS(Policy):
    """Divergence-aware warp scheduling: warps wait until their loops fit in the L1 (Rogers et al., MICRO 2013).

    An SM predicts how many lines a warp uses again in a loop: for each load with locality, a line for every active lane
    if the load is divergent, else one. By age, warps in loops may load while the sum is at most the share `share` of
    the L1. The oldest warp shows up to `loads` loads: their loops; whether they are divergent, as one that makes more
    than `converged` transactions is; and whether the share `reuse` of their accesses finds its line again.
    """

    share: float = 0.6
    reuse: float = 0.5
    converged: int = 2
    loads: int = 64
    name: ClassVar[str] = "daws"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("share", "reuse"):
            check_number(name, getattr(self, name), 0)
            if getattr(self, name) > 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must be at most 1")
        for name in ("converged", "loads"):
            check_int(name, getattr(self, name), 1)
        if self.loads > MAX_LOADS:
            raise ConfigError(f"loads={self.loads}: must be at most {MAX_LOADS}")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "footprint",
            "share": float(self.share),
            "reuse": float(self.reuse),
            "converged": self.converged,
            "loads": self.loads,
        }
