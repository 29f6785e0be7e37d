"""Define alternative scheduling of blocks: fewer blocks, and neighbours on one SM."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCTA(Policy):
    """Lazy and block CTA scheduling: as many blocks as an SM needs, neighbours on one SM (Lee et al., HPCA 2014).

    With `lcs`, an SM takes all blocks that fit until its first block ends. From then on, it has as many as the
    instructions of all its blocks so far are times those of the block with most. Blocks begin in groups of `group`
    consecutive ones, each on one SM; 1: alone. With `baws`, schedulers stay with a group, whose warps take turns.
    """

    lcs: bool = True
    group: int = 2
    baws: bool = False
    name: ClassVar[str] = "lazy-cta"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options."""
        check_flag("lcs", self.lcs)
        check_int("group", self.group, 1)
        check_flag("baws", self.baws)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "lazy", "lcs": self.lcs, "group": self.group, "baws": self.baws}
