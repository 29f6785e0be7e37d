"""Which blocks of an SM a sampled `predict` runs, and what they say of all of them (docs/sampling.md).

Blocks are sampled in stretches of consecutive ones. One SM runs through all that is chosen and is never emptied:
between two stretches the order of blocks is skipped, not the time, so the blocks stay out of step as they are in a long
run. How the SM begins and ends is always among them. After a skip, some waves fill the cache and are not counted; how
much the last of them differs from what follows it is part of the error, and so is what no stretch can see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rdmodel.common.estimate import Estimate, estimate
from rdmodel.model.sample_sms import CAUSES, LEAST, RATES, TOTALS, choose
from rdmodel.results.prediction import MissCounts, SmCounts

BEGINNING = 16
"""Waves of resident blocks at the beginning that are always run, or a quarter of all if that is less.

Blocks that began together drift apart in them.
"""

WAVES = 4
"""Waves in a stretch; half as many where the beginning is shorter, so that SMs with fewer blocks have stretches too."""

BEFORE = 2
"""Waves that are run before a stretch, where blocks before it were skipped, and waves at the end, at least."""

MOST = 0.75
"""Share of an SM's blocks from which on a sample saves too little: all are run."""

FEWEST_STRETCHES = 4
"""Of an SM: from less, intervals become too wide to be of use."""

DRIFT = 0.5
"""Share of the difference between stretches and the waves before them that is taken for what is left of the skip."""

UNSEEN = 0.06
"""Standard error that differences between stretches do not show, as a share of the count, or of its complement.

It is divided by the root of the number of stretches. How the blocks of an SM lie in time changes over more waves than a
stretch has, so neighbours are alike, and differs from one run to the next. Chosen, as `DRIFT` was, with kernels and
GPUs other than those of the record of validation/sampling (validation/sampling/elsewhere.py).
"""

SUMMED = ("transactions", "hits", "latency_misses", "stalls_mshr", "stalls_ways", "bypassed", "steps")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive blocks of an SM, by their place in its order: run from `begin` on, counted from `first` to `last`."""

    begin: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run of an SM's blocks: how it begins, how it ends, and a sample of the `stretches` in between.

    `ends` has the beginning and the end, or all blocks where nothing is left out.
    """

    ends: tuple[Stretch, ...]
    chosen: tuple[Stretch, ...]
    stretches: int
    blocks: int

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """All that is run, in the order of the blocks."""
        return (*self.ends[:1], *self.chosen, *self.ends[1:])

    @property
    def run(self) -> int:
        """How many blocks are run, those that are not counted too."""
        return sum(part.last - part.begin for part in self.parts)


