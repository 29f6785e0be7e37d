"""Define static priority-based cache allocation."""

from __future__ import annotations

from typing import ClassVar, Literal

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings, check_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class PCAL(Policy):
    """Static priority-based cache allocation: few warps allocate lines (a baseline of Koo et al., section 6.4).

    The `tokens` oldest warps of a scheduler load as usual. The next `extra` warps may hit and merge, but bypass the L1
    where they would miss. All others may not issue loads.

    ``tokens="best"`` makes `simulate` find the best static limit first, as for `SWL`. PCAL starts from that number of
    warps and adds the extra ones, two in the example of Khairy et al. (section 6).
    """

    tokens: int | Literal["best"] = "best"
    extra: int = 2
    name: ClassVar[str] = "pcal"
    kind: ClassVar[Kind] = "throttling"
    limit_option: ClassVar[str | None] = "tokens"

    def __post_init__(self) -> None:
        """Check the numbers of warps; refuse numbers with which no warp may load."""
        check_limit("tokens", self.tokens, 0)
        check_int("extra", self.extra, 0)
        if self.tokens == 0 and self.extra == 0:
            raise ConfigError("tokens=0, extra=0: some warp must be allowed to load")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        tokens = int(self.tokens)
        return {"rule": "tokens", "tokens": tokens, "limit": tokens + self.extra}
