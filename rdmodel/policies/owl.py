"""Define scheduling of warps by groups of blocks."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class OWL(Policy):
    """CTA-aware warp scheduling: one group of blocks goes first, on each SM another (Jog et al., ASPLOS 2013).

    A group has as many blocks as have at least `group` warps; its warps take turns. With `locality`, the first group
    that is not done goes first. Without, a group goes first until none of its warps may issue, and then the next one
    does. With `blp`, neighbouring SMs begin with different groups.
    """

    group: int = 8
    locality: bool = True
    blp: bool = True
    name: ClassVar[str] = "owl"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("group", self.group, 1)
        check_flag("locality", self.locality)
        check_flag("blp", self.blp)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "owl", "group_warps": self.group, "locality": self.locality, "blp": self.blp}
