"""What a prediction says, as frozen values. Results carry the configuration and the seed that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from rdmodel.common.estimate import Estimate
from rdmodel.results.describe import frame
from rdmodel.reuse.histogram import Histogram

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class MissCounts:
    """Misses by cause (Nugteren et al., 4.3): first request ever; too small a cache; too few ways or a bad index."""

    compulsory: float
    capacity: float
    associativity: float

    @property
    def total(self) -> float:
        """All misses: requests that left the SM."""
        return self.compulsory + self.capacity + self.associativity

    def to_dict(self) -> dict[str, float]:
        """Return the three causes and their total."""
        return {
            "compulsory": self.compulsory,
            "capacity": self.capacity,
            "associativity": self.associativity,
            "total": self.total,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SmCounts:
    """What one SM counted. `steps` is the model's time at the end, not cycles."""

    sm: int
    blocks: int
    transactions: float
    hits: float
    latency_misses: float
    misses: MissCounts
    stalls_mshr: float
    stalls_ways: float
    bypassed: float
    steps: float

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a plain dict."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "misses": self.misses.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Prediction:
    """What the L2 does with the requests of the modelled SMs (docs/model.md section 12).

    ``reads = hits + misses``: reads are the L1 misses of the modelled SMs, which have the whole L2 to themselves: with
    `sms_modelled` fewer than all there is less to hit, too. `writes` are transactions of stores and atomics,
    `write_hits` those that found their line. `write_backs` are dirty lines that had to go; the `dirty` ones that the
    L2 still holds at the end are not among them. A `line` has so many bytes.
    """

    sms_modelled: int
    line: int
    reads: float
    hits: float
    misses: float
    writes: float
    write_hits: float
    write_backs: float
    dirty: float

    @property
    def miss_rate(self) -> float:
        """Misses per read, 0 to 1; 0 without reads."""
        return self.misses / self.reads if self.reads else 0.0

    @property
    def bytes(self) -> float:
        """Bytes of the lines that are read and written by the modelled SMs."""
        return (self.reads + self.writes) * self.line

    @property
    def dram_bytes(self) -> float:
        """Bytes of the lines that are read from DRAM (misses) and written to it (write-backs)."""
        return (self.misses + self.write_backs) * self.line

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and what follows from them."""
        return {
            **asdict(self),
            "miss_rate": self.miss_rate,
            "bytes": self.bytes,
            "dram_bytes": self.dram_bytes,
        }


def mean_l2(runs: Sequence[L2Prediction]) -> L2Prediction:
    """Return the mean of every count over runs of the same SMs."""
    counts = ("reads", "hits", "misses", "writes", "write_hits", "write_backs", "dirty")
    means: dict[str, Any] = {name: float(sum(getattr(run, name) for run in runs) / len(runs)) for name in counts}
    return replace(runs[0], **means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One component switched off: `misses` without it, and `difference` = misses with it minus without, signed."""

    component: str
    misses: float
    difference: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a plain dict."""
        return {"component": self.component, "misses": self.misses, "difference": self.difference}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the L1 data caches of the modelled SMs do with a kernel.

    ``transactions = hits + latency_misses + misses.total``, always. `latency_misses` are requests to a line that is
    already in flight: they wait, but cause no memory request, hardware counters do not count them as misses, and
    `miss_rate` leaves them out. Counts are summed over the modelled SMs (`per_sm` keeps them apart) and, where
    several seeds were run (`runs`), are means over the runs. Where only a sample was run, `estimates` has what it says
    of the whole, by name ("miss_rate", "transactions", ...). `instructions` are the warp instructions of the grid, gaps
    included; None where they were not counted (`rdmodel.estimate` counts them).
    `l2` is None unless asked for (``l2=True``).
    """

    kernel: str
    gpu: str
    definition: str
    seed: int
    sms_modelled: int
    transactions: float
    hits: float
    latency_misses: float
    misses: MissCounts
    stalls_mshr: float
    stalls_ways: float
    bypassed: float
    steps: float
    histogram: Histogram | None = field(repr=False)
    trace_seconds: float = field(compare=False)
    seconds: float = field(compare=False)
    config: Mapping[str, Any] = field(repr=False)
    per_sm: tuple[SmCounts, ...] = field(repr=False)
    runs: tuple[Prediction, ...] = field(default=(), repr=False)
    l2: L2Prediction | None = field(default=None, repr=False)
    ablation: tuple[Ablation, ...] = field(default=(), repr=False)
    breakdown: Mapping[str, float] | None = field(default=None, repr=False)
    estimates: Mapping[str, Estimate] = field(default_factory=dict, repr=False)
    instructions: float | None = field(default=None, repr=False)

    @property
    def miss_rate(self) -> float:
        """Misses per transaction, 0 to 1, latency misses left out: what hardware counters report."""
        return self.misses.total / self.transactions

    @property
    def latency_miss_rate(self) -> float:
        """Requests to lines in flight per transaction, 0 to 1."""
        return self.latency_misses / self.transactions

    @property
    def stalls(self) -> float:
        """Tries that failed for want of an MSHR or a way; they are not misses."""
        return self.stalls_mshr + self.stalls_ways

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean miss rate over the runs (Student's t); None for a single run."""
        if len(self.runs) < 2:
            return None
        return mean_interval([run.miss_rate for run in self.runs])

    def __str__(self) -> str:
        """Return the prediction in one line."""
        return (
            f"{self.kernel} on {self.gpu} ({self.definition}): L1 miss rate {100 * self.miss_rate:.2f} % "
            f"of {self.transactions:,.0f} transactions"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as plain numbers, strings and dicts, ready for JSON."""
        plain: dict[str, Any] = {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "definition": self.definition,
            "seed": self.seed,
            "sms_modelled": self.sms_modelled,
            "transactions": self.transactions,
            "hits": self.hits,
            "latency_misses": self.latency_misses,
            "misses": self.misses.to_dict(),
            "stalls": self.stalls,
            "miss_rate": self.miss_rate,
            "latency_miss_rate": self.latency_miss_rate,
            "trace_seconds": self.trace_seconds,
            "seconds": self.seconds,
            "stalls_by": {"mshr": self.stalls_mshr, "ways": self.stalls_ways},
            "bypassed": self.bypassed,
            "steps": self.steps,
            "per_sm": [sm.to_dict() for sm in self.per_sm],
        }
        if self.instructions is not None:
            plain["instructions"] = self.instructions
        if self.l2 is not None:
            plain["l2"] = self.l2.to_dict()
        if self.interval is not None:
            plain["seeds"] = {
                "n": len(self.runs),
                "miss_rates": [run.miss_rate for run in self.runs],
                "mean": self.miss_rate,
                "interval_95": list(self.interval),
            }
        if self.ablation:
            plain["ablation"] = [row.to_dict() for row in self.ablation]
        if self.breakdown is not None:
            plain["breakdown"] = dict(self.breakdown)
        if self.estimates:
            plain["estimates"] = {name: one.to_dict() for name, one in self.estimates.items()}
        plain["config"] = dict(self.config)
        return plain

    def to_row(self) -> dict[str, Any]:
        """Return the prediction as one flat row: for CSV and data frames."""
        plain = self.to_dict()
        low, high = self.interval or (None, None)
        row: dict[str, Any] = {k: v for k, v in plain.items() if isinstance(v, str | int | float)}
        row |= {f"misses_{k}": v for k, v in plain["misses"].items()}
        row |= {f"l2_{k}": v for k, v in plain.get("l2", {}).items()}
        row |= {"interval_low": low, "interval_high": high}
        if self.estimates:
            rate = self.estimates["miss_rate"]
            row |= {"estimate": rate.value, "estimate_low": rate.low, "estimate_high": rate.high}
        return row

    def to_frame(self) -> pd.DataFrame:
        """Return the prediction as a data frame of one row; needs pandas (extra ``frame``)."""
        return frame([self.to_row()])


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean of at least two values, by Student's t distribution."""
    import numpy as np
    from scipy.special import stdtrit

    mean, n = float(np.mean(values)), len(values)
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / n**0.5
    return mean - half, mean + half
