"""Represent predictions as frozen values that carry the configuration and the seed of their run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rdmodel.common.intervals import Estimate, student_quantile
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.rates import plain_rate, rate_of
from rdmodel.errors import ConfigError
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts, list_counters
from rdmodel.results.describe import describe_l1
from rdmodel.results.expected_error import ExpectedError, find_expected_error
from rdmodel.results.metrics import SECTOR_BYTES, l1_metrics, l2_metrics
from rdmodel.results.origin_kinds import ORIGINS, Origin
from rdmodel.results.origins import Origins, OriginTable
from rdmodel.results.outcomes import draw_outcomes
from rdmodel.reuse.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes


UNUSUAL = ("constant_sectors", "atomic_sectors")
"""Counters of the L2 that plain numbers leave out if they are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Prediction:
    """Counters of the L2 for the requests of the modelled SMs (docs/model.md sections 12 and 14).

    ``reads = hits + misses``: the reads are the sectors of loads that leave the modelled SMs, because they missed in
    the L1 or do not look into it. These `sms_modelled` SMs have the whole
    L2 to themselves, so if they are not all of the GPU's, lines that other SMs would bring in are missing as well.
    `writes` are requests of stores and atomics, and `write_hits` those that were in the L2; only atomics read DRAM.
    `write_backs` are dirty sectors that were evicted or cleaned; those still `dirty` in the L2 at the end are not
    included. These counters are sectors of `sector` bytes, of lines of `line` bytes; before Maxwell, a sector is a
    line.
    `dram_read_sectors` are the sectors that are fetched from DRAM: by misses, `atomic_sectors` by atomics, and
    `constant_sectors` for the constant caches, which read them first (docs/model.md section 14); the latter two are no
    `reads`. `partition_sectors` are those that
    move between an SM in one partition of the L2 and a line at home in another. `COUNTERS` has the names of the
    counters.
    """

    COUNTERS: ClassVar[tuple[str, ...]]

    sms_modelled: int
    line: int
    sector: int
    reads: float
    hits: float
    misses: float
    writes: float
    write_hits: float
    write_backs: float
    dirty: float
    dram_read_sectors: float
    partition_sectors: float
    constant_sectors: float = 0
    atomic_sectors: float = 0

    def with_constants(self, sectors: float) -> L2Prediction:
        """Return these counters with so many more DRAM reads, which are those of constant memory."""
        reads = self.dram_read_sectors + sectors
        counted: L2Prediction = replace(self, dram_read_sectors=reads, constant_sectors=sectors)
        return counted

    @property
    def missed_sectors(self) -> float:
        """Sectors that misses and atomics fetch from DRAM: `dram_read_sectors` without those of constant memory."""
        return self.dram_read_sectors - self.constant_sectors

    @property
    def miss_rate(self) -> float:
        """Misses per read, 0 to 1; 0 without reads."""
        return self.misses / self.reads if self.reads else 0.0

    @property
    def bytes(self) -> float:
        """Bytes of the sectors that the modelled SMs read and write."""
        return (self.reads + self.writes) * self.sector

    @property
    def dram_bytes(self) -> float:
        """Bytes of the sectors that are read from DRAM and written to it (write-backs)."""
        return (self.dram_read_sectors + self.write_backs) * self.sector

    def metrics(self) -> dict[str, float]:
        """Return the counters by the names that Nsight Compute has for them, if `sector` is 32 bytes."""
        dram = self.dram_read_sectors, self.write_backs
        others = self.constant_sectors + self.atomic_sectors
        return l2_metrics(self.reads, self.hits, self.writes, *dram, others=others)

    def to_dict(self) -> dict[str, Any]:
        """Return the counters and the rates and byte counts derived from them; no sectors of `UNUSUAL` that are 0."""
        plain = asdict(self)
        for name in UNUSUAL:
            if not plain[name]:
                del plain[name]
        return {
            **plain,
            "read_hits": self.hits,
            "read_misses": self.misses,
            "dram_write_sectors": self.write_backs,
            "miss_rate": self.miss_rate,
            "bytes": self.bytes,
            "dram_bytes": self.dram_bytes,
        }


L2Prediction.COUNTERS = list_counters(L2Prediction)


