"""Define dynamic protection distance."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings, check_table


@dataclass(frozen=True, slots=True, kw_only=True)
class PDP(Policy):
    """Dynamic protection distance: each L1 follows the reuse distances of some sets (Duong et al., MICRO 2012).

    Lines are protected as in `PD`. At the end of each `period`, an L1 chooses the distance, up to `most`, that promises
    most hits per line and load. It knows the reuse distances of the loads of every `every`-th set.
    """

    period: int = 10_000
    most: int = 256
    every: int = 8
    name: ClassVar[str] = "pdp"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("period", self.period, 1)
        check_table("most", self.most)
        check_int("every", self.every, 1)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "unprotected",
            "distance": 1,
            "period": self.period,
            "max_distance": self.most,
            "sampled_every": self.every,
        }
