"""Define the result of a simulation: counters of SMs, L2 and DRAM, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.rates import plain_rate, rate_of
from rdmodel.results.counts import MissCounts
from rdmodel.results.describe import describe_l1
from rdmodel.results.metrics import SECTOR_BYTES, l1_metrics, l2_metrics
from rdmodel.results.outcomes import draw_outcomes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class ReservationFails:
    """Cycles in which the first transaction of the load/store unit stalled, by the first resource that it lacked.

    A way that is not reserved (`line_alloc`), an MSHR (`mshr_entry`), room in the MSHR of its line (`mshr_merge`), or
    room in the miss queue (`miss_queue`); Khairy et al., GPGPU-8 2015, section 3.2.
    """

    line_alloc: int
    mshr_entry: int
    mshr_merge: int
    miss_queue: int

    @property
    def total(self) -> int:
        """Stalled cycles for all reasons."""
        return self.line_alloc + self.mshr_entry + self.mshr_merge + self.miss_queue

    def to_dict(self) -> dict[str, int]:
        """Return the four counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Contention:
    """Evictions, by the warps that brought and evict the line (Jia et al., HPCA 2014, sections 2.2 to 2.4)."""

    intra_warp: int
    cross_warp_intra_block: int
    cross_block: int

    def to_dict(self) -> dict[str, int]:
        """Return the three counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Counts:
    """Counters of all slices of the L2; `stalls` are L2 cycles in which a request had to wait, by cause.

    `partition_sectors` are sectors that moved between partitions, if there are several. `atomic_sectors` are those
    (lines, where these have no sectors) that atomics fetched from the DRAM.
    """

    reads: int
    hits: int
    pending_hits: int
    misses: int
    bypassed: int
    writes: int
    write_hits: int
    stalls: Mapping[str, int]
    partition_sectors: int = 0
    atomic_sectors: int = 0

    @property
    def miss_rate(self) -> float:
        """Misses per read, 0 to 1; 0 without reads."""
        return self.misses / self.reads if self.reads else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the miss rate; no `atomic_sectors` if it is 0."""
        plain = asdict(self)
        if not self.atomic_sectors:
            del plain["atomic_sectors"]
        return {**plain, "stalls": dict(self.stalls), "miss_rate": self.miss_rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class DramCounts:
    """Counters of all DRAM channels: reads and writes, rows opened, and bytes moved.

    A read or a write is an access to a line or, where lines have sectors, to the sectors that are fetched together.
    `constant_sectors` are the sectors of constant memory that the launch reads first. They are among `bytes`, but not
    among `reads`: they take no time.
    """

    reads: int
    writes: int
    activations: int
    bytes: int
    constant_sectors: int = 0

    @property
    def row_hit_rate(self) -> float:
        """Requests that found their row open, per request, 0 to 1; 0 without requests."""
        requests = self.reads + self.writes
        return (requests - self.activations) / requests if requests else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the row hit rate; no `constant_sectors` if it is 0."""
        plain = asdict(self)
        if not self.constant_sectors:
            del plain["constant_sectors"]
        return {**plain, "row_hit_rate": self.row_hit_rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Messages over the crossbar and their bytes: requests of loads, stores and write-backs, and responses."""

    read_messages: int
    write_messages: int
    response_messages: int
    request_bytes: int
    response_bytes: int

    def to_dict(self) -> dict[str, int]:
        """Return the counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class MissLatencies:
    """Cycles from an L1 miss to its data: ``counts[i]`` misses took ``cycles[i]`` cycles (int64, ascending).

    Latencies beyond 2^20 cycles are counted as 2^20.
    """

    cycles: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Mean latency; 0 without misses."""
        total = int(self.counts.sum())
        return float(self.cycles @ self.counts) / total if total else 0.0

    def quantile(self, share: float) -> int:
        """Return the latency that at least a `share` (0 to 1) of the misses do not exceed; 0 without misses."""
        if not len(self.counts):
            return 0
        below = np.cumsum(self.counts)
        return int(self.cycles[np.searchsorted(below, share * below[-1])])

    def to_dict(self) -> dict[str, float]:
        """Return the shortest, mean, median, 95 % and longest latency."""
        names = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}
        return {**{name: self.quantile(share) for name, share in names.items()}, "mean": self.mean}


@dataclass(frozen=True, slots=True)
class StoreLookups:
    """Stores that look up their lines in the L1: transactions, their sectors, and the sectors that hit."""

    transactions: float = 0
    sectors: float = 0
    hits: float = 0

    def to_dict(self) -> dict[str, float]:
        """Return the counts as a plain dict."""
        return asdict(self)


NO_STORE_LOOKUPS = StoreLookups()
"""Counters of a machine whose stores do not look up their lines."""


