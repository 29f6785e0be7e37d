"""Which SMs and which blocks a sampled `predict` runs, and what they say of the whole (docs/sampling.md).

SMs are a random sample, apart for SMs with more and with fewer blocks where that matters; totals and rates are ratio
estimates with the finite population correction. Blocks of
an SM are sampled in stretches: two waves of consecutive blocks, after two waves that fill the cache and are not
counted. How the SM begins and ends is always among them. Where the second of those waves differs from what follows it,
the stretches began too cold; that difference is part of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from rdmodel.checks import check_int
from rdmodel.errors import ConfigError
from rdmodel.estimates import Estimate, estimate
from rdmodel.result import MissCounts, SmCounts

WAVES = 2
"""Waves of resident blocks in a stretch, and before it."""

FEWEST_SMS = 2
"""The error cannot be estimated from less."""

ALIKE = 9
"""Blocks of an SM from which on one more does not make it another kind of SM."""

FEWEST_STRETCHES = 4
"""Of an SM: from less, intervals become too wide to be of use."""

SALT = 0x5A3D
"""Keeps the choice of a sample apart from the draws of the model."""

TOTALS: dict[str, Callable[[SmCounts], float]] = {
    "transactions": lambda sm: sm.transactions,
    "hits": lambda sm: sm.hits,
    "latency_misses": lambda sm: sm.latency_misses,
    "misses": lambda sm: sm.misses.total,
}
CAUSES: dict[str, Callable[[SmCounts], float]] = {
    "compulsory": lambda sm: sm.misses.compulsory,
    "capacity": lambda sm: sm.misses.capacity,
    "associativity": lambda sm: sm.misses.associativity,
}
RATES = {"miss_rate": "misses", "latency_miss_rate": "latency_misses"}
"""Rates, and what they are a share of the transactions of."""

LEAST = 1.0
"""Requests: hits and misses of SMs, or of stretches, are never taken to vary by less (as a standard deviation).

Those in a small sample often agree to the unit where one in ten is different; no interval is to be of no width then.
"""

SUMMED = ("transactions", "hits", "latency_misses", "stalls_mshr", "stalls_ways", "bypassed", "steps")


def check_sampling(sample_sms: Any, sample_blocks: Any) -> None:
    """Raise `ConfigError` for what is no number of SMs or no share of blocks, and for both."""
    if sample_sms is not None:
        check_int("sample_sms", sample_sms, 1)
    if sample_blocks is not None:
        wrong = isinstance(sample_blocks, bool) or not isinstance(sample_blocks, int | float)
        if wrong or not isfinite(sample_blocks) or not 0 < sample_blocks <= 1:
            raise ConfigError(f"sample_blocks={sample_blocks!r}: must be a number above 0 and at most 1")
        if sample_sms is not None:
            raise ConfigError(f"sample_blocks={sample_blocks!r}: not together with sample_sms, one sample at a time")


def _chosen(count: int, size: int, *seed: int) -> list[int]:
    """Return `size` of `count` numbers, ascending, each choice as likely."""
    return sorted(np.random.default_rng([SALT, *seed]).choice(count, size, replace=False).tolist())


# ---- SMs


def strata(blocks: Mapping[int, int]) -> list[list[int]]:
    """Return the SMs in groups that are sampled apart: by their blocks, where a block more is much more.

    `blocks` has the number of blocks of each SM. Dealing makes these numbers differ by one at most; from 9 on, an SM
    with one more counts as alike.
    """
    groups: dict[int, list[int]] = {}
    for sm, count in blocks.items():
        if count:
            groups.setdefault(min(count, ALIKE), []).append(sm)
    return [groups[count] for count in sorted(groups)]


def choose_sms(groups: Sequence[Sequence[int]], size: int, seed: int) -> list[list[int]]:
    """Return `size` SMs, of each group about its share; raise `ConfigError` if the error could not be estimated."""
    least = [min(len(group), FEWEST_SMS) for group in groups]
    if size < sum(least):
        why = "for the error to be estimated" if len(groups) == 1 else "for SMs with more and with fewer blocks"
        raise ConfigError(f"sample_sms={size}: must be at least {sum(least)}, {why}")
    for _ in range(min(size, sum(map(len, groups))) - sum(least)):
        wanted = [0 if got == len(group) else len(group) / got for got, group in zip(least, groups, strict=True)]
        least[wanted.index(max(wanted))] += 1
    return [
        [group[at] for at in _chosen(len(group), got, seed, number)]
        for number, (got, group) in enumerate(zip(least, groups, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class Group:
    """The SMs sampled from one group, and how many SMs and blocks the group has."""

    sample: Sequence[SmCounts]
    sms: int
    blocks: int

    def total(self, one: Callable[[SmCounts], float]) -> float:
        """Return the estimated total of a count: as much per block as in the sample."""
        return self.blocks * sum(one(sm) for sm in self.sample) / sum(sm.blocks for sm in self.sample)

    def variance(self, one: Callable[[SmCounts], float], least: float = 0.0) -> float:
        """Return the variance of that total (Cochran, Sampling Techniques, chapter 6); `least` of one SM's count."""
        size = len(self.sample)
        if size == self.sms:
            return 0.0
        per_block = self.total(one) / self.blocks
        off = [one(sm) - per_block * sm.blocks for sm in self.sample]
        spread = max(least, sum(x * x for x in off) / (size - 1)) / size * (1 - size / self.sms)
        return spread * (self.blocks * size / sum(sm.blocks for sm in self.sample)) ** 2


