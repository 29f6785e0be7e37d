"""Define the bypass of loads that would stall."""

from __future__ import annotations

from typing import ClassVar, Literal

from rdmodel.common.checks import check_choice
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings

Stalls = Literal["associativity", "all"]
"""Stalls at which a load bypasses: for want of a way, or of anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BypassOnStall(Policy):
    """A load bypasses the L1 where it would stall (Jia, Shaw and Martonosi, sections 3.4, 5.4).

    `on` names the stalls: ``"associativity"`` for want of a way, ``"all"`` for want of anything.
    """

    on: Stalls = "associativity"
    name: ClassVar[str] = "bypass-on-stall"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the stall."""
        check_choice("on", self.on, Stalls)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"bypass": self.on}