class _L1Counts:
    """Sums of the L1 counters that one SM and all SMs have in common."""

    __slots__ = ()
    hits: int
    pending_hits: int
    misses: MissCounts
    writes: int
    bypassed: int
    lookups: int | None

    @property
    def transactions(self) -> float:
        """All load transactions, as in `Prediction`: `loads` and `bypassed`."""
        return self.loads + self.bypassed

    @property
    def loads(self) -> float:
        """Load transactions that looked for their line in the L1."""
        return self.sectors if self.lookups is None else self.lookups

    @property
    def sectors(self) -> float:
        """Sectors that `loads` asked for; `miss_rate` is a share of these. Equal to `loads` where lines have one."""
        return self.hits + self.pending_hits + self.misses.total

    @property
    def stores(self) -> int:
        """Transactions of stores and atomics; another name of `writes`."""
        return self.writes


@dataclass(frozen=True, slots=True, kw_only=True)
class SmSimulation(_L1Counts):
    """Counters of one SM; the fields have the same meaning as in `Simulation`."""

    sm: int
    blocks: int
    warp_instructions: int
    instructions: int
    hits: int
    pending_hits: int
    misses: MissCounts
    writes: int
    bypassed: int
    reservation_fails: ReservationFails
    contention: Contention
    lookups: int | None = None
    tag_misses: int = 0
    sector_misses: int = 0
    store_lookups: StoreLookups = NO_STORE_LOOKUPS

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a plain dict."""
        plain = asdict(self)
        stores = plain.pop("writes")
        del plain["lookups"]
        return {
            **plain,
            "sectors": self.sectors,
            "misses": self.misses.to_dict(),
            "stores": stores,
            "transactions": self.transactions,
            "loads": self.loads,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulation(_L1Counts, Presented):
    """Counters of the simulated machine for one kernel, summed over the SMs (`per_sm` has them by SM).

    All load transactions, as in `Prediction`, are ``transactions = loads + bypassed``. Those that looked for their line
    in the L1 are `loads`; those that a policy made bypass it are `bypassed`. They asked for ``sectors = hits +
    pending_hits + misses.total`` sectors; where lines have no sectors, `sectors` and `loads` are equal, and `lookups`
    is None. `tag_misses` are loads whose line was absent, `sector_misses` those whose line was there, but not all of
    the sectors. `store_lookups` counts the stores of GPUs whose stores write in place.
    `pending_hits` merged into the MSHR of a line in flight. `stores` (also `writes`) are transactions of stores and
    atomics. `instructions` counts thread instructions, `warp_instructions` warp instructions. `cycles` are SM cycles
    until the last block ended. `l2` and `dram` are None with an ideal memory. `found` holds the limits that policies
    have found during the run: ``{"swl.warps": 3}`` or ``{"dwt-cs.limit": 2}``.
    """

    kernel: str
    gpu: str
    seed: int
    sms: int
    cycles: int
    instructions: int
    warp_instructions: int
    hits: int
    pending_hits: int
    misses: MissCounts
    writes: int
    bypassed: int
    reservation_fails: ReservationFails
    contention: Contention
    traffic: Traffic
    miss_latencies: MissLatencies = field(repr=False, compare=False)
    l2: L2Counts | None
    dram: DramCounts | None
    trace_seconds: float = field(compare=False)
    seconds: float = field(compare=False)
    config: Mapping[str, Any] = field(repr=False)
    per_sm: tuple[SmSimulation, ...] = field(repr=False)
    found: Mapping[str, int] = field(default_factory=dict)
    lookups: int | None = None
    tag_misses: int = 0
    sector_misses: int = 0
    store_lookups: StoreLookups = NO_STORE_LOOKUPS

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw hits, pending hits and misses by cause, in percent of the requests of loads, and return the axes.

        They are new ones by default; needs matplotlib (extra ``plot``). Raises `ConfigError` without such requests.
        """
        waiting = ("pending hits", self.pending_hits)
        return draw_outcomes(ax, self, waiting, "requests", f"{self.kernel} on {self.gpu}, {self.cycles:,} cycles")

    @property
    def miss_rate(self) -> float:
        """Misses per sector of loads that did not bypass the L1, 0 to 1; 0 if all did, NaN without loads."""
        return rate_of(self.misses.total, self.sectors or self.bypassed)

    @property
    def hit_rate(self) -> float:
        """Share of all loads that the L1 answered, 0 to 1; NaN without loads.

        It is the share of the load transactions that did not bypass the L1, times that of their sectors that were there
        or in flight.
        """
        return rate_of((1 - self.miss_rate) * self.loads, self.transactions)

    @property
    def pending_hit_rate(self) -> float:
        """Pending hits per sector of loads that did not bypass the L1, 0 to 1; 0 if all did, NaN without loads."""
        return rate_of(self.pending_hits, self.sectors or self.bypassed)

    @property
    def ipc(self) -> float:
        """Thread instructions per cycle, over all SMs."""
        return self.instructions / self.cycles if self.cycles else 0.0

    @property
    def mpki(self) -> float:
        """Misses per 1000 thread instructions."""
        return 1000 * self.misses.total / self.instructions if self.instructions else 0.0

    @property
    def fails_per_kilocycle(self) -> dict[str, float]:
        """Reservation failures by type, per 1000 cycles and SM."""
        scale = 1000 / (self.cycles * self.sms) if self.cycles else 0.0
        return {name: scale * count for name, count in self.reservation_fails.to_dict().items()}

    @property
    def unit(self) -> str:
        """Name of the things that hits and misses count."""
        return "load transactions" if self.lookups is None else "sectors"

    def __str__(self) -> str:
        """Return the simulation in one line."""
        rate = f"L1 miss rate {100 * self.miss_rate:.2f} % of {self.sectors:,.0f} {self.unit}"
        return (
            f"{self.kernel} on {self.gpu} (simulated): {rate if self.transactions else 'no loads'}, "
            f"{self.cycles:,} cycles, IPC {self.ipc:.1f}"
        )

    def metrics(self) -> dict[str, float]:
        """Return the counters by the names that Nsight Compute has for them, as `Prediction.metrics` does.

        The machine counts no requests of warps. Loads that bypass the L1 are counted by lines only, so with some of
        them the counters of loads at the L1 are missing, as those of the L2 and the DRAM are with an ideal memory.

        Raises
        ------
        ConfigError
            If the sectors of the L1 have not 32 bytes.
        """
        loads = {"sectors": self.sectors, "hits": self.hits + self.pending_hits}
        behaviour = self.config["gpu"]["l1"].get("stores") if self.config["options"]["stores"] else None
        metrics = l1_metrics(loads, self.store_lookups.to_dict(), self.config, behaviour)
        if self.bypassed:
            metrics = {name: value for name, value in metrics.items() if "_op_st" in name}
        gpu = self.config["gpu"]
        sector = gpu["l2"].get("sector") or gpu["l1"]["line"]
        if self.l2 is not None and self.dram is not None and sector == SECTOR_BYTES:
            served = self.l2.reads, self.l2.reads - self.l2.misses, self.l2.writes
            # A read moves the sectors that are fetched together, a write one sector.
            dram_reads = self.dram.bytes // SECTOR_BYTES - self.dram.writes
            others = self.dram.constant_sectors + self.l2.atomic_sectors
            metrics |= l2_metrics(*served, dram_reads, self.dram.writes, others=others)
        return metrics

    def to_dict(self) -> dict[str, Any]:
        """Return the simulation as plain numbers, strings and dicts, ready for JSON."""
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "seed": self.seed,
            "sms": self.sms,
            "cycles": self.cycles,
            "instructions": self.instructions,
            "warp_instructions": self.warp_instructions,
            "ipc": self.ipc,
            "transactions": self.transactions,
            "loads": self.loads,
            "hits": self.hits,
            "pending_hits": self.pending_hits,
            "misses": self.misses.to_dict(),
            "miss_rate": plain_rate(self.miss_rate),
            "mpki": self.mpki,
            "stores": self.stores,
            "bypassed": self.bypassed,
            "sectors": self.sectors,
            "tag_misses": self.tag_misses,
            "sector_misses": self.sector_misses,
            "store_lookups": self.store_lookups.to_dict(),
            "reservation_fails": self.reservation_fails.to_dict(),
            "fails_per_kilocycle": self.fails_per_kilocycle,
            "contention": self.contention.to_dict(),
            "traffic": self.traffic.to_dict(),
            "miss_latency": self.miss_latencies.to_dict(),
            "l2": None if self.l2 is None else self.l2.to_dict(),
            "dram": None if self.dram is None else self.dram.to_dict(),
            "trace_seconds": self.trace_seconds,
            "seconds": self.seconds,
            "found": dict(self.found),
            "per_sm": [sm.to_dict() for sm in self.per_sm],
            "l1": describe_l1(self.config["gpu"]) if "gpu" in self.config else None,
            "config": dict(self.config),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the simulation as one flat row: for CSV and data frames."""
        plain = self.to_dict()
        row = {k: v for k, v in plain.items() if isinstance(v, str | int | float) or k == "miss_rate"}
        for group in ("misses", "reservation_fails", "contention", "traffic", "miss_latency", "l2", "dram"):
            for name, value in (plain[group] or {}).items():
                if isinstance(value, int | float):
                    row[f"{group}_{name}"] = value
        return row | {f"found_{name}": value for name, value in self.found.items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the main counters in one row, with those of the L2 and the DRAM if the run had them."""
        row = {
            "kernel": self.kernel,
            "GPU": self.gpu,
            "SMs": self.sms,
            "cycles": self.cycles,
            "IPC": self.ipc,
            "L1 miss rate (%)": 100 * self.miss_rate,
            "transactions": self.transactions,
            "sectors": self.sectors,
            "hits": self.hits,
            "pending hits": self.pending_hits,
            "misses": self.misses.total,
        }
        for name, part in (("L2", self.l2), ("DRAM", self.dram)):
            counts = {} if part is None else part.to_dict()
            row |= {f"{name} {count.replace('_', ' ')}": value for count, value in counts.items()}
        return [row]