def estimates_of_sms(groups: Sequence[Group]) -> dict[str, Estimate]:
    """Return what a sample of each group says of all SMs."""
    sampled = f"{sum(len(group.sample) for group in groups)} of {sum(group.sms for group in groups)} SMs"
    value = {name: sum(group.total(one) for group in groups) for name, one in (TOTALS | CAUSES).items()}

    def about(one: Callable[[SmCounts], float], found: float, by: float, most: float = float("inf")) -> Estimate:
        least = 0.0 if one is TOTALS["transactions"] else LEAST
        variances = [group.variance(one, least) / by**2 for group in groups]
        weights = sum(v * v / (len(group.sample) - 1) for v, group in zip(variances, groups, strict=True) if v)
        # Satterthwaite's approximation: groups whose variance is small add little freedom.
        return estimate(found, sum(variances), sum(variances) ** 2 / weights if weights else 1, sampled, most=most)

    def rate(name: str) -> Estimate:
        share = value[name] / value["transactions"]
        return about(lambda sm: TOTALS[name](sm) - share * sm.transactions, share, value["transactions"], 1.0)

    rates = {name: rate(part) for name, part in RATES.items()}
    return rates | {name: about(one, value[name], 1.0) for name, one in (TOTALS | CAUSES).items()}


# ---- blocks


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
        """All that is run."""
        return (*self.ends, *self.chosen)


def plan(blocks: int, resident: int, share: float, seed: int, sm: int) -> Plan:
    """Return what is run of an SM with so many `blocks`, of which so many are `resident` at a time."""
    long = WAVES * resident
    stretches = max(0, blocks - 2 * long) // long
    size = max(FEWEST_STRETCHES, round(share * stretches))
    # A stretch and the end cost as much again before them: where that saves nothing, all blocks are run.
    if 2 * size + 1 >= stretches:
        return Plan((Stretch(0, 0, blocks),), (), 0, blocks)
    end = long * (1 + stretches)
    ends = (Stretch(0, 0, long), Stretch(end - long, end, blocks))
    starts = [long * (1 + at) for at in _chosen(stretches, size, seed, sm)]
    return Plan(ends, tuple(Stretch(start - long, start, start + long) for start in starts), stretches, blocks)


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


@dataclass(frozen=True, slots=True)
class Sampled:
    """An SM that was run in parts: its plan, what each part counted, and the wave before each, in the plan's order."""

    plan: Plan
    counts: tuple[SmCounts, ...]
    before: tuple[SmCounts, ...]

    @property
    def _chosen(self) -> tuple[SmCounts, ...]:
        return self.counts[len(self.plan.ends) :]

    def total(self) -> SmCounts:
        """Return the estimated counts of all of the SM's blocks."""
        size = len(self._chosen)
        factors = [1.0] * len(self.plan.ends) + [self.plan.stretches / size if size else 0.0] * size
        return _combined(self.counts, factors if size else [1] * len(factors))

    def variance(self, one: Callable[[SmCounts], float], least: float = 0.0) -> float:
        """Return the variance of the estimated total of a count: other stretches could have been chosen."""
        size, of = len(self._chosen), self.plan.stretches
        if size == 0:
            return 0.0
        return of * (of - size) / size * max(least, float(np.var([one(sm) for sm in self._chosen], ddof=1)))

    def drift(self, one: Callable[[SmCounts], float]) -> float:
        """Return how much more the total would be, were the stretches like the waves before them."""
        if not self._chosen:
            return 0.0
        counted, earlier = (
            sum(one(sm) for sm in sms) / sum(sm.blocks for sm in sms)
            for sms in (self._chosen, self.before[len(self.plan.ends) :])
        )
        first, last = self.plan.ends
        return (earlier - counted) * (last.first - first.last)

    @property
    def freedom(self) -> int:
        """How many numbers the variance is made of, less one."""
        return max(0, len(self._chosen) - 1)


def estimates_of_blocks(sms: Sequence[Sampled]) -> dict[str, Estimate]:
    """Return what the parts that were run say of all blocks of the SMs that are modelled."""
    totals = [sm.total() for sm in sms]
    run = sum(part.last - part.first for sm in sms for part in sm.plan.parts)
    sampled = f"{run:,} of {sum(sm.plan.blocks for sm in sms):,} blocks"
    freedom = max(1, sum(sm.freedom for sm in sms))
    value = {name: sum(one(sm) for sm in totals) for name, one in TOTALS.items()}

    def error(one: Callable[[SmCounts], float]) -> float:
        least = 0.0 if one is TOTALS["transactions"] else LEAST
        return sum(sm.variance(one, least) for sm in sms) + sum(sm.drift(one) for sm in sms) ** 2

    def rate(name: str) -> Estimate:
        share = value[name] / value["transactions"]
        variance = error(lambda one: TOTALS[name](one) - share * one.transactions)
        return estimate(share, variance / value["transactions"] ** 2, freedom, sampled, most=1.0)

    rates = {name: rate(part) for name, part in RATES.items()}
    return rates | {name: estimate(value[name], error(one), freedom, sampled) for name, one in TOTALS.items()}
