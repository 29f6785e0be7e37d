"""Throttling: which warps may issue loads.

A warp's rank is its position by age among the warps of its scheduler that have not ended and do not wait at a
barrier; the oldest has rank 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rdmodel.common.checks import check_int, check_number
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy

MOST_SCORE = 1 << 16
"""Of `CCWS.base` and `CCWS.throttle`: their product with the warps of an SM is exact in double precision."""

MOST_TAGS = 1 << 12
"""Victim tags of one warp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SWL(Policy):
    """Static warp limiting: of every scheduler, the `warps` oldest warps may issue loads (Khairy et al., section 4.2).

    ``warps="best"`` tries every limit and keeps the one with the highest IPC; the machine itself knows numbers only.
    """

    warps: int | Literal["best"]
    name: ClassVar[str] = "swl"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        if isinstance(self.warps, str):
            if self.warps != "best":
                raise ConfigError(f"warps={self.warps!r}: must be a whole number or 'best'")
            return
        check_int("warps", self.warps, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PCAL(Policy):
    """Static priority-based cache allocation: who may allocate lines (compared with by Koo et al., section 6.4).

    Of every scheduler, the `tokens` oldest warps load as ever; the `extra` next ones may hit and merge, but bypass the
    L1 where they would miss; all others may not issue loads.
    """

    tokens: int
    extra: int
    name: ClassVar[str] = "pcal"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Refuse numbers with which nobody may ever load."""
        check_int("tokens", self.tokens, 0)
        check_int("extra", self.extra, 0)
        if not self.tokens + self.extra:
            raise ConfigError("tokens=0, extra=0: some warp must be allowed to load")


@dataclass(frozen=True, slots=True, kw_only=True)
class DWTCS(Policy):
    """Dynamic warp throttling via cores sampling: SMs try a limit each (Khairy et al., section 4.2).

    Once the misses per 1000 thread instructions exceed `mpki` in `confirm` periods of `period` cycles in a row, SM i
    runs with i + 1 warps per scheduler for `sample` periods; the limit under which most instructions were executed
    then holds for all SMs to the end. `limit` is one known from an earlier launch of the kernel: it saves the sampling.
    """

    period: int = 10_000
    mpki: float = 10.0
    confirm: int = 3
    sample: int = 1
    limit: int | None = None
    name: ClassVar[str] = "dwt-cs"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        for name in ("period", "confirm", "sample"):
            check_int(name, getattr(self, name), 1)
        check_number("mpki", self.mpki, 0)
        if self.limit is not None:
            check_int("limit", self.limit, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CCWS(Policy):
    """Cache-conscious warp scheduling: warps that lose locality go first, the last ones wait (Khairy et al., table 4).

    Every warp has a score, at least `base`, which decays by one a cycle. A load that misses a line whose tag is among
    the `entries` that the warp lost last, in sets of `ways`, raises it to `throttle` x cutoff x such misses /
    instructions issued. By descending score, warps may load as long as their scores add up to the cutoff, `base` x
    warps (Rogers, O'Connor and Aamodt, MICRO 2012).
    """

    base: int = 100
    throttle: int = 8
    entries: int = 16
    ways: int = 8
    name: ClassVar[str] = "ccws"
    kind: ClassVar[Kind] = "throttling"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing, and tags that no sets can be made of."""
        for name in ("base", "throttle", "entries", "ways"):
            check_int(name, getattr(self, name), 1)
        if self.entries % self.ways:
            raise ConfigError(f"entries={self.entries}: must be a multiple of ways={self.ways}")
        for name, most in (("base", MOST_SCORE), ("throttle", MOST_SCORE), ("entries", MOST_TAGS)):
            if getattr(self, name) > most:
                raise ConfigError(f"{name}={getattr(self, name)}: must be at most {most}")
