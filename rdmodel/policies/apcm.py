"""Define access pattern-aware cache management."""

from __future__ import annotations

from typing import ClassVar, Literal

from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings, check_table

Management = Literal["both", "bypass", "protect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class APCM(Policy):
    """Access pattern-aware cache management: one warp shows how each load is used (Koo et al., sections 4, 5).

    Accesses to the lines of each SM's first warp are counted in `tags` direct-mapped tags, up to `most`. Loads whose
    lines nobody uses again bypass. Lines that only their own warp uses again are protected until that warp is done with
    them. Each SM distinguishes at most `loads` loads. `mode` selects ``"bypass"``, ``"protect"`` or ``"both"``.
    """

    mode: Management = "both"
    tags: int = 32
    loads: int = 16
    most: int = 15
    name: ClassVar[str] = "apcm"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("mode", self.mode, Management)
        check_table("tags", self.tags)
        check_table("loads", self.loads)
        check_int("most", self.most, 2)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "by-pattern",
            "tags": self.tags,
            "loads": self.loads,
            "max_accesses": self.most,
            "bypassing": self.mode != "protect",
            "protecting": self.mode != "bypass",
        }
