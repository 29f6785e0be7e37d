"""Define static warp limiting."""

from __future__ import annotations

from typing import ClassVar, Literal

from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings, check_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SWL(Policy):
    """Static warp limiting: only the `warps` oldest warps of a scheduler may issue loads (Khairy et al., section 4.2).

    ``warps="best"`` makes `simulate` try every limit and keep the one with the highest IPC. The machine itself takes
    numbers only.
    """

    warps: int | Literal["best"]
    name: ClassVar[str] = "swl"
    kind: ClassVar[Kind] = "throttling"
    limit_option: ClassVar[str | None] = "warps"

    def __post_init__(self) -> None:
        """Check the limit."""
        check_limit("warps", self.warps, 1)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "oldest", "limit": int(self.warps)}
