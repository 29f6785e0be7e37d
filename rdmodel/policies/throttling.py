"""Throttling: which warps may issue loads.

A warp's rank is its position by age among the warps of its scheduler that have not ended and do not wait at a
barrier; the oldest has rank 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rdmodel.checks import check_int, check_number
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy


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
    then holds for all SMs to the end. `limit` is one known from an earlier launch: it holds from the beginning.
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
