"""Sample a grid in time: windows in which all SMs run side by side, and estimates from them (docs/sampling.md).

The grid is divided into its beginning, which is always run, and strata of equal numbers of blocks. Each stratum has one
window at a random place. A window begins with the blocks that are resident at that time, as far as they have come
(`rdmodel.model.grid_schedule`), with an L2 that earlier blocks have filled (`rdmodel.model.grid_windows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import hypot, log
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.intervals import Estimate, student_quantile
from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.model.count_blocks import BlockCounts, Total
from rdmodel.model.grid_windows import LONGEST_WARMUP, GridWindow, PeriodCounts, WindowResult
from rdmodel.model.sample_sms import SAMPLE_SALT
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from rdmodel.results.prediction import L2Prediction

STRATA = 8
"""Windows of a sample, besides the beginning."""

MIN_WAVES, WAVES_PER_WINDOW = 8.0, 1.5
"""Waves of blocks from which on a sample consists of windows of whole waves, and the least length of these."""

MAX_EXTENSION = 4.0
"""Multiple of the requested work that is run if less would not give windows of whole waves."""

BEGINNING_SHARE = 1 / 9
"""Share of the work that the beginning gets."""

WARMUP_SHARE = 1 / 3
"""Share of a window in which the L1s fill; the rest is counted."""

FILLING_SPEED = 10.0
"""Speed at which transactions fill the L2 before a window, relative to those of the window."""

HISTORY_RATIO = 6.0
"""Transactions that fill the L2 in order before a window, and again of older blocks, as a multiple of the window's.

They are fewer where blocks are short, since opening a block takes as long as in a window.
"""

UNSEEN_SECTORS = 3.0
"""Sectors in the L2 of which a sample that found none may have left out as many as its share says (rule of three)."""

DRIFT_WIDTH = 2.0
"""Width of an interval in standard errors of the beginnings of windows."""

LONG_BLOCK_SHARE = 0.5
"""Blocks are long if a window has less than this share of the work of one wave."""

LATENCIES_PER_WINDOW = 20
"""Latencies of a miss for which the transactions of a window keep the L1s busy at least.

In less time, warps hardly get from the places where they begin to those where they would be.
"""

MAX_WEIGHT_RATIO = 20.0
"""Largest ratio of the weights of two windows."""

WEIGHT_BISECTIONS = 40
"""Steps in which the weights of windows are found."""

MAX_GRID_SHARE = 0.6
"""Largest share of a grid that is sampled; if a sample would need more, all blocks are run."""

Count = Callable[[PeriodCounts], float]


def _load_sectors(period: PeriodCounts) -> float:
    return period.sms.sectors + period.sms.bypassed_sectors


BASES: dict[str, tuple[Count, tuple[str, ...]]] = {
    "work": (attrgetter("work"), ("work",)),
    "transactions": (attrgetter("sms.transactions"), ("transactions",)),
    "sectors": (attrgetter("sms.sectors"), ("sectors",)),
    "bypassed_transactions": (attrgetter("sms.bypassed_transactions"), ("bypassed_transactions",)),
    "bypassed_sectors": (attrgetter("sms.bypassed_sectors"), ("bypassed_sectors",)),
    "load_sectors": (_load_sectors, ("sectors", "bypassed_sectors")),
    "writes": (lambda period: period.l2["writes"], ("writes",)),
    "sent": (lambda period: _load_sectors(period) + period.l2["writes"], ("sectors", "bypassed_sectors", "writes")),
}
"""Counts that do not depend on time, with the counts of blocks that they are the sums of.

Every other counter is estimated per unit of one of them.
"""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of periods, and the name of the count in `BASES` per unit of which it is estimated."""

    count: Count
    base: str


def _known_count(name: str) -> Counter:
    return Counter(BASES[name][0], name)


def _of_l1(path: str, base: str = "sectors") -> Counter:
    return Counter(attrgetter(f"sms.{path}"), base)


def _of_l2(name: str, base: str = "load_sectors") -> Counter:
    return Counter(lambda period: period.l2[name], base)


L1_ESTIMATES: dict[str, Counter] = {
    "transactions": _known_count("transactions"),
    "sectors": _known_count("sectors"),
    "hits": _of_l1("hits"),
    "latency_misses": _of_l1("latency_misses"),
    "misses": _of_l1("misses.total"),
}
"""Counters of the L1s that have an estimate."""

