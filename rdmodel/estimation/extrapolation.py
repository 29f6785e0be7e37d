"""Extrapolate counts from excerpts of a grid to the whole grid, with standard errors (docs/sampling.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, log10
from typing import Any

from rdmodel.common.intervals import Estimate
from rdmodel.common.late_dataclass import dataclass
from rdmodel.estimation.bounds import Reach
from rdmodel.estimation.counted_work import fit_to_blocks
from rdmodel.estimation.plan import EstimationPlan, Window
from rdmodel.gpu.config import GPU
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.late_counts import LateCounts
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.trace import Launch

FOLLOWING_L2_COUNTS = ("write_backs", "dirty", "constant_sectors")
"""Counters of the L2 that follow from the number of sectors that became dirty, or that do not grow with the grid."""

L2_COUNTS = tuple(name for name in L2Prediction.COUNTERS if name not in FOLLOWING_L2_COUNTS)
"""Counters of the L2 that are extrapolated."""


INTERVAL_STANDARD_ERRORS = 2.0
"""Half the width of an interval, in standard errors."""

WARMUP_RATE_ERROR = 0.25
"""Standard error of the rate at which counts go on, as a share of the rate's change since the beginning of the run."""

WAVE_ORDER_ERROR = 0.06
"""Standard error of hits and misses, as a share of the misses: later waves access the cache in another order.

So do the later iterations of a wave that fills the L1s only then.
"""

WAVE_ORDER_TIME_ERROR = 0.12
"""Standard error of the time for the same reason, as a share of it."""

BLOCK_VARIATION_ERROR = 0.005
"""Least standard error of any count, as a share of it: blocks that were not probed may lie at a border of the grid."""

DRIFT_DRAM_ERROR = 0.3
"""Standard error of DRAM reads, as a share of them, where SMs drift apart and so share less data in the L2.

They do in several waves, and in one wave of long blocks.
"""

DRIFTED_SHARE = 0.2
"""Share of the grid's work below which an excerpt of one wave does not show how far SMs drift apart."""

FEWER_SMS_DRAM_ERROR = 0.6
"""Standard error of DRAM reads, as a share of them, where fewer than all SMs share the L2."""

MAX_DRAM_LOG_FACTOR = 5.0
"""Natural logarithm of the largest factor between the estimate of DRAM traffic and an end of its interval."""

ESTIMATED = ("transactions", "sectors", "hits", "latency_misses", "steps")
"""Fields of `Prediction` that are estimated as they are; misses, rates and bytes are derived."""

CountsByName = dict[str, float]
"""Counts, or their standard errors, by name."""


@dataclass(frozen=True, slots=True)
class ExcerptRun:
    """The `counts` of one run of an excerpt, whose cut blocks amount to `blocks` whole ones."""

    counts: CountsByName
    blocks: float


def collect_counts(prediction: Prediction, instructions: float) -> CountsByName:
    """Return all counts of a prediction by name; "l2_dirtied" counts sectors that became dirty, written back or not."""
    counts: CountsByName = {name: getattr(prediction, name) for name in SmCounts.COUNTERS}
    counts |= {cause: getattr(prediction.misses, cause) for cause in MissCounts.CAUSES}
    counts |= {f"stores_{name}": getattr(prediction.stores, name) for name in StoreCounts.COUNTS}
    counts["instructions"] = instructions
    if prediction.l2 is not None:
        counts |= {f"l2_{name}": getattr(prediction.l2, name) for name in L2_COUNTS}
        counts["l2_dram_read_sectors"] = prediction.l2.missed_sectors
        counts["l2_dirtied"] = prediction.l2.write_backs + prediction.l2.dirty
    return counts


