"""What a run of the reference leaves behind: counts, and on request a log of every try and effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rdmodel.reference.model.stack import Cause

Outcome = Literal["hit", "latency", "miss", "stall"]


class Try(NamedTuple):
    """One attempt of one transaction; `warp` counts the SM's warps in the order in which they started.

    `mshrs_before` and `mshrs_after` are entries in use; `latency` and `effect_at` are None for a stall.
    """

    time: int
    warp: int
    line: int
    distance: int
    outcome: Outcome
    mshrs_before: int
    mshrs_after: int
    latency: int | None
    effect_at: int | None


class Effect(NamedTuple):
    """`time` at which a transaction took effect (`paper`) or a miss was filled (`hardware`)."""

    time: int
    line: int


class Request(NamedTuple):
    """What left an SM at `time`: a read of a line that missed in the L1, or a `write`."""

    time: int
    line: int
    write: bool


Log = list[Try | Effect]


@dataclass(slots=True)
class Counts:
    """What one SM counted: transactions by outcome, stalls by what was missing, and the final time.

    `bypassed` misses are among the others. `histogram` maps a reuse distance within the set (-1: infinite) to
    the number of transactions that saw it.
    """

    transactions: int = 0
    hits: int = 0
    latency_misses: int = 0
    compulsory: int = 0
    capacity: int = 0
    associativity: int = 0
    stalls_mshr: int = 0
    stalls_ways: int = 0
    bypassed: int = 0
    steps: int = 0
    histogram: dict[int, int] = field(default_factory=dict)

    @property
    def misses(self) -> int:
        """Requests that leave the SM: compulsory, capacity and associativity misses."""
        return self.compulsory + self.capacity + self.associativity

    def add(self, outcome: Literal["hits", "latency_misses"] | Cause, distance: int) -> None:
        """Count one transaction that succeeded, under the field `outcome`."""
        self.transactions += 1
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.histogram[distance] = self.histogram.get(distance, 0) + 1
