"""Define static protection distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rdmodel.common.checks import check_int
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PD(Policy):
    """Static protection distance (a baseline of Koo et al., section 6.5).

    A line is protected until its set has seen `distance` load transactions since the line was last used. A miss that
    would displace a protected line bypasses.
    """

    distance: int = 8
    name: ClassVar[str] = "pd"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the distance."""
        check_int("distance", self.distance, 1)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "unprotected", "distance": self.distance}