def count_early(run: ExcerptRun, late: LateCounts, steps: float, instructions: float, blocks: float) -> ExcerptRun:
    """Return the counts of the early part of a run, which has so many `instructions` and amounts to `blocks` blocks.

    `steps` are those that the late part takes. Stalls are not counted by part: they are divided as transactions are.
    """
    tallied = late.tallied
    counts: CountsByName = {name: tallied[name] for name in (*SmCounts.COUNTERS, *MissCounts.CAUSES) if name in tallied}
    counts |= {f"stores_{name}": tallied[f"store_{name}"] for name in StoreCounts.COUNTS}
    counts |= {f"l2_{name}": count for name, count in late.l2.items()}
    counts["sectors"] = sum(counts[name] for name in ("hits", "latency_misses", *MissCounts.CAUSES))
    counts["steps"] = steps
    counts["instructions"] = run.counts["instructions"] - instructions
    of_stalls = counts["transactions"] / max(run.counts["transactions"], 1.0)
    early = {name: max(0.0, count - counts.get(name, of_stalls * count)) for name, count in run.counts.items()}
    return ExcerptRun(early, blocks)


def extrapolate_counts(long: ExcerptRun, short: ExcerptRun | None, blocks: float) -> tuple[CountsByName, CountsByName]:
    """Return the counts of `blocks` whole blocks, and their standard errors.

    Counts go on at the rate at which they grew from the shorter run to the longer one. Without a shorter run, they are
    proportional to the blocks.
    """
    rest = blocks - long.blocks
    if short is None or rest <= 0:
        counts = {name: count * blocks / long.blocks for name, count in long.counts.items()}
        return counts, dict.fromkeys(long.counts, 0.0)
    counts, errors = {}, {}
    for name, count in long.counts.items():
        rate = max(0.0, (count - short.counts[name]) / (long.blocks - short.blocks))
        counts[name] = count + rate * rest
        errors[name] = WARMUP_RATE_ERROR * abs(short.counts[name] / short.blocks - rate) * rest
    return counts, errors


def scale_to_grid(
    plan: EstimationPlan,
    runs: Sequence[tuple[ExcerptRun, ExcerptRun | None]],
    gpu: GPU,
    launch: Launch,
    counted: BlockCounts | None = None,
) -> tuple[CountsByName, CountsByName]:
    """Return the counts of the whole grid and their standard errors, from the two runs of each window of a plan.

    They are fitted to the transactions of whole blocks if these were `counted`.
    """
    tags = gpu.l1.tags_per_step
    each = [_scale_window(plan, window, tags, *pair) for window, pair in zip(plan.windows, runs, strict=True)]
    n = len(each)
    counts = {name: sum(counts[name] for counts, _ in each) / n for name in each[0][0]}
    counts["steps"] = max(counts["steps"] for counts, _ in each)
    errors = {}
    for name, mean in counts.items():
        between = sum((counts[name] - mean) ** 2 for counts, _ in each) / (n - 1) / n if n > 1 else 0.0
        errors[name] = (between + sum(errors[name] ** 2 for _, errors in each) / n) ** 0.5
    if counted is not None:
        fit_to_blocks(counts, errors, counted)
    surplus = _limit_l2_misses(plan, counts, gpu, launch) if "l2_reads" in counts else 0.0
    _add_unseen_errors(plan, counts, errors, surplus, _fills_later(plan, runs[0][0], counts, gpu))
    return counts, errors


def _fills_later(plan: EstimationPlan, first: ExcerptRun, counts: CountsByName, gpu: GPU) -> bool:
    """Return whether the L1s are filled in the whole grid, but were not in the first run."""
    room = gpu.l1.lines * gpu.l1.sectors
    seen, all_ = first.counts["compulsory"] / plan.windows[0].sms, counts["compulsory"] / plan.sms
    return seen < room < all_


def limits_of_dram_reads(plan: EstimationPlan, found: ExcerptRun, gpu: GPU, launch: Launch) -> tuple[float, float]:
    """Return the fewest and the most sectors that may be read from DRAM; `found` is the longer run of an excerpt.

    If all arrays fit into the L2 twice, so that hardly any set is too small for its lines, each sector is read once at
    most, and those that an excerpt read are among them.
    """
    loaded = _loaded_sectors(plan, gpu)
    if loaded is None or 2 * _array_sectors(launch, gpu) > _room(gpu):
        return 0.0, float("inf")
    return min(found.counts["l2_dram_read_sectors"], loaded), loaded