L2_ESTIMATES: dict[str, Counter] = {
    "l2_reads": _of_l2("reads"),
    "l2_hits": _of_l2("hits"),
    "l2_misses": _of_l2("misses"),
    "l2_writes": _known_count("writes"),
    "l2_write_hits": _of_l2("write_hits", "writes"),
    "dram_read_sectors": _of_l2("dram_read_sectors"),
    "dram_write_sectors": _of_l2("write_backs", "work"),
    "partition_sectors": _of_l2("partition_sectors", "sent"),
}
"""Counters of the L2 that have an estimate."""

DIRTIED = _of_l2("dirtied", "writes")


RATES = {
    "miss_rate": ("misses", "sectors"),
    "latency_miss_rate": ("latency_misses", "sectors"),
    "l2_miss_rate": ("l2_misses", "l2_reads"),
}
"""Rates that have an estimate, with the names of their numerators and denominators."""

SM_BASES = {"requests": "work", "bypassed_requests": "work", "steps": "work"}
"""Names in `BASES` for counters of `SmCounts` that are neither in it nor estimated per sector of loads in the L1."""

MIN_WINDOWS = 2.0
"""Number of windows that must have a base, such as stores, for a rate per unit of it to be known at all."""


@dataclass(frozen=True, slots=True)
class GridPlan:
    """The windows of a sample of `blocks` blocks: the beginning first, then one per stratum, in order."""

    windows: tuple[GridWindow, ...]
    blocks: int
    cost: float
    """Time of the sample relative to that of running everything, at most."""

    @property
    def sampled(self) -> str:
        """Description of the sample, such as "9 windows, 2.1 % of 65,536 blocks"."""
        first, *rest = self.windows
        run = first.ends[-1] + sum(window.ends[-1] - window.ends[0] for window in rest)
        return f"{len(self.windows)} windows, {100 * run / self.blocks:.2g} % of {self.blocks:,} blocks"


def plan_windows(
    blocks: int, slots: int, cost: float, opening: float, work: float, seed: int, least: float = 0.0
) -> GridPlan | None:
    """Plan windows of about `work` transactions in all, or return None to run everything.

    The grid has `blocks` blocks, at most `slots` at a time. Each costs as much as `cost` transactions, `opening` of
    which are for the block itself. A window that is a part of blocks' lives has at least the work of `least` blocks.
    """
    run = work / cost
    wave, strata = min(slots, blocks), STRATA
    if run < MIN_WAVES * wave <= MAX_EXTENSION * run:
        run = MIN_WAVES * wave
    beginning = BEGINNING_SHARE * run
    if run >= MIN_WAVES * wave:
        # Blocks are short: a window has whole lives of them, so that it sees their beginnings and ends.
        strata = min(STRATA, int((run - beginning) / (WAVES_PER_WINDOW * wave)))
        beginning, least = max(beginning, wave), 0.0
    beginning, length = max(beginning, least), max((run - beginning) / strata, least)
    if beginning + strata * length >= MAX_GRID_SHARE * blocks:
        return None
    stratum = (blocks - beginning) / strata
    rng = np.random.default_rng([SAMPLE_SALT, seed])
    windows = [GridWindow(0.0, (beginning / 3, 2 * beginning / 3, beginning))]
    cheap = (cost - opening) / FILLING_SPEED + opening
    history = max(wave, HISTORY_RATIO / FILLING_SPEED * length * cost / cheap)
    warmup, half = WARMUP_SHARE * length, (1 - WARMUP_SHARE) * length / 2
    for number in range(strata):
        first = beginning + number * stratum
        counted = first + rng.random() * max(0.0, stratum - 2 * half)
        begin = max(0.0, counted - warmup)
        ends = (counted - begin, counted - begin + half, counted - begin + 2 * half)
        windows.append(GridWindow(begin, ends, history, history))
    run = beginning + strata * (LONGEST_WARMUP * warmup + 2 * half)
    return GridPlan(tuple(windows), blocks, (run + 2 * strata * history * cheap / cost) / blocks)


