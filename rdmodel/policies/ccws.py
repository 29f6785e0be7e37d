"""Define cache-conscious warp scheduling."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.checks import check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy, Settings

MAX_SCORE_FACTOR = 1 << 16
"""Limit of `CCWS.base` and `CCWS.throttle`: their product with the warps of an SM is exact in double precision."""

MAX_VICTIM_TAGS = 1 << 12
"""Limit of the victim tags of one warp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CCWS(Policy):
    """Cache-conscious warp scheduling: warps that lose locality go first, the last ones wait (Khairy et al., table 4).

    Every warp has a score, at least `base`, which decays by one a cycle. Each warp remembers the tags of the `entries`
    lines that it lost last, in sets of `ways`. A load that misses on such a tag raises the score to `throttle` x cutoff
    x such misses / instructions issued. By descending score, warps may load as long as their scores add up to the
    cutoff, `base` x warps (Rogers, O'Connor and Aamodt, MICRO 2012).
    """

    base: int = 100
    throttle: int = 8
    entries: int = 16
    ways: int = 8
    name: ClassVar[str] = "ccws"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Check the options; refuse tags that do not fill whole sets."""
        for name in ("base", "throttle", "entries", "ways"):
            check_int(name, getattr(self, name), 1)
        if self.entries % self.ways:
            raise ConfigError(f"entries={self.entries}: must be a multiple of ways={self.ways}")
        limits = {"base": MAX_SCORE_FACTOR, "throttle": MAX_SCORE_FACTOR, "entries": MAX_VICTIM_TAGS}
        for name, limit in limits.items():
            if getattr(self, name) > limit:
                raise ConfigError(f"{name}={getattr(self, name)}: must be at most {limit}")

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "rule": "scored",
            "base": self.base,
            "throttle": self.throttle,
            "entries": self.entries,
            "ways": self.ways,
        }
