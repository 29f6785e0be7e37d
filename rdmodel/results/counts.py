"""Represent the counters of predictions: misses by cause, stores, and all counters of one SM."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, ClassVar

from rdmodel.common.late_dataclass import dataclass


def list_counters(values: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that are counters: those annotated as ``float``."""
    return tuple(counter.name for counter in fields(values) if counter.type in ("float", float))


@dataclass(frozen=True, slots=True)
class MissCounts:
    """Misses by cause (Nugteren et al., 4.3).

    The first request ever to a line is a `compulsory` miss. A `capacity` miss is due to the size of the cache, an
    `associativity` miss to too few ways or to the index function. `CAUSES` has the names of the fields.
    """

    CAUSES: ClassVar[tuple[str, ...]]

    compulsory: float
    capacity: float
    associativity: float

    @property
    def total(self) -> float:
        """All misses: requests that left the SM."""
        return self.compulsory + self.capacity + self.associativity

    def to_dict(self) -> dict[str, float]:
        """Return the misses by cause, and their total."""
        return {**asdict(self), "total": self.total}


MissCounts.CAUSES = list_counters(MissCounts)


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Stores that look up their lines in the L1 (``stores="update"`` or ``"through"``); they are never in a miss rate.

    `requests` are instructions that have transactions, `sectors` are those of all `transactions`, and `hits` those that
    were valid, in flight or written in place. `COUNTS` has the names of the fields.
    """

    COUNTS: ClassVar[tuple[str, ...]]

    requests: float = 0
    transactions: float = 0
    sectors: float = 0
    hits: float = 0

    def to_dict(self) -> dict[str, float]:
        """Return the counts as a plain dict."""
        return asdict(self)


StoreCounts.COUNTS = list_counters(StoreCounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmCounts:
    """Counters of one SM; `steps` is the model's time at its end, not cycles.

    `COUNTERS` has the names of the counters other than `misses` and `stores`. `Prediction` has the same ones, summed
    over SMs, and documents them.
    """

    COUNTERS: ClassVar[tuple[str, ...]]

    sm: int
    blocks: int
    requests: float
    transactions: float
    sectors: float
    hits: float
    latency_misses: float
    misses: MissCounts
    tag_misses: float
    sector_misses: float
    stores: StoreCounts
    stalls_mshr: float
    stalls_ways: float
    bypassed: float
    steps: float
    bypassed_requests: float = 0
    bypassed_transactions: float = 0
    bypassed_sectors: float = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a plain dict."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "misses": self.misses.to_dict(), "stores": self.stores.to_dict()}


SmCounts.COUNTERS = list_counters(SmCounts)


def idle_counts(sm: int) -> SmCounts:
    """Return the counters of an SM that got no block."""
    none = dict.fromkeys(SmCounts.COUNTERS, 0)
    return SmCounts(sm=sm, blocks=0, misses=MissCounts(0, 0, 0), stores=StoreCounts(), **none)
