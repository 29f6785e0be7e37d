"""Define dynamic scheduling of blocks."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DYNCTA(Policy):
    """Dynamic CTA scheduling: the blocks of an SM follow its idle and waiting cycles (Kayiran et al., PACT 2013).

    An SM begins with half of the blocks that fit. At the end of each `period`, it may have one block more if more than
    `idle` cycles of the period were idle; else one less if all warps waited for memory in more than `high` cycles; else
    one more if they did so in fewer than `low`. The youngest blocks beyond the limit may issue no loads.
    """

    period: int = 2048
    idle: int = 16
    low: int = 128
    high: int = 384
    name: ClassVar[str] = "dyncta"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options; refuse bounds that cross."""
        check_int("period", self.period, 1)
        for name in ("idle", "low", "high"):
            check_int(name, getattr(self, name), 0)
        if self.low > self.high:
            raise ConfigError(f"low={self.low}: must be at most high={self.high}")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "blocks", "period": self.period, "idle": self.idle, "low": self.low, "high": self.high}
