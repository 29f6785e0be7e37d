"""From what parts of a grid counted to what all of it would, with standard errors (docs/sampling.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log10
from typing import Any

from rdmodel.common.intervals import Estimate
from rdmodel.estimation.plan import Plan, Window
from rdmodel.gpu.config import GPU
from rdmodel.results.prediction import L2Prediction, MissCounts, Prediction, SmCounts
from rdmodel.trace import Launch

L2_COUNTS = tuple(name for name in L2Prediction.COUNTERS if name not in ("write_backs", "dirty"))
"""Counters of the L2 that are extrapolated; the other two follow from the number of lines that became dirty."""


DEVIATIONS = 2.0
"""Half of an interval, in standard errors."""

BEGINNING = 0.25
"""The standard error of what is left out, by how much the rate went down between the first part and the next."""

ORDER = 0.06
"""The standard error of hits and misses, relative to the misses: later waves come in another order."""

ORDER_OF_TIME = 0.12
"""The same of the time."""

BLOCKS = 0.005
"""The same of all counts, even if the blocks that were looked at are all alike: others may be at a border."""

DRIFTING = 0.3
"""The same of DRAM lines, where there are several waves or long blocks: SMs drift apart, and share less in the L2."""

LITTLE = 0.2
"""A share of the grid after which SMs have not drifted as far as they will."""

FEWER_SMS = 0.6
"""The same where less than all SMs are run with the L2."""

Counts = dict[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """What was `counted`, of parts of blocks that come to so many `whole` ones."""

    counts: Counts
    whole: float


def counts_of(found: Prediction, instructions: float) -> Counts:
    """Return all counts of a prediction by name; lines made dirty count, whether or not they were written back yet."""
    counts: Counts = {name: getattr(found, name) for name in SmCounts.COUNTERS}
    counts |= {cause: getattr(found.misses, cause) for cause in MissCounts.CAUSES}
    counts["instructions"] = instructions
    if found.l2 is not None:
        counts |= {f"l2_{name}": getattr(found.l2, name) for name in L2_COUNTS}
        counts["l2_dirtied"] = found.l2.write_backs + found.l2.dirty
    return counts


def prolonged(long: Run, short: Run | None, whole: float) -> tuple[Counts, Counts]:
    """Return the counts of so many whole blocks, and standard errors: from `short` on they grow as up to `long`."""
    rest = whole - long.whole
    if short is None or rest <= 0:
        return {name: count * whole / long.whole for name, count in long.counts.items()}, dict.fromkeys(
            long.counts, 0.0
        )
    counts, errors = {}, {}
    for name, count in long.counts.items():
        slope = max(0.0, (count - short.counts[name]) / (long.whole - short.whole))
        counts[name] = count + slope * rest
        errors[name] = BEGINNING * abs(short.counts[name] / short.whole - slope) * rest
    return counts, errors


def scaled(plan: Plan, found: Sequence[tuple[Run, Run | None]], gpu: GPU, launch: Launch) -> tuple[Counts, Counts]:
    """Return the counts of the whole grid, and their standard errors, from the runs of each window of a plan."""
    each = [_of_grid(plan, window, *runs) for window, runs in zip(plan.windows, found, strict=True)]
    n = len(each)
    counts = {name: sum(counts[name] for counts, _ in each) / n for name in each[0][0]}
    errors = {}
    for name, mean in counts.items():
        between = sum((counts[name] - mean) ** 2 for counts, _ in each) / (n - 1) / n if n > 1 else 0.0
        errors[name] = (between + sum(errors[name] ** 2 for _, errors in each) / n) ** 0.5
    surplus = _use_again(plan, counts, gpu, launch) if "l2_reads" in counts else 0.0
    _widen(plan, counts, errors, surplus)
    return counts, errors


def _of_grid(plan: Plan, window: Window, long: Run, short: Run | None) -> tuple[Counts, Counts]:
    of = plan.blocks * window.sms / plan.sms if window.shorter else len(window.ids)
    counts, errors = prolonged(long, short, of)
    times = 1.0 if window.shorter else _times(plan, window, counts)
    for name in counts:
        factor = times if name == "steps" else plan.blocks / of
        counts[name] *= factor
        errors[name] *= factor
    return counts, errors


def _times(plan: Plan, window: Window, counts: Counts) -> float:
    """Return how many times as long as the window an SM takes for all its blocks.

    The last ones have the SM for themselves: as far as it is busy they are faster, otherwise they are not.
    """
    together = -(-len(window.ids) // window.sms)
    per_sm = -(-plan.blocks // plan.sms)
    full, rest = divmod(per_sm, together)
    if not rest:
        return full
    busy = min(1.0, counts["transactions"] / window.sms / max(counts["steps"], 1.0))
    return full + 1 - busy * (1 - rest / together)


def _use_again(plan: Plan, counts: Counts, gpu: GPU, launch: Launch) -> float:
    """Let later waves find in the L2 what earlier ones left there, if one wave leaves room for that.

    Returns how many lines are still brought in more than once, where the arrays are not much larger than the L2: then
    it is uncertain whether they are.
    """
    lines, waves = gpu.l2.slices * gpu.l2.size // gpu.l1.line, plan.waves
    written = counts["l2_writes"] - counts["l2_write_hits"]
    filled = counts["l2_misses"] + written
    arrays = sum(-(-array.bytes // gpu.l1.line) for array in launch.arrays)
    if not arrays or filled <= arrays or (arrays > lines and (plan.windows[0].shorter or filled / waves > lines)):
        return max(0.0, filled - arrays) if arrays < 2 * lines else 0.0
    once = arrays / filled
    counts["l2_misses"] *= once
    counts["l2_hits"] = counts["l2_reads"] - counts["l2_misses"]
    counts["l2_write_hits"] = counts["l2_writes"] - once * written
    counts["l2_dirtied"] = min(counts["l2_dirtied"], arrays)
    return 0.0


def _widen(plan: Plan, counts: Counts, errors: Counts, surplus: float) -> None:
    """Add what no difference between parts can tell."""
    several, fewer = plan.waves > 1, plan.windows[0].sms < plan.sms and len(plan.windows) == 1
    misses = sum(counts[cause] for cause in MissCounts.CAUSES)

    def add(name: str, error: float) -> None:
        errors[name] = (errors[name] ** 2 + error**2) ** 0.5

    wider = 1 + log10(1 / plan.covered) / 2
    of_order = wider * (ORDER if several else ORDER / 3)
    for name in ("hits", "latency_misses", *MissCounts.CAUSES):
        add(name, of_order * min(misses, counts[name]) + 1.0)
    for name in errors:
        add(name, max(BLOCKS, plan.spread) * counts[name])
    add("steps", wider * (ORDER_OF_TIME if several else ORDER_OF_TIME / 3) * counts["steps"])
    if "l2_reads" in counts:
        drifting = several or plan.covered < LITTLE
        relative = ((wider * DRIFTING if drifting else of_order) ** 2 + (FEWER_SMS if fewer else 0.0) ** 2) ** 0.5
        add("l2_misses", relative * counts["l2_misses"] + 1.0)
        add("l2_misses", 0.5 * surplus)
        add("l2_dirtied", of_order * counts["l2_dirtied"])
        add("l2_reads", of_order * misses)


# ---- results


def with_counts(found: Prediction, counts: Counts, gpu: GPU) -> Prediction:
    """Return a prediction with the counts of the whole grid in place of its own."""
    l2 = None
    if found.l2 is not None:
        filled = counts["l2_misses"] + counts["l2_writes"] - counts["l2_write_hits"]
        lines = gpu.l2.slices * gpu.l2.size // gpu.l1.line
        # What is left at the end is dirty as often as what was ever brought in.
        dirty = min(1.0, lines / filled) * counts["l2_dirtied"] if filled else counts["l2_dirtied"]
        known: dict[str, Any] = {name: counts[f"l2_{name}"] for name in L2_COUNTS}
        l2 = replace(found.l2, **known, dirty=dirty, write_backs=counts["l2_dirtied"] - dirty)
    plain: dict[str, Any] = {name: counts[name] for name in SmCounts.COUNTERS}
    return replace(found, **plain, misses=MissCounts(*(counts[cause] for cause in MissCounts.CAUSES)), l2=l2)


def estimates(found: Prediction, errors: Counts, sampled: str) -> dict[str, Estimate]:
    """Return the estimates of a prediction with such standard errors (none: it is exact)."""
    total = found.transactions
    of_misses = sum(errors.get(cause, 0.0) for cause in MissCounts.CAUSES)
    known = {name: (getattr(found, name), errors.get(name, 0.0)) for name in ESTIMATED}
    known["misses"] = found.misses.total, of_misses
    if total:
        # Misses and transactions rise together: the rate is no less certain than the misses of so many transactions.
        known["miss_rate"] = found.misses.total / total, of_misses / total
    if found.l2 is not None:
        line = found.l2.line
        known["l2_bytes"] = (
            found.l2.bytes,
            line * (errors.get("l2_reads", 0.0) ** 2 + errors.get("l2_writes", 0.0) ** 2) ** 0.5,
        )
        of_dram = (errors.get("l2_misses", 0.0) ** 2 + errors.get("l2_dirtied", 0.0) ** 2) ** 0.5
        known["dram_bytes"] = found.l2.dram_bytes, line * of_dram
    return {name: _estimate(name, value, error, sampled) for name, (value, error) in known.items()}


def _estimate(name: str, value: float, error: float, sampled: str) -> Estimate:
    low, high = max(0.0, value - DEVIATIONS * error), value + DEVIATIONS * error
    if name == "dram_bytes" and value:
        # Off by a factor rather than by a sum: from a part of the grid, traffic is as easily half as twice.
        factor = exp(min(DEVIATIONS * error / value, MOST_OFF))
        low, high = min(low, value / factor), value * factor
    if name == "miss_rate":
        high = min(1.0, high)
    return Estimate(value=value, standard_error=error, low=low, high=high, sampled=sampled)


MOST_OFF = 5.0
"""The logarithm of the largest factor between the estimate of DRAM traffic and the end of its interval."""

ESTIMATED = ("transactions", "hits", "latency_misses", "steps")
