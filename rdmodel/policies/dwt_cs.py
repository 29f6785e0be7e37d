"""Define dynamic warp throttling via cores sampling."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DWTCS(Policy):
    """Dynamic warp throttling via cores sampling: each SM tries another limit (Khairy et al., section 4.2).

    Once the misses per 1000 thread instructions exceed `mpki` in `confirm` periods of `period` cycles in a row, SM i
    runs with i + 1 warps per scheduler for `sample` periods. The limit under which most instructions were executed
    then holds for all SMs to the end. `limit` is a limit that is known from an earlier launch of the kernel; with it
    the SMs skip the sampling.
    """

    period: int = 10_000
    mpki: float = 10.0
    confirm: int = 3
    sample: int = 3
    limit: int | None = None
    name: ClassVar[str] = "dwt-cs"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("period", "confirm", "sample"):
            check_int(name, getattr(self, name), 1)
        check_number("mpki", self.mpki, 0)
        if self.limit is not None:
            check_int("limit", self.limit, 1)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "sampled",
            "limit": -1 if self.limit is None else self.limit,
            "period": self.period,
            "mpki": float(self.mpki),
            "confirm": self.confirm,
            "sample": self.sample,
        }
