"""Define the bypass of streaming applications."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from rdmodel.common.checks import check_choice, check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings

ClosingCaches = Literal["l1", "l2", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingBypass(Policy):
    """Bypass of streaming applications: a cache closes while hardly anything hits (Khairy et al., section 4.1).

    At the end of every `period` cycles, the L1 of an SM closes if more than the share `threshold` of the period's loads
    did not find their tag; otherwise it opens. A slice of the L2 does the same by its reads. While a cache is closed,
    all of these requests bypass it, and only its tags are kept up to date. `caches` names the caches that can close:
    ``"l1"``, ``"l2"`` or ``"both"``.

    With `mpki`, an L1 whose loads missed more often than that per 1,000 thread instructions of the period is open: it
    thrashes, and other policies can help. None: the share alone decides.
    """

    period: int = 10_000
    threshold: float = 0.9
    caches: ClosingCaches = "both"
    mpki: float | None = None
    name: ClassVar[str] = "streaming-bypass"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Check the options."""
        check_int("period", self.period, 1)
        check_choice("caches", self.caches, ClosingCaches)
        check_number("threshold", self.threshold, 0)
        if self.threshold > 1:
            raise ConfigError(f"threshold={self.threshold}: must be at most 1")
        if self.mpki is not None:
            check_number("mpki", self.mpki, 0)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "all" if self.caches == "l2" else "unless-closed",
            "closing_slices": self.caches != "l1",
            "period": self.period,
            "missing_share": float(self.threshold),
            "thrashing_mpki": math.inf if self.mpki is None else float(self.mpki),
        }
