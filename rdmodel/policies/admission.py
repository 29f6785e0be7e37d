"""Admission: which loads may use the L1, and which bypass it.

A load that bypasses reads its line from the L2 without an MSHR, and leaves nothing in the L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rdmodel.common.checks import check_choice, check_int, check_number
from rdmodel.errors import ConfigError
from rdmodel.policies.base import Kind, Policy

Stalls = Literal["associativity", "all"]
Caches = Literal["l1", "l2", "both"]
Management = Literal["both", "bypass", "protect"]

MOST_ENTRIES = 1 << 12
"""Of a table of loads or of tags."""


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
    """Bypass of streaming applications: a cache closes while hardly anything hits (Khairy et al., section 4.1).

    At the end of every `period` cycles an SM's L1 is closed if more than the share `threshold` of the period's loads
    did not find their tag, else opened; and so is a slice of the L2 by its reads. While it is closed all of these
    bypass, and only tags are kept up to date. `caches` says which can close: ``"l1"``, ``"l2"`` or ``"both"``.
    """

    period: int = 10_000
    threshold: float = 0.9
    caches: Caches = "both"
    name: ClassVar[str] = "streaming-bypass"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse what is no period or no share."""
        check_int("period", self.period, 1)
        check_choice("caches", self.caches, Caches)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ABYP(Policy):
    """Adaptive bypass: loads whose lines go unused stop bringing any (compared with by Koo et al., section 6.5).

    Each SM counts, from 0 to `most`, for `entries` loads by program counter: up when a line that the load brought is
    evicted unused, down when one is used. From `threshold` on the load bypasses where it would miss.
    """

    entries: int = 128
    most: int = 15
    threshold: int = 8
    name: ClassVar[str] = "abyp"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse tables that are empty or huge, and a threshold that is never reached."""
        _check_entries("entries", self.entries)
        check_int("most", self.most, 1)
        check_int("threshold", self.threshold, 1)
        if self.threshold > self.most:
            raise ConfigError(f"threshold={self.threshold}: must be at most most={self.most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class APCM(Policy):
    """Access pattern-aware cache management, load by load, as one warp uses them (Koo et al., sections 4, 5).

    Accesses to the lines of each SM's first warp are counted in `tags` direct-mapped tags, up to `most`. Loads whose
    lines nobody uses again bypass; lines that only their own warp uses again are protected until it is done with
    them. `loads` are told apart. `mode` says whether to ``"bypass"``, to ``"protect"`` or to do ``"both"``.
    """

    mode: Management = "both"
    tags: int = 32
    loads: int = 16
    most: int = 15
    name: ClassVar[str] = "apcm"
    kind: ClassVar[Kind] = "admission"

    def __post_init__(self) -> None:
        """Refuse an unknown mode, and tables that are empty or huge."""
        check_choice("mode", self.mode, Management)
        _check_entries("tags", self.tags)
        _check_entries("loads", self.loads)
        check_int("most", self.most, 2)


def _check_entries(name: str, value: Any) -> None:
    check_int(name, value, 1)
    if value > MOST_ENTRIES:
        raise ConfigError(f"{name}={value}: must be at most {MOST_ENTRIES}")