def plan(blocks: int, resident: int, share: float, seed: int, sm: int) -> Plan:
    """Return what is run of an SM with so many `blocks`, of which so many are `resident` at a time."""
    waves = blocks // resident
    begin = min(BEGINNING, waves // 4) * resident
    long = (WAVES if waves // 4 >= BEGINNING else WAVES // 2) * resident
    least = BEFORE * resident
    stretches = max(0, blocks - begin - least) // long
    size = max(FEWEST_STRETCHES, round(share * stretches))
    end = begin + long * stretches
    # Neighbours among the chosen save what is run before one, but may not decide whether there is a sample.
    most = begin + size * (least + long) + least + blocks - end
    if size >= stretches or most > MOST * blocks:
        return Plan((Stretch(0, 0, blocks),), (), 0, blocks)
    done = begin
    chosen: list[Stretch] = []
    for first in (begin + long * at for at in choose(stretches, size, seed, sm)):
        chosen.append(Stretch(max(done, first - least), first, first + long))
        done = first + long
    return Plan((Stretch(0, 0, begin), Stretch(max(done, end - least), end, blocks)), tuple(chosen), stretches, blocks)


def minus(after: SmCounts, before: SmCounts) -> SmCounts:
    """Return what was counted in between."""
    return _combined([after, before], [1, -1])


def _combined(counts: Sequence[SmCounts], factors: Sequence[float]) -> SmCounts:
    def total(one: Callable[[SmCounts], float]) -> float:
        return sum(factor * one(sm) for sm, factor in zip(counts, factors, strict=True))

    return SmCounts(
        sm=counts[0].sm,
        blocks=round(total(lambda sm: sm.blocks)),
        misses=MissCounts(*(total(one) for one in CAUSES.values())),
        **{name: total(lambda sm, name=name: getattr(sm, name)) for name in SUMMED},  # type: ignore[misc]
    )


def _per_block(one: Callable[[SmCounts], float], sms: Sequence[SmCounts]) -> float:
    return sum(one(sm) for sm in sms) / sum(sm.blocks for sm in sms)


@dataclass(frozen=True, slots=True)
class Sampled:
    """An SM that was run in parts: its plan, what each part counted, and the wave before each, in the plan's order.

    Where nothing was skipped before a part, no wave stands before it: its counts are all 0.
    """

    plan: Plan
    counts: tuple[SmCounts, ...]
    before: tuple[SmCounts, ...]

    @property
    def _chosen(self) -> tuple[SmCounts, ...]:
        return self.counts[1:-1]

    def _in_between(self, one: Callable[[SmCounts], float]) -> float:
        """Return the estimated total of a count between the beginning and the end."""
        return self.plan.stretches / len(self._chosen) * sum(one(sm) for sm in self._chosen)

    def total(self) -> SmCounts:
        """Return the estimated counts of all of the SM's blocks."""
        size = len(self._chosen)
        if size == 0:
            return self.counts[0]
        return _combined(self.counts, [1, *[self.plan.stretches / size] * size, 1])

    def variance(self, one: Callable[[SmCounts], float], least: float = 0.0) -> float:
        """Return the variance of the estimated total of a count: other stretches could have been chosen.

        There is no finite population correction: in a run of all blocks the same stretches would count something else.
        """
        size, of = len(self._chosen), self.plan.stretches
        if size == 0:
            return 0.0
        return of * of / size * max(least, float(np.var([one(sm) for sm in self._chosen], ddof=1)))

    def drift(self, one: Callable[[SmCounts], float]) -> float:
        """Return how much more the total would be, were the stretches as the waves before them suggest."""
        pairs = [pair for pair in zip(self._chosen, self.before[1:-1], strict=True) if pair[1].blocks]
        if not pairs:
            return 0.0
        counted, earlier = (_per_block(one, sms) for sms in zip(*pairs, strict=True))
        first, last = self.plan.ends
        return DRIFT * (earlier - counted) * (last.first - first.last)

    def unseen(self, one: Callable[[SmCounts], float]) -> float:
        """Return the standard error of the total of a count that no difference between stretches shows."""
        size = len(self._chosen)
        if size == 0:
            return 0.0
        count = self._in_between(one)
        return float(UNSEEN / size**0.5 * min(count, self._in_between(TOTALS["transactions"]) - count))

    @property
    def freedom(self) -> int:
        """How many numbers the variance is made of, less one."""
        return max(0, len(self._chosen) - 1)


@dataclass(frozen=True, slots=True)
class _Errors:
    """Three independent errors of an estimated total, as variances; the last is known, the others are estimated."""

    choice: float
    drift: float
    unseen: float

    def estimate(self, value: float, by: float, freedom: int, sampled: str, most: float = float("inf")) -> Estimate:
        """Return the estimate of the total divided by `by`, which `value` is."""
        total = self.choice + self.drift + self.unseen
        estimated = self.choice**2 + self.drift**2
        # Satterthwaite's approximation, as for groups of SMs.
        free = freedom * total**2 / estimated if estimated else 1
        return estimate(value, total / by**2, free, sampled, most=most)


def estimates_of_blocks(sms: Sequence[Sampled]) -> dict[str, Estimate]:
    """Return what the parts that were run say of all blocks of the SMs that are modelled."""
    totals = [sm.total() for sm in sms]
    counted = sum(part.last - part.first for sm in sms for part in sm.plan.parts)
    sampled = f"{counted:,} of {sum(sm.plan.blocks for sm in sms):,} blocks"
    freedom = max(1, sum(sm.freedom for sm in sms))
    value = {name: sum(one(sm) for sm in totals) for name, one in TOTALS.items()}

    def about(name: str, share: float, found: float, by: float, most: float = float("inf")) -> Estimate:
        def off(sm: SmCounts) -> float:
            return TOTALS[name](sm) - share * sm.transactions

        least = 0.0 if name == "transactions" else LEAST
        choice = sum(sm.variance(off, least) for sm in sms)
        # What SMs have in common does not average out.
        drift, unseen = sum(sm.drift(off) for sm in sms), sum(sm.unseen(TOTALS[name]) for sm in sms)
        return _Errors(choice, drift**2, unseen**2).estimate(found, by, freedom, sampled, most)

    def rate(part: str) -> Estimate:
        share = value[part] / value["transactions"]
        return about(part, share, share, value["transactions"], 1.0)

    rates = {name: rate(part) for name, part in RATES.items()}
    return rates | {name: about(name, 0.0, value[name], 1.0) for name in TOTALS}