def _room(gpu: GPU) -> float:
    """Return the number of sectors for which the L2 has room; data that all SMs read fills every partition."""
    return gpu.l2.slices * gpu.l2.size // gpu.l2_sector_bytes // gpu.l2.partitions


def _array_sectors(launch: Launch, gpu: GPU) -> int:
    return sum(-(-array.bytes // gpu.l2_sector_bytes) for array in launch.arrays)


def _loaded_sectors(plan: EstimationPlan, gpu: GPU) -> float | None:
    """Return the number of sectors of the arrays that are loaded from, or None if it is not known."""
    loaded = None if plan.probe is None else plan.probe.loaded
    return None if loaded is None else loaded / gpu.l2_sector_bytes


def _scale_window(
    plan: EstimationPlan, window: Window, tags: int, long: ExcerptRun, short: ExcerptRun | None
) -> tuple[CountsByName, CountsByName]:
    blocks = plan.blocks * window.sms / plan.sms if window.early_blocks else len(window.ids)
    counts, errors = extrapolate_counts(long, short, blocks)
    time_factor = 1.0 if window.early_blocks else _time_factor(plan, window, tags, counts)
    for name in counts:
        factor = time_factor if name == "steps" else plan.blocks / blocks
        counts[name] *= factor
        errors[name] *= factor
    return counts, errors


def _time_factor(plan: EstimationPlan, window: Window, tags: int, counts: CountsByName) -> float:
    """Return the time that an SM takes for all its blocks, divided by the time of the window.

    The last blocks share the SM with fewer others. This shortens the time in which the SM issues transactions, up to
    `tags` in a step, but not the time in which it waits.
    """
    side_by_side = -(-len(window.ids) // window.sms)
    per_sm = -(-plan.blocks // plan.sms)
    issued = (counts["transactions"] + counts["stores_transactions"]) / tags / window.sms
    busy = min(1.0, issued / max(counts["steps"], 1.0))
    if plan.deals_all:
        # The window has all blocks of some SMs; others may have one block more.
        return 1 + busy * max(0.0, per_sm / side_by_side - 1)
    full, rest = divmod(per_sm, side_by_side)
    return full if not rest else full + 1 - busy * (1 - rest / side_by_side)


def _limit_l2_misses(plan: EstimationPlan, counts: CountsByName, gpu: GPU, launch: Launch) -> float:
    """Limit the sectors brought into the L2 to those of the arrays, if a wave's sectors or all arrays fit into it.

    Later waves then find in the L2 what earlier ones left there. Only arrays that are loaded from are read from DRAM.
    Returns the number of sectors still brought in more than once if the arrays are not much larger than the L2, since
    it is then uncertain whether they are.
    """
    room, arrays, loaded = _room(gpu), _array_sectors(launch, gpu), _loaded_sectors(plan, gpu)
    reads, written = counts["l2_dram_read_sectors"], counts["l2_writes"] - counts["l2_write_hits"]
    filled = reads + written
    most = arrays if loaded is None else loaded
    if not arrays or (filled <= arrays and reads <= most):
        return 0.0
    if arrays > room and (plan.windows[0].early_blocks or filled / plan.waves > room):
        return max(0.0, filled - arrays) if arrays < 2 * room else 0.0
    if reads > most:
        counts["l2_misses"] *= most / reads
        counts["l2_dram_read_sectors"] = most
        counts["l2_hits"] = counts["l2_reads"] - counts["l2_misses"]
    counts["l2_write_hits"] = counts["l2_writes"] - min(written, arrays)
    counts["l2_dirtied"] = min(counts["l2_dirtied"], arrays)
    return 0.0


def _add_unseen_errors(
    plan: EstimationPlan, counts: CountsByName, errors: CountsByName, surplus: float, fills_later: bool
) -> None:
    """Add to the standard errors what differences between runs cannot show; it grows as less of the grid is run.

    The order of accesses matters more in several waves, and if the L1s are only full later than any run shows
    (`fills_later`).
    """
    several_waves, fewer_sms = plan.waves > 1, plan.windows[0].sms < plan.sms and len(plan.windows) == 1
    misses = sum(counts[cause] for cause in MissCounts.CAUSES)

    def add(name: str, error: float) -> None:
        errors[name] = (errors[name] ** 2 + error**2) ** 0.5

    widening = 1 + log10(1 / plan.covered) / 2
    order_error = widening * (WAVE_ORDER_ERROR if several_waves or fills_later else WAVE_ORDER_ERROR / 3)
    for name in ("hits", "latency_misses", *MissCounts.CAUSES):
        add(name, order_error * min(misses, counts[name]) + 1.0)
    variation = max(BLOCK_VARIATION_ERROR, plan.spread)
    for name in errors:
        add(name, variation * counts[name])
    add("steps", widening * (WAVE_ORDER_TIME_ERROR if several_waves else WAVE_ORDER_TIME_ERROR / 3) * counts["steps"])
    if "l2_reads" in counts:
        drifts = several_waves or plan.covered < DRIFTED_SHARE
        sharing_error = widening * DRIFT_DRAM_ERROR if drifts else order_error
        relative = (sharing_error**2 + (FEWER_SMS_DRAM_ERROR if fewer_sms else 0.0) ** 2) ** 0.5
        for name in ("l2_misses", "l2_dram_read_sectors"):
            add(name, relative * counts[name] + 1.0)
            add(name, 0.5 * surplus)
        add("l2_dirtied", order_error * counts["l2_dirtied"])
        add("l2_reads", order_error * misses)


# ---- results


def replace_counts(prediction: Prediction, counts: CountsByName, gpu: GPU) -> Prediction:
    """Return a prediction in which `counts` replace its own."""
    l2 = None
    if prediction.l2 is not None:
        filled = counts["l2_dram_read_sectors"] + counts["l2_writes"] - counts["l2_write_hits"]
        room = gpu.l2.slices * gpu.l2.size // gpu.l2_sector_bytes
        # The same share of sectors is dirty among those left at the end and among all ever brought in.
        dirty = min(1.0, room / filled) * counts["l2_dirtied"] if filled else counts["l2_dirtied"]
        if gpu.l2.dirty_ways is not None:
            dirty = min(dirty, float(gpu.l2_dirty_sectors))
        known: dict[str, Any] = {name: counts[f"l2_{name}"] for name in L2_COUNTS}
        l2 = replace(prediction.l2, **known, dirty=dirty, write_backs=counts["l2_dirtied"] - dirty)
        l2 = l2.with_constants(prediction.l2.constant_sectors)
    plain: dict[str, Any] = {name: counts[name] for name in SmCounts.COUNTERS}
    misses = MissCounts(*(counts[cause] for cause in MissCounts.CAUSES))
    stores = StoreCounts(*(counts[f"stores_{name}"] for name in StoreCounts.COUNTS))
    return replace(prediction, **plain, misses=misses, stores=stores, l2=l2)


def make_estimates(
    prediction: Prediction,
    errors: CountsByName,
    sampled: str,
    reach: Reach | None = None,
    dram_limits: tuple[float, float] = (0.0, float("inf")),
) -> dict[str, Estimate]:
    """Return the estimates of a prediction with the standard errors of its counts; without errors they are exact.

    Intervals extend further by `reach`, but for DRAM reads and misses of the L2 not beyond `dram_limits`.
    """
    total = prediction.sectors
    of_misses = sum(errors.get(cause, 0.0) for cause in MissCounts.CAUSES)
    known = {name: (getattr(prediction, name), errors.get(name, 0.0)) for name in ESTIMATED}
    known["misses"] = prediction.misses.total, of_misses
    reach = dict(reach or {})
    if total:
        # Misses and sectors err together: the rate is at least as certain as the misses would be if the number of
        # sectors were known.
        known["miss_rate"] = prediction.misses.total / total, of_misses / total
        below, above = reach.get("misses", (0.0, 0.0))
        reach["miss_rate"] = below / total, above / total
    l2 = prediction.l2
    if l2 is not None:
        known |= {
            "l2_reads": (l2.reads, errors.get("l2_reads", 0.0)),
            "l2_misses": (l2.misses, errors.get("l2_misses", 0.0)),
            "dram_read_sectors": (l2.missed_sectors, errors.get("l2_dram_read_sectors", 0.0)),
            "l2_bytes": (l2.bytes, l2.sector * hypot(errors.get("l2_reads", 0.0), errors.get("l2_writes", 0.0))),
        }
        of_dram = hypot(errors.get("l2_dram_read_sectors", 0.0), errors.get("l2_dirtied", 0.0))
        known["dram_bytes"] = l2.dram_bytes - l2.constant_sectors * l2.sector, l2.sector * of_dram
        below, above = reach.get("l2_reads", (0.0, 0.0))
        reach["l2_bytes"] = l2.sector * below, l2.sector * above
        below, above = reach.get("dram_read_sectors", (0.0, 0.0))
        reach["dram_bytes"] = l2.sector * below, l2.sector * above
    found = {
        name: _make_estimate(name, value, error, sampled, *reach.get(name, (0.0, 0.0)))
        for name, (value, error) in known.items()
    }
    if l2 is not None and errors:
        _limit_dram(found, l2, *dram_limits)
        found["l2_miss_rate"] = _rate(found["l2_misses"], found["l2_reads"])
    elif l2 is not None:
        found["l2_miss_rate"] = _make_estimate("l2_miss_rate", l2.miss_rate, 0.0, sampled)
    if l2 is not None:
        for name, unit in (("dram_read_sectors", 1), ("dram_bytes", l2.sector)):
            found[name] = found[name].plus(l2.constant_sectors * unit)
    return found


def _make_estimate(
    name: str, value: float, error: float, sampled: str, below: float = 0.0, above: float = 0.0
) -> Estimate:
    half = INTERVAL_STANDARD_ERRORS * error
    low, high = max(0.0, value - half - below), value + half + above
    if name in ("dram_bytes", "dram_read_sectors", "l2_misses") and value:
        # The error is a factor rather than a sum: an excerpt is as likely to halve the traffic as to double it.
        factor = exp(min(half / value, MAX_DRAM_LOG_FACTOR))
        low, high = min(low, value / factor), value * factor + above
    if name == "miss_rate":
        high = min(1.0, high)
    return Estimate(value=value, standard_error=error, low=low, high=high, sampled=sampled)


def _limit_dram(found: dict[str, Estimate], l2: L2Prediction, least: float, most: float) -> None:
    """Cut the intervals of what is read from DRAM: `least` to `most` sectors, and no more misses than reads."""
    reads = found["dram_read_sectors"]
    low, high = min(reads.value, max(reads.low, least)), max(reads.value, min(reads.high, most))
    found["dram_read_sectors"] = replace(reads, low=low, high=high)
    misses = found["l2_misses"]
    high = max(misses.value, min(misses.high, most, found["l2_reads"].high))
    found["l2_misses"] = replace(misses, high=high)
    if most < float("inf"):
        # Everything fits into the L2, so that nothing is written back.
        traffic = found["dram_bytes"]
        low = min(traffic.value, max(traffic.low, least * l2.sector))
        high = max(traffic.value, min(traffic.high, most * l2.sector))
        found["dram_bytes"] = replace(traffic, low=low, high=high)


def _rate(top: Estimate, bottom: Estimate) -> Estimate:
    """Return the estimate of a rate, with all rates that the intervals of both counts allow."""
    value = top.value / bottom.value if bottom.value else 0.0
    errors = (one.standard_error / one.value if one.value else 0.0 for one in (top, bottom))
    low = top.low / bottom.high if bottom.high else 0.0
    high = min(1.0, top.high / bottom.low) if bottom.low else 1.0
    return replace(top, value=value, standard_error=value * hypot(*errors), low=min(low, value), high=max(high, value))