def mean_l2(runs: Sequence[L2Prediction]) -> L2Prediction:
    """Return the mean of every counter over runs of the same SMs."""
    counters = L2Prediction.COUNTERS
    means: dict[str, Any] = {name: float(sum(getattr(run, name) for run in runs) / len(runs)) for name in counters}
    return replace(runs[0], **means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """Result without one component: its `misses`, and the signed `difference` = misses with it minus without it."""

    component: str
    misses: float
    difference: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a plain dict."""
        return {"component": self.component, "misses": self.misses, "difference": self.difference}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction(Presented):
    """Counters of the L1 data caches of the modelled SMs for one kernel launch.

    `requests` are load instructions of warps that have transactions. `transactions` are tag lookups of loads: one line
    of a request each. `sectors` are the sectors of these lines that the transactions ask for; where lines have no
    sectors, they are equal. ``sectors = hits + latency_misses +
    misses.total``, always: these three count sectors. `latency_misses` are requests to a sector in flight: they wait
    but cause no memory request. Hardware counters do not count them as misses, and `miss_rate` leaves them out.
    `tag_misses` are transactions whose line was absent, and `sector_misses` those whose line was there, but not all of
    the sectors. `stores` has the counters of stores that look up their lines. Loads that do not look into the L1 are in
    none of these; `bypassed_requests`, `bypassed_transactions` and `bypassed_sectors` count them. `bypassed` are misses
    that got no way (``full_set="bypass"``). All counters are sums over the modelled
    SMs; `per_sm` has them by SM. `steps` is the time of the SM that ends last.

    Every prediction has `kernel`, `gpu`, `definition`, `seed`, `sms_modelled`, the counters, `per_sm`, `config` (the
    complete configuration), `trace_seconds` (time to make and read the trace) and `seconds` (time of the model). The
    other fields depend on the call:

    ================ ========================================================= ==========================
    field            filled in by                                              otherwise
    ================ ========================================================= ==========================
    `histogram`      `predict`, unless ``histogram=False`` or `sample_blocks`  None
    `runs`           ``seeds`` > 1: one prediction per seed; counters are      empty
                     means over them, `histogram` is their sum
    `l2`             ``l2=True``                                               None
    `ablation`       ``ablation=True``                                         empty
    `breakdown`      ``breakdown="paper"``                                     None
    `estimates`      `sample_sms`, `sample_blocks`, `rdmodel.estimate`, and    empty
                     ``l2=True`` for grids with more transactions than
                     `work`: an `Estimate` by name ("miss_rate", ...)
    `instructions`   `rdmodel.estimate`: warp instructions of the grid, gaps   None
                     included
    `origins`        ``origins=True``: counters by origin, for `by`            None
    ================ ========================================================= ==========================

    With `sample_sms`, the counters are those of the sampled SMs, and `estimates` apply to all SMs. In other samples,
    the counters are themselves estimated ones of all blocks, and the causes of misses are unknown.
    """

    kernel: str
    gpu: str
    definition: str
    seed: int
    sms_modelled: int
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
    origins: Origins | None = field(default=None, repr=False)

    @property
    def miss_rate(self) -> float:
        """Misses per sector, 0 to 1, latency misses left out: what hardware counters report; NaN without loads."""
        return rate_of(self.misses.total, self.sectors)

    @property
    def latency_miss_rate(self) -> float:
        """Requests to sectors in flight per sector, 0 to 1; NaN without loads."""
        return rate_of(self.latency_misses, self.sectors)

    @property
    def unit(self) -> str:
        """The things that hits and misses count: "sectors", or "transactions" where lines have no sectors."""
        gpu = self.config.get("gpu")
        if gpu is None:
            return "sectors" if self.sectors > self.transactions else "transactions"
        return "sectors" if describe_l1(gpu)["sector"] < gpu["l1"]["line"] else "transactions"

    @property
    def sectors_per_transaction(self) -> float:
        """Sectors that a transaction asks for, on average: 1 where lines have no sectors; NaN without loads."""
        return rate_of(self.sectors, self.transactions)

    @property
    def tag_miss_rate(self) -> float:
        """Transactions whose line was absent per transaction, 0 to 1; `miss_rate` where lines have no sectors."""
        return rate_of(self.tag_misses, self.transactions)

    @property
    def stalls(self) -> float:
        """Attempts that failed for want of an MSHR or of a way and were repeated; they are not misses."""
        return self.stalls_mshr + self.stalls_ways

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean miss rate over the runs (Student's t).

        None for a single run, and without loads.
        """
        if len(self.runs) < 2 or not self.transactions:
            return None
        return mean_interval([run.miss_rate for run in self.runs])

    def by(self, origin: Origin) -> OriginTable:
        """Return the counters by ``"line"`` of the source, ``"array"`` or ``"instruction"`` (docs/origins.md).

        Summed over all origins, they are those of the prediction. Raises `ConfigError` for another origin, and for a
        prediction that did not count them (``origins=True``).
        """
        if self.origins is None:
            raise ConfigError(f"by({origin!r}): the prediction has no origins; predict with origins=True")
        return self.origins.by(origin)

    @property
    def architecture(self) -> str:
        """Architecture of the GPU, such as "Volta"; empty if its description does not say."""
        return str(self.config.get("gpu", {}).get("architecture", ""))

    @property
    def expected_error(self) -> ExpectedError | None:
        """Error of `miss_rate` that counters of GPUs lead one to expect, for its architecture and such a kernel.

        It has nothing to do with `interval`, which shows how seeds differ. None without loads, and without counters to
        compare with.
        """
        if not self.sectors:
            return None
        kind = "stream" if self.misses.total >= self.sectors else "reuse"
        return find_expected_error(self.architecture, self.definition, kind)

    def __str__(self) -> str:
        """Return the prediction in one line."""
        rate = f"{100 * self.miss_rate:.2f} % of {self.sectors:,.0f} {self.unit}"
        return f"{self.kernel} on {self.gpu} ({self.definition}): " + (
            f"L1 miss rate {rate}" if self.transactions else "no loads"
        )

    def metrics(self) -> dict[str, float]:
        """Return the counters of the modelled SMs and blocks by the names that Nsight Compute has for them.

        Loads and stores are apart, sectors in flight are hits (docs/counters.md). Counters of the L2 and of the DRAM
        are among them if the L2 was modelled. Numbers end in ``.sum``, rates in percent in ``.pct``.

        Raises
        ------
        ConfigError
            If the sectors of the L1 have not 32 bytes, or with ``stores="allocate"``, which counts stores as loads.
        """
        hits = self.hits + self.latency_misses
        # The profiler counts a load that may not hit as one that misses.
        requests, sectors = self.requests + self.bypassed_requests, self.sectors + self.bypassed_sectors
        loads = {"requests": requests, "sectors": sectors, "hits": hits}
        metrics = l1_metrics(loads, self.stores.to_dict(), self.config, self.config["options"]["stores"])
        if self.l2 is not None and self.l2.sector == SECTOR_BYTES:
            metrics |= self.l2.metrics()
        return metrics

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
            "miss_rate": plain_rate(self.miss_rate),
            "latency_miss_rate": plain_rate(self.latency_miss_rate),
            "trace_seconds": self.trace_seconds,
            "seconds": self.seconds,
            "stalls_by": {"mshr": self.stalls_mshr, "ways": self.stalls_ways},
            "bypassed": self.bypassed,
            "bypassed_requests": self.bypassed_requests,
            "bypassed_transactions": self.bypassed_transactions,
            "bypassed_sectors": self.bypassed_sectors,
            "steps": self.steps,
            "requests": self.requests,
            "sectors": self.sectors,
            "sectors_per_transaction": plain_rate(self.sectors_per_transaction),
            "tag_misses": self.tag_misses,
            "sector_misses": self.sector_misses,
            "stores": self.stores.to_dict(),
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
        if self.origins is not None:
            plain["by"] = {origin: self.origins.by(origin).to_dict() for origin in ORIGINS}
        if self.estimates:
            plain["estimates"] = {name: estimate.to_dict() for name, estimate in self.estimates.items()}
        expected = self.expected_error
        plain["expected_error"] = None if expected is None else expected.to_dict()
        plain["l1"] = describe_l1(self.config["gpu"])
        plain["config"] = dict(self.config)
        return plain

    def to_row(self) -> dict[str, Any]:
        """Return the prediction as one flat row: for CSV and data frames."""
        plain = self.to_dict()
        low, high = self.interval or (None, None)
        row: dict[str, Any] = {k: v for k, v in plain.items() if v is None or isinstance(v, str | int | float)}
        row |= {f"misses_{k}": v for k, v in plain["misses"].items()}
        row |= {f"stores_{k}": v for k, v in plain["stores"].items()}
        row |= {f"l2_{k}": v for k, v in plain.get("l2", {}).items()}
        row |= {"interval_low": low, "interval_high": high}
        if "miss_rate" in self.estimates:
            rate = self.estimates["miss_rate"]
            row |= {"estimate": rate.value, "estimate_low": rate.low, "estimate_high": rate.high}
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the main counters in one row, with those of the L2 if it was modelled."""
        row = {
            "kernel": self.kernel,
            "GPU": self.gpu,
            "definition": self.definition,
            "SMs modelled": self.sms_modelled,
            "L1 miss rate (%)": 100 * self.miss_rate,
            "transactions": self.transactions,
            "sectors": self.sectors,
            "hits": self.hits,
            "latency misses": self.latency_misses,
            **{f"{cause} misses": getattr(self.misses, cause) for cause in MissCounts.CAUSES},
        }
        if self.l2 is not None:
            row |= {"L2 miss rate (%)": 100 * self.l2.miss_rate, "L2 bytes": self.l2.bytes}
            row["DRAM bytes"] = self.l2.dram_bytes
        if "miss_rate" in self.estimates:
            rate = self.estimates["miss_rate"]
            row["L1 miss rate, 95 % interval (%)"] = f"{100 * rate.low:.2f} to {100 * rate.high:.2f}"
        return [row]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw hits, latency misses and misses by cause, in percent of the requests of loads, and return the axes.

        They are new ones by default; needs matplotlib (extra ``plot``). Raises `ConfigError` without such requests.
        """
        waiting = ("latency misses", self.latency_misses)
        return draw_outcomes(ax, self, waiting, self.unit, f"{self.kernel} on {self.gpu}")


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean of at least two values, by Student's t distribution."""
    import numpy as np

    mean, n = float(np.mean(values)), len(values)
    half = student_quantile(n - 1) * float(np.std(values, ddof=1)) / n**0.5
    return mean - half, mean + half
