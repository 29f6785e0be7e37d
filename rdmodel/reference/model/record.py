"""Record a run of the reference model: its counters and, on request, a log of every try and effect."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, cast

from rdmodel.reference.model.stack import Cause

TryOutcome = Literal["hit", "latency", "miss", "stall"]
"""Result of one attempt of a transaction in the reference model."""


class Moment(NamedTuple):
    """A time in steps and the issue number of a transaction, which together order effects, fills and arrivals."""

    time: int
    order: int


class Try(NamedTuple):
    """One attempt of one transaction.

    `warp` numbers the SM's warps in the order in which they started. `mshrs_before` and `mshrs_after` are the MSHRs in
    use. `latency` and `effect_at` are None for a stall.
    """

    time: int
    warp: int
    line: int
    distance: int
    outcome: TryOutcome
    mshrs_before: int
    mshrs_after: int
    latency: int | None
    effect_at: int | None


class Effect(NamedTuple):
    """The `time` at which a transaction took effect (`paper`) or a miss was filled (`hardware`)."""

    time: int
    line: int


class L2Request(NamedTuple):
    """A request that left an SM of the reference model at `time`: a read of `sectors` that missed, or a `write`.

    A write changes every byte of the sectors in the mask `full`. That of an `atomic` needs the old value.
    """

    time: int
    line: int
    write: bool
    sectors: int = 1
    full: int = 0
    atomic: bool = False


Log = list[Try | Effect]
"""The log of one SM, in order."""


@dataclass(slots=True)
class Counts:
    """Counters of one SM of the reference model: sectors by outcome, stalls by cause, and its `steps`.

    `requests` are the loads that have transactions. `transactions` are those of loads, and `sectors` the sectors that
    they asked for; each is a hit, a latency miss or a miss of one cause. `tag_misses` are transactions whose line was
    absent, `sector_misses` those whose line was there, but not all of its sectors. `bypassed` are misses that got no
    way. Stores that act on the L1, and loads that do not look into it (`bypassed_sectors` ...), have counters of their
    own. `histogram` maps a reuse distance of a line within the
    set (`INFINITE` at a first touch) to the number of transactions that had it. `origins` has the counters by the pc of
    the instruction and the line of the transaction.
    """

    requests: int = 0
    transactions: int = 0
    sectors: int = 0
    hits: int = 0
    latency_misses: int = 0
    compulsory: int = 0
    capacity: int = 0
    associativity: int = 0
    tag_misses: int = 0
    sector_misses: int = 0
    store_requests: int = 0
    store_transactions: int = 0
    store_sectors: int = 0
    store_hits: int = 0
    stalls_mshr: int = 0
    stalls_ways: int = 0
    bypassed: int = 0
    bypassed_requests: int = 0
    bypassed_transactions: int = 0
    bypassed_sectors: int = 0
    steps: int = 0
    histogram: dict[int, int] = field(default_factory=dict)
    origins: dict[tuple[int, int], Counts] = field(default_factory=dict)

    @property
    def misses(self) -> int:
        """Number of sectors that were requested from the L2: compulsory, capacity and associativity misses."""
        return self.compulsory + self.capacity + self.associativity

    def add(self, outcome: Literal["hits", "latency_misses"] | Cause, distance: int) -> None:
        """Count one transaction of a line without sectors, with its reuse distance, under the field `outcome`."""
        self.sectors += 1
        if outcome in ("hits", "latency_misses"):
            setattr(self, outcome, getattr(self, outcome) + 1)
        else:
            self.tag_misses += 1
            self.add_miss(cast(Cause, outcome))
        self.add_distance(distance)

    def add_miss(self, cause: Cause) -> None:
        """Count one sector that missed."""
        setattr(self, cause, getattr(self, cause) + 1)

    def add_distance(self, distance: int) -> None:
        """Count one transaction with the reuse distance of its line."""
        self.transactions += 1
        self.histogram[distance] = self.histogram.get(distance, 0) + 1


class Ledger:
    """The counters of an SM, kept apart by the origin of what is counted: `counts` are those of the present one."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._common = self.counts
        self._origins: dict[tuple[int, int], Counts] = {}

    def turn_to(self, pc: int, line: int) -> None:
        """Count what follows for an instruction and a line."""
        self.counts = self._origins.setdefault((pc, line), Counts())

    def total(self) -> Counts:
        """Return the sums over all origins, with the counters of each."""
        total = Counts(origins=self._origins)
        for counts in (self._common, *self._origins.values()):
            for counter in fields(Counts):
                if counter.name not in ("histogram", "origins"):
                    setattr(total, counter.name, getattr(total, counter.name) + getattr(counts, counter.name))
            for distance, number in counts.histogram.items():
                total.histogram[distance] = total.histogram.get(distance, 0) + number
        return total
