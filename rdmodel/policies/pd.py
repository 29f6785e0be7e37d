"""Define static protection distance."""

from __future__ import annotations

from typing import ClassVar, Literal

from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings

Scope = Literal["set", "cache"]
Since = Literal["use", "allocation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PD(Policy):
    """Static protection distance (Duong et al., MICRO 2012; a baseline of Koo et al., section 6.5).

    A line is protected until its set (`counts`: or the cache) has served `distance` load transactions since the line
    was last used (`since`: or allocated). A miss that finds all lines of its set protected bypasses. Duong et al. count
    accesses of the set since the last use, Koo et al. those of the cache since the allocation.
    """

    distance: int = 8
    counts: Scope = "set"
    since: Since = "use"
    name: ClassVar[str] = "pd"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("distance", self.distance, 1)
        check_choice("counts", self.counts, Scope)
        check_choice("since", self.since, Since)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "unprotected",
            "distance": self.distance,
            "by_cache": self.counts == "cache",
            "since_allocation": self.since == "allocation",
        }
