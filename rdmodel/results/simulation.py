"""What a simulation says, as frozen values: counters of SMs, L2 and DRAM, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.results.describe import frame
from rdmodel.results.prediction import MissCounts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ReservationFails:
    """Cycles in which the first transaction of the load/store unit had to wait, by what it lacked first.

    A way that is not reserved (`line_alloc`), an MSHR (`mshr_entry`), room in the MSHR of its line (`mshr_merge`),
    room in the miss queue (`miss_queue`). Khairy et al., GPGPU-8 2015, section 3.2.
    """

    line_alloc: int
    mshr_entry: int
    mshr_merge: int
    miss_queue: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.line_alloc + self.mshr_entry + self.mshr_merge + self.miss_queue

    def to_dict(self) -> dict[str, int]:
        """Return the four counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Contention:
    """Evictions by who brought the evicted line and who evicts it (Jia et al., HPCA 2014, sections 2.2 to 2.4)."""

    intra_warp: int
    cross_warp_intra_block: int
    cross_block: int

    def to_dict(self) -> dict[str, int]:
        """Return the three counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Counts:
    """What the slices of the L2 counted together; `stalls` are L2 cycles in which a request had to wait, by cause."""

    reads: int
    hits: int
    pending_hits: int
    misses: int
    bypassed: int
    writes: int
    write_hits: int
    stalls: Mapping[str, int]

    @property
    def miss_rate(self) -> float:
        """Misses per read, 0 to 1; 0 without reads."""
        return self.misses / self.reads if self.reads else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the miss rate."""
        return {**asdict(self), "stalls": dict(self.stalls), "miss_rate": self.miss_rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class DramCounts:
    """What the DRAM channels counted together: lines read and written, rows opened, and bytes moved."""

    reads: int
    writes: int
    activations: int
    bytes: int

    @property
    def row_hit_rate(self) -> float:
        """Requests that found their row open, per request, 0 to 1; 0 without requests."""
        requests = self.reads + self.writes
        return (requests - self.activations) / requests if requests else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the row hit rate."""
        return {**asdict(self), "row_hit_rate": self.row_hit_rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Messages over the crossbar and their bytes: requests of loads, stores and write-backs, and answers."""

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
    """Cycles from an L1 miss to its data: `counts` (int64) of misses took `cycles` (int64, ascending).

    Latencies beyond 2^20 cycles are counted as 2^20.
    """

    cycles: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Their mean; 0 without misses."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SmSimulation:
    """What one SM counted; the fields mean what they mean in `Simulation`."""

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

    @property
    def transactions(self) -> float:
        """All transactions that accessed the L1."""
        return self.hits + self.pending_hits + self.misses.total + self.writes + self.bypassed

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a plain dict."""
        return {**asdict(self), "misses": self.misses.to_dict(), "transactions": self.transactions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the simulated machine did with a kernel; counts are summed over the SMs (`per_sm` keeps them apart).

    ``transactions = hits + pending_hits + misses.total + writes + bypassed``, always. `pending_hits` merged into the
    MSHR of a line in flight, `writes` are transactions of stores and atomics. `instructions` counts threads,
    `warp_instructions` warps. `cycles` are SM cycles until the last block ended. `l2` and `dram` are None with an
    ideal memory. `bypassed` loads went past the L1, as a policy wanted; they are not among `loads`. `found` is what
    policies have found out on the way: ``{"swl.warps": 3}`` or ``{"dwt-cs.limit": 2}``.
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

    @property
    def transactions(self) -> float:
        """All transactions that accessed the L1."""
        return self.hits + self.pending_hits + self.misses.total + self.writes + self.bypassed

    @property
    def loads(self) -> float:
        """Transactions of loads that looked for their line in the L1: what `miss_rate` is a part of."""
        return self.hits + self.pending_hits + self.misses.total

    @property
    def miss_rate(self) -> float:
        """Misses per load transaction that did not bypass the L1, 0 to 1; 0 without any."""
        return self.misses.total / self.loads if self.loads else 0.0

    @property
    def pending_hit_rate(self) -> float:
        """Pending hits per load transaction that did not bypass the L1, 0 to 1."""
        return self.pending_hits / self.loads if self.loads else 0.0

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

    def __str__(self) -> str:
        """Return the simulation in one line."""
        return (
            f"{self.kernel} on {self.gpu} (simulated): L1 miss rate {100 * self.miss_rate:.2f} % "
            f"of {self.loads:,.0f} load transactions, {self.cycles:,} cycles, IPC {self.ipc:.1f}"
        )

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
            "hits": self.hits,
            "pending_hits": self.pending_hits,
            "misses": self.misses.to_dict(),
            "miss_rate": self.miss_rate,
            "mpki": self.mpki,
            "writes": self.writes,
            "bypassed": self.bypassed,
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
            "config": dict(self.config),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the simulation as one flat row: for CSV and data frames."""
        plain = self.to_dict()
        row = {k: v for k, v in plain.items() if isinstance(v, str | int | float)}
        for group in ("misses", "reservation_fails", "contention", "traffic", "miss_latency", "l2", "dram"):
            for name, value in (plain[group] or {}).items():
                if isinstance(value, int | float):
                    row[f"{group}_{name}"] = value
        return row | {f"found_{name}": value for name, value in self.found.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the simulation as a data frame of one row; needs pandas (extra ``frame``)."""
        return frame([self.to_row()])
