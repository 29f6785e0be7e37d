"""Sample some SMs, and estimate the counters of all SMs (docs/sampling.md).

The SMs are a random sample, stratified by their number of blocks where that matters. Totals and rates are ratio
estimates with the finite population correction. `rdmodel.model.sample_blocks` samples the blocks of an SM instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import Any

import numpy as np

from rdmodel.common.checks import check_int
from rdmodel.common.intervals import Estimate, student_estimate
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.results.counts import MissCounts, SmCounts

MIN_SMS_PER_STRATUM = 2
"""Fewest sampled SMs of a stratum: the error cannot be estimated from one."""

BLOCKS_OF_SIMILAR_SMS = 9
"""Blocks per SM from which on SMs that differ by one block are in one stratum."""

SAMPLE_SALT = 0x5A3D
"""First word of the seed of samples; it keeps their random numbers apart from those of the model."""

ESTIMATED_COUNTS: dict[str, Callable[[SmCounts], float]] = {
    "transactions": attrgetter("transactions"),
    "sectors": attrgetter("sectors"),
    "hits": attrgetter("hits"),
    "latency_misses": attrgetter("latency_misses"),
    "misses": attrgetter("misses.total"),
}
"""Counts of an SM that are estimated from SMs and from blocks, by the name of their estimate."""

REQUESTED_COUNTS = ("transactions", "sectors")
"""Those of these counts that the trace alone determines; the others are outcomes."""

ESTIMATED_CAUSES: dict[str, Callable[[SmCounts], float]] = {
    cause: attrgetter(f"misses.{cause}") for cause in MissCounts.CAUSES
}
"""Misses of an SM by cause; they are estimated from SMs only."""

ESTIMATED_RATES = {"miss_rate": "misses", "latency_miss_rate": "latency_misses"}
"""Rates per sector, with the name of their numerator."""

MIN_VARIANCE = 1.0
"""Smallest variance, in requests squared, of the hits or misses of an SM or of a stretch.

The counts of a small sample are often equal, although one SM in ten may differ; the interval must not have zero width
then.
"""


def check_sampling(sample_sms: Any, sample_blocks: Any) -> None:
    """Raise `ConfigError` unless one of the two is given: a number of SMs, or a share of blocks."""
    if sample_sms is not None:
        check_int("sample_sms", sample_sms, 1)
    if sample_blocks is not None:
        wrong = isinstance(sample_blocks, bool) or not isinstance(sample_blocks, int | float)
        if wrong or not isfinite(sample_blocks) or not 0 < sample_blocks <= 1:
            raise ConfigError(f"sample_blocks={sample_blocks!r}: must be a number above 0 and at most 1")
        if sample_sms is not None:
            raise ConfigError(f"sample_blocks={sample_blocks!r} cannot be combined with sample_sms: use one of them")


def choose(count: int, size: int, *seed: int) -> list[int]:
    """Return `size` of the numbers below `count`, ascending; every choice is equally likely."""
    return sorted(np.random.default_rng([SAMPLE_SALT, *seed]).choice(count, size, replace=False).tolist())


def make_strata(blocks: Mapping[int, int]) -> list[list[int]]:
    """Divide the SMs that have blocks into strata of SMs with about equally many blocks.

    `blocks` has the number of blocks of each SM. Dealing makes these numbers differ by one at most. With 9 blocks or
    more, one block more does not put an SM in another stratum.
    """
    strata: dict[int, list[int]] = {}
    for sm, count in blocks.items():
        if count:
            strata.setdefault(min(count, BLOCKS_OF_SIMILAR_SMS), []).append(sm)
    return [strata[count] for count in sorted(strata)]


def choose_sms(strata: Sequence[Sequence[int]], size: int, seed: int) -> list[list[int]]:
    """Choose `size` SMs, from each stratum about its share; raise `ConfigError` if `size` is too small for an error."""
    sizes = [min(len(stratum), MIN_SMS_PER_STRATUM) for stratum in strata]
    if size < sum(sizes):
        why = "for the error to be estimated" if len(strata) == 1 else "for SMs with more and with fewer blocks"
        raise ConfigError(f"sample_sms={size}: must be at least {sum(sizes)}, {why}")
    for _ in range(min(size, sum(map(len, strata))) - sum(sizes)):
        lack = [0 if n == len(stratum) else len(stratum) / n for n, stratum in zip(sizes, strata, strict=True)]
        sizes[lack.index(max(lack))] += 1
    return [
        [stratum[place] for place in choose(len(stratum), n, seed, number)]
        for number, (n, stratum) in enumerate(zip(sizes, strata, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class Stratum:
    """The counters of the SMs that were sampled from one stratum, and the numbers of its SMs and blocks."""

    sample: Sequence[SmCounts]
    sms: int
    blocks: int

    def total(self, count: Callable[[SmCounts], float]) -> float:
        """Return the estimated total of a counter: per block as much as in the sample."""
        return self.blocks * sum(count(sm) for sm in self.sample) / sum(sm.blocks for sm in self.sample)

    def variance(self, count: Callable[[SmCounts], float], least: float = 0.0) -> float:
        """Return the variance of that total (Cochran, Sampling Techniques, chapter 6).

        `least` is the smallest variance between SMs.
        """
        size = len(self.sample)
        if size == self.sms:
            return 0.0
        per_block = self.total(count) / self.blocks
        residuals = [count(sm) - per_block * sm.blocks for sm in self.sample]
        spread = max(least, sum(x * x for x in residuals) / (size - 1)) / size * (1 - size / self.sms)
        return spread * (self.blocks * size / sum(sm.blocks for sm in self.sample)) ** 2


def estimate_from_sms(strata: Sequence[Stratum]) -> dict[str, Estimate]:
    """Estimate totals and rates of all SMs from the samples of all strata, by name."""
    sampled = f"{sum(len(stratum.sample) for stratum in strata)} of {sum(stratum.sms for stratum in strata)} SMs"
    counts = ESTIMATED_COUNTS | ESTIMATED_CAUSES
    value = {name: sum(stratum.total(count) for stratum in strata) for name, count in counts.items()}

    requested = [ESTIMATED_COUNTS[name] for name in REQUESTED_COUNTS]

    def estimate(count: Callable[[SmCounts], float], number: float, by: float, most: float = float("inf")) -> Estimate:
        least = 0.0 if count in requested else MIN_VARIANCE
        variances = [stratum.variance(count, least) / by**2 for stratum in strata]
        weights = sum(v * v / (len(stratum.sample) - 1) for v, stratum in zip(variances, strata, strict=True) if v)
        # Satterthwaite's approximation: strata with a small variance add few degrees of freedom.
        freedom = sum(variances) ** 2 / weights if weights else 1
        return student_estimate(number, sum(variances), freedom, sampled, most=most)

    def estimate_rate(numerator: str) -> Estimate:
        share = value[numerator] / value["sectors"]
        count = ESTIMATED_COUNTS[numerator]
        return estimate(lambda sm: count(sm) - share * sm.sectors, share, value["sectors"], 1.0)

    # Without loads there are no rates.
    rates = {name: estimate_rate(numerator) for name, numerator in ESTIMATED_RATES.items() if value["transactions"]}
    return rates | {name: estimate(count, value[name], 1.0) for name, count in counts.items()}
