"""Admission: which loads may use the L1, and which bypass it.

A load that bypasses reads its line from the L2 without an MSHR, and leaves nothing in the L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rdmodel.checks import check_choice, check_int, check_number
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy

Stalls = Literal["associativity", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BypassAll(Policy):
    """No L1 for loads at all: every one bypasses (Khairy et al., section 3.1)."""

    name: ClassVar[str] = "bypass-all"
    kind: ClassVar[Kind] = "admission"


@dataclass(frozen=True, slots=True, kw_only=True)
class BypassOnStall(Policy):
    """A load bypasses where it would wait for something in the L1 (Jia, Shaw and Martonosi, sections 3.4, 5.4).

    `on` says for what: ``"associativity"``, a way; ``"all"``, anything.
    """

    on: Stalls = "associativity"
    name: ClassVar[str] = "bypass-on-stall"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse an unknown stall."""
        check_choice("on", self.on, Stalls)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingBypass(Policy):
    """Bypass of streaming applications: the L1 closes while hardly anything hits (Khairy et al., section 4.1).

    At the end of every `period` cycles an SM's L1 is closed if more than the share `threshold` of the period's loads
    did not find their tag, else opened. While it is closed all loads bypass, and only tags are kept up to date.
    """

    period: int = 10_000
    threshold: float = 0.9
    name: ClassVar[str] = "streaming-bypass"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse what is no period or no share."""
        check_int("period", self.period, 1)
        check_number("threshold", self.threshold, 0)
        if self.threshold > 1:
            raise ConfigError(f"threshold={self.threshold}: must be at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PD(Policy):
    """Static protection distance (compared with by Koo et al., section 6.5).

    A line is protected until its set has seen `distance` load transactions since the line was last used. A miss that
    would displace a protected line bypasses.
    """

    distance: int = 8
    name: ClassVar[str] = "pd"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse what is no distance."""
        check_int("distance", self.distance, 1)