@dataclass(frozen=True, slots=True)
class GridSample:
    """The results of the windows of a plan, and the counts of blocks.

    `room` is the number of sectors that may be dirty in the L2, `slots` the number of blocks that are resident at a
    time.
    """

    plan: GridPlan
    windows: Sequence[WindowResult]
    counted: BlockCounts
    room: float
    slots: int

    @property
    def l2_counters(self) -> dict[str, Counter]:
        """The counters of the L2 that have an estimate; where there are atomics, those read the DRAM as loads do."""
        if not any(period.l2["updates"] for window in self.windows for period in window.periods):
            return L2_ESTIMATES
        fetched = {"dram_read_sectors": "sent", "atomic_sectors": "writes"}
        return {**L2_ESTIMATES, **{name: _of_l2(name, base) for name, base in fetched.items()}}

    # ---- totals and their errors

    def _known(self, base: str) -> Total:
        """Return the total of a count that does not depend on time."""
        parts = [self.counted.total(name) for name in BASES[base][1]]
        return Total(sum(part.value for part in parts), sum(part.error for part in parts))

    def _rest(self, base: str) -> float:
        """Return that total behind the beginning."""
        return max(0.0, self._known(base).value - sum(map(BASES[base][0], self.windows[0].periods)))

    def _sums(self, count: Count) -> NDArray[np.float64]:
        """Return a count in each window, where it is counted."""
        return np.array([sum(map(count, window.periods[1:])) for window in self.windows[1:]], np.float64)

    def _rate(self, counter: Counter) -> float:
        """Return a counter per unit of its base, in all windows; in the beginning, if no window has any."""
        count, base = counter.count, BASES[counter.base][0]
        if count is base:
            return 1.0
        sums = self._sums(base)
        if sums.any():
            return self._rate_of(self._sums(count), sums, self._starts, self._rest(counter.base))
        first = self.windows[0].periods
        return sum(map(count, first)) / by if (by := sum(map(base, first))) else 0.0

    @property
    def _has_long_blocks(self) -> bool:
        """Whether a window is a small part of the life of a block: few windows see blocks begin, but those many."""
        return self.plan.windows[1].ends[-1] < LONG_BLOCK_SHARE * min(self.slots, self.plan.blocks)

    @property
    def _starts(self) -> NDArray[np.float64]:
        """The number of blocks that begin in each window, where it is counted."""
        return self._sums(attrgetter("sms.blocks"))

    def _rate_of(
        self, values: NDArray[np.float64], by: NDArray[np.float64], starts: NDArray[np.float64], rest: float
    ) -> float:
        """Return the rate of `values` to `by` in the whole grid, of which windows are a sample.

        Blocks that begin have other counts than those in the middle of their lives, and it is known how many begin in
        all: where blocks are long, windows are weighted so that as many begin in them.
        """
        if self._has_long_blocks and rest:
            begun = sum(period.sms.blocks for period in self.windows[0].periods)
            weights = weigh_windows(starts - max(0.0, self.plan.blocks - begun) / rest * by)
            return float((weights * values).sum() / (weights * by).sum())
        return float(values.sum() / by.sum())

    def _jackknife(self, values: NDArray[np.float64], by: NDArray[np.float64], rest: float) -> float:
        """Return the standard error of a rate: how it changes if a window is left out."""
        starts, keep = self._starts, ~np.eye(len(by), dtype=np.bool_)
        rates = np.array([self._rate_of(values[k], by[k], starts[k], rest) for k in keep if by[k].any()])
        return float((((rates - rates.mean()) ** 2).sum() * (len(rates) - 1) / max(1, len(rates))) ** 0.5)

    def _unseen_starts(self, counter: Counter, values: NDArray[np.float64], by: NDArray[np.float64]) -> float:
        """Return the standard error of a total if no window has a block that begins.

        It is as if each later block had, when it begins, the surplus that the first blocks have.
        """
        if not self._has_long_blocks or self._starts.any():
            return 0.0
        periods, base = self.windows[0].periods, BASES[counter.base][0]
        begun = sum(period.sms.blocks for period in periods)
        surplus = sum(map(counter.count, periods)) - float(values.sum() / by.sum()) * sum(map(base, periods))
        return abs(surplus) * max(0, self.plan.blocks - begun) / begun if begun else 0.0

    def total(self, counter: Counter) -> float:
        """Return the estimated total of a counter."""
        return sum(map(counter.count, self.windows[0].periods)) + self._rest(counter.base) * self._rate(counter)

    def errors(self, counter: Counter) -> tuple[float, float]:
        """Return two standard errors of that total: of the choice of places, and of the beginnings of windows.

        Differences between windows of neighbouring strata show the first one. The difference between the halves of
        windows shows how much the state in which a window begins still matters.
        """
        count, base = counter.count, BASES[counter.base][0]
        by = self._sums(base)
        if not by.any():
            return 0.0, 0.0
        values, rest = self._sums(count), self._rest(counter.base)
        if self._has_long_blocks:
            error = self._jackknife(values, by, rest)
        else:
            residuals = values - self._rate(counter) * by
            variance = (np.diff(residuals) ** 2).sum() / 2 / max(1, len(by) - 1) * len(by)
            error = float(variance) ** 0.5 / float(by.sum())
        halves = [window.periods[1:] for window in self.windows[1:] if len(window.periods) > 2]
        first, second = ([sum(some(periods[half]) for periods in halves) for some in (count, base)] for half in (0, 1))
        drift = abs(second[0] / second[1] - first[0] / first[1]) if first[1] and second[1] else 0.0
        return rest * error, hypot(rest * drift, self._unseen_starts(counter, values, by))

    def _freedom(self, base: str) -> float:
        """Return the degrees of freedom of a rate: windows that have little of its base count little; 0: unknown."""
        by = self._sums(BASES[base][0])
        windows = float(by.sum() ** 2 / (by**2).sum()) if by.any() else 0.0
        return windows - 1 if windows >= MIN_WINDOWS else 0.0

    def dirtied(self) -> Estimate:
        """Return the estimate of the sectors that became dirty."""
        return self._estimate_count(DIRTIED)

    def written_back(self) -> tuple[float, float]:
        """Return the least and the largest number of sectors that may have been written back.

        Sectors that became dirty were written back, or are dirty at the end; then the L2 has room for them.
        """
        dirtied = self.dirtied()
        return max(0.0, dirtied.low - self.room), dirtied.high

    def uncertain(self) -> float:
        """Return the largest number of sectors that were read from DRAM, but may have been in the L2.

        Where only a share of the older blocks filled the L2, a sector that just one of all blocks had left there would
        have been found with that probability. So those that were found tell how many there are.
        """
        uncertain = 0.0
        for window in self.windows[1:]:
            cold, found = (sum(period.l2[name] for period in window.periods[1:]) for name in ("cold", "old_hits"))
            most = (found + UNSEEN_SECTORS) * (1 / window.share - 1) if window.share else cold
            uncertain += min(cold, most)
        by = float(self._sums(_load_sectors).sum())
        return self._rest("load_sectors") * uncertain / by if by else 0.0

    # ---- estimates

    def estimate(self) -> dict[str, Estimate]:
        """Return the estimates of all counters and rates by name."""
        counters = L1_ESTIMATES | self.l2_counters
        value = {name: self.total(counter) for name, counter in counters.items()}
        least, most = self.written_back()
        value["dram_write_sectors"] = min(max(value["dram_write_sectors"], least), most)
        cold = min(self.uncertain(), value["dram_read_sectors"])
        misses = cold * value["l2_misses"] / value["dram_read_sectors"] if cold else 0.0
        below, above = {"dram_read_sectors": cold, "l2_misses": misses}, {"l2_hits": misses}
        if cold or not self._freedom("writes"):
            # An L2 that is not full writes too little back, and so do windows without stores.
            below["dram_write_sectors"] = max(0.0, value["dram_write_sectors"] - least)
            above["dram_write_sectors"] = max(0.0, most - value["dram_write_sectors"])
        found = {}
        for name, (top, bottom) in RATES.items():
            if by := value[bottom]:
                share = value[top] / by
                errors = self.errors(_residual(counters[top], counters[bottom], share))
                choice, drift = (error / by for error in errors)
                freedom = self._freedom(counters[top].base)
                found[name] = self._estimate(share, choice, drift, freedom, below.get(top, 0.0) / by, most=1.0)
        for name, counter in counters.items():
            found[name] = self._estimate_count(counter, value[name], below.get(name, 0.0), above.get(name, 0.0))
        written = found["dram_write_sectors"]
        found["dram_write_sectors"] = replace(written, low=max(written.low, least), high=min(written.high, most))
        return found

    def _estimate_count(
        self, counter: Counter, value: float | None = None, below: float = 0.0, above: float = 0.0
    ) -> Estimate:
        """Return the estimate of a counter, whose `value` may differ from the total by rates."""
        if value is None:
            value = self.total(counter)
        choice, drift = self.errors(counter)
        known, freedom = self._known(counter.base), self._freedom(counter.base)
        choice = hypot(choice, self._rate(counter) * known.error)
        if not freedom and counter.base == "writes" and counter.count is not BASES["writes"][0]:
            # Too few windows have stores: any share of them may do this.
            below, above = value, max(0.0, known.value - value)
        return self._estimate(value, choice, drift, freedom, below, above)

    def _estimate(
        self,
        value: float,
        choice: float,
        drift: float,
        freedom: float,
        below: float = 0.0,
        above: float = 0.0,
        most: float = float("inf"),
    ) -> Estimate:
        """Return an estimate whose interval goes further by `below` and `above` than its two standard errors say."""
        half = hypot(student_quantile(max(1.0, freedom)) * choice, DRIFT_WIDTH * drift)
        low, high = max(0.0, value - half - below), min(most, value + half + above)
        return Estimate(
            value=value,
            standard_error=hypot(choice, drift),
            low=min(low, value),
            high=max(high, value),
            sampled=self.plan.sampled,
        )

    # ---- results

    def totals(self, sms: int) -> dict[str, Any]:
        """Return the estimated counters of `SmCounts` by name; `steps` is the time of an SM that is never empty."""

        def of(path: str, base: str = "sectors") -> float:
            return self.total(_of_l1(path, base))

        totals: dict[str, Any] = {
            name: self.total(_known_count(name)) if name in BASES else of(name, SM_BASES.get(name, "sectors"))
            for name in SmCounts.COUNTERS
        }
        totals["steps"] /= sms
        totals["misses"] = MissCounts(*(of(f"misses.{cause}") for cause in MissCounts.CAUSES))
        totals["stores"] = StoreCounts(*(of(f"stores.{name}", "writes") for name in StoreCounts.COUNTS))
        return totals

    def l2(self, gpu: GPU, sms: int) -> L2Prediction:
        """Return the estimated counters of the L2."""
        names = {f"l2_{name}": name for name in ("reads", "hits", "misses", "writes", "write_hits")}
        names |= {"dram_write_sectors": "write_backs"}
        known = {names.get(name, name): self.total(counter) for name, counter in self.l2_counters.items()}
        least, most = self.written_back()
        known["write_backs"] = min(max(known["write_backs"], least), most)
        return L2Prediction(
            sms_modelled=sms,
            line=gpu.l1.line,
            sector=gpu.l2_sector_bytes,
            dirty=min(self.room, max(0.0, self.dirtied().value - known["write_backs"])),
            **known,
        )


def weigh_windows(surplus: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive weights of windows with which their mean `surplus` is as near to 0 as they allow.

    The logarithm of a weight is linear in the surplus (raking; Deville and Sarndal, Calibration Estimators in Survey
    Sampling, JASA 1992, case 2). Weights differ by `MAX_WEIGHT_RATIO` at most, so that several windows remain in the
    estimate. Unlike a regression, they give a count a rate in the range of those of the windows, and the rates of the
    parts of a count add up to its own.
    """
    width = float(surplus.max() - surplus.min())
    if not width:
        return np.ones(len(surplus))
    places = (surplus - surplus.min()) / width
    low, high = -log(MAX_WEIGHT_RATIO), log(MAX_WEIGHT_RATIO)
    for _ in range(WEIGHT_BISECTIONS):
        middle = (low + high) / 2
        if float((np.exp(middle * places) * surplus).sum()) < 0:
            low = middle
        else:
            high = middle
    weights: NDArray[np.float64] = np.exp((low + high) / 2 * places)
    return weights


def _residual(top: Counter, bottom: Counter, share: float) -> Counter:
    """Return the difference of a counter from a share of another one."""
    return Counter(lambda period: top.count(period) - share * bottom.count(period), top.base)
