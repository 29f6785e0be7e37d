"""Which SMs a sampled `predict` runs, and what they say of the whole (docs/sampling.md).

SMs are a random sample, apart for SMs with more and with fewer blocks where that matters; totals and rates are ratio
estimates with the finite population correction. `rdmodel.model.sample_blocks` samples the blocks of an SM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from rdmodel.common.checks import check_int
from rdmodel.common.estimate import Estimate, estimate
from rdmodel.errors import ConfigError
from rdmodel.results.prediction import SmCounts

FEWEST_SMS = 2
"""The error cannot be estimated from less."""

ALIKE = 9
"""Blocks of an SM from which on one more does not make it another kind of SM."""

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


def choose(count: int, size: int, *seed: int) -> list[int]:
    """Return `size` of `count` numbers, ascending, each choice as likely."""
    return sorted(np.random.default_rng([SALT, *seed]).choice(count, size, replace=False).tolist())


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
        [group[at] for at in choose(len(group), got, seed, number)]
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
