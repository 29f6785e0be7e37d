"""Sample the blocks of an SM in stretches, and estimate the counters of all its blocks (docs/sampling.md).

A stretch is a sequence of consecutive blocks. One SM runs all chosen stretches and is not emptied in between: the order
of blocks skips ahead, time does not, so the blocks stay out of step as they are in a long run. The first and the last
blocks of an SM are always run. After a skip, some waves fill the cache and are not counted. The difference between the
last of these waves and the stretch behind them is a part of the error, and so is variation that stretches cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rdmodel.common.intervals import Estimate, student_estimate
from rdmodel.common.late_dataclass import dataclass
from rdmodel.model.averages import combine_linearly
from rdmodel.model.sample_sms import ESTIMATED_COUNTS, ESTIMATED_RATES, MIN_VARIANCE, REQUESTED_COUNTS, choose
from rdmodel.results.counts import SmCounts

WARMUP_WAVES = 16
"""Waves at the beginning that are always run, or a quarter of all waves if that is less.

In these waves, the blocks that began together drift apart.
"""

WAVES_PER_STRETCH = 4
"""Waves in a stretch; half as many where the beginning is shorter, so that SMs with fewer blocks have stretches too."""

LEAD_IN_WAVES = 2
"""Waves that are run but not counted before a stretch if blocks before it were skipped; also the shortest end."""

MAX_SAMPLED_SHARE = 0.75
"""Largest share of an SM's blocks that is sampled; if a sample would need more, all blocks are run."""

MIN_STRETCHES = 4
"""Fewest stretches of an SM: with fewer, intervals are too wide to be useful."""

DRIFT_WEIGHT = 0.5
"""Share of the difference between stretches and the waves before them that is attributed to the skip."""

SHARED_ERROR = 0.06
"""Extra standard error for variation that all stretches of a run share, so that their variance cannot show it.

It is a fraction of min(count, sectors - count), divided by the root of the number of stretches. The relative
timing of an SM's blocks changes over more waves than a stretch has: neighbouring stretches are alike, runs differ.
`SHARED_ERROR` and `DRIFT_WEIGHT` were chosen with kernels and GPUs other than those of the record of
validation/sampling (validation/sampling/elsewhere.py).
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive blocks of an SM, by their place in its order: run from `begin` on, counted from `first` to `last`."""

    begin: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StretchPlan:
    """The blocks of an SM that are run: its beginning, its end, and a sample of the `stretches` in between.

    `ends` has the beginning and the end, or one stretch of all blocks if none is skipped. `chosen` is the sample,
    `stretches` is the number of stretches from which it was chosen, and `blocks` is the number of the SM's blocks.
    """

    ends: tuple[Stretch, ...]
    chosen: tuple[Stretch, ...]
    stretches: int
    blocks: int

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """All stretches that are run, in the order of the blocks."""
        return (*self.ends[:1], *self.chosen, *self.ends[1:])

    @property
    def blocks_run(self) -> int:
        """Number of blocks that are run, including those that are not counted."""
        return sum(part.last - part.begin for part in self.parts)


def plan_stretches(blocks: int, resident: int, share: float, seed: int, sm: int) -> StretchPlan:
    """Choose about `share` of the stretches of an SM that has `blocks` blocks, `resident` of them at a time."""
    waves = blocks // resident
    head = min(WARMUP_WAVES, waves // 4) * resident
    length = (WAVES_PER_STRETCH if waves // 4 >= WARMUP_WAVES else WAVES_PER_STRETCH // 2) * resident
    lead_in = LEAD_IN_WAVES * resident
    stretches = max(0, blocks - head - lead_in) // length
    size = max(MIN_STRETCHES, round(share * stretches))
    tail = head + length * stretches
    # Neighbours among the chosen stretches need no lead-in, but whether there is a sample must not depend on that.
    most = head + size * (lead_in + length) + lead_in + blocks - tail
    if size >= stretches or most > MAX_SAMPLED_SHARE * blocks:
        return StretchPlan((Stretch(0, 0, blocks),), (), 0, blocks)
    done = head
    chosen: list[Stretch] = []
    for first in (head + length * number for number in choose(stretches, size, seed, sm)):
        chosen.append(Stretch(max(done, first - lead_in), first, first + length))
        done = first + length
    ends = (Stretch(0, 0, head), Stretch(max(done, tail - lead_in), tail, blocks))
    return StretchPlan(ends, tuple(chosen), stretches, blocks)


def _per_block(count: Callable[[SmCounts], float], sms: Sequence[SmCounts]) -> float:
    return sum(count(sm) for sm in sms) / sum(sm.blocks for sm in sms)


@dataclass(frozen=True, slots=True)
class SampledSm:
    """An SM that was run in stretches: its plan, the counters of each stretch, and those of the wave `before` it.

    `counts` and `before` are in the order of the plan's `parts`. Where no block was skipped before a stretch, all
    counters of its entry in `before` are 0.
    """

    plan: StretchPlan
    counts: tuple[SmCounts, ...]
    before: tuple[SmCounts, ...]

    @property
    def _chosen(self) -> tuple[SmCounts, ...]:
        return self.counts[1:-1]

    def _middle_total(self, count: Callable[[SmCounts], float]) -> float:
        """Return the estimated total of a counter between the beginning and the end."""
        return self.plan.stretches / len(self._chosen) * sum(count(sm) for sm in self._chosen)

    def total(self) -> SmCounts:
        """Return the estimated counters of all blocks of the SM."""
        size = len(self._chosen)
        if size == 0:
            return self.counts[0]
        return combine_linearly(self.counts, [1, *[self.plan.stretches / size] * size, 1])

    def variance(self, count: Callable[[SmCounts], float], least: float = 0.0) -> float:
        """Return the variance of the estimated total of a counter over the choice of stretches.

        `least` is the smallest variance between stretches. There is no finite population correction: in a run of all
        blocks, the same stretches would have other counts.
        """
        size, stretches = len(self._chosen), self.plan.stretches
        if size == 0:
            return 0.0
        return stretches * stretches / size * max(least, float(np.var([count(sm) for sm in self._chosen], ddof=1)))

    def drift(self, count: Callable[[SmCounts], float]) -> float:
        """Return the change of the total if stretches were as far from the waves before them as `DRIFT_WEIGHT` says."""
        pairs = [pair for pair in zip(self._chosen, self.before[1:-1], strict=True) if pair[1].blocks]
        if not pairs:
            return 0.0
        in_stretch, before = (_per_block(count, sms) for sms in zip(*pairs, strict=True))
        head, tail = self.plan.ends
        return DRIFT_WEIGHT * (before - in_stretch) * (tail.first - head.last)

    def shared_error(self, count: Callable[[SmCounts], float]) -> float:
        """Return the standard error of the total of hits or misses due to variation that all stretches share."""
        size = len(self._chosen)
        if size == 0:
            return 0.0
        total = self._middle_total(count)
        sectors = self._middle_total(ESTIMATED_COUNTS["sectors"])
        return float(SHARED_ERROR / size**0.5 * min(total, sectors - total))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the variance."""
        return max(0, len(self._chosen) - 1)


@dataclass(frozen=True, slots=True)
class _Variances:
    """Three independent parts of the variance of an estimated total; `shared` is known, the other two are estimated."""

    choice: float
    drift: float
    shared: float

    def estimate(self, value: float, by: float, freedom: int, sampled: str, most: float = float("inf")) -> Estimate:
        """Return the estimate of the total divided by `by`, whose value is `value`."""
        total = self.choice + self.drift + self.shared
        squares = self.choice**2 + self.drift**2
        # Satterthwaite's approximation, as for strata of SMs.
        return student_estimate(
            value, total / by**2, freedom * total**2 / squares if squares else 1, sampled, most=most
        )


def estimate_from_stretches(sms: Sequence[SampledSm]) -> dict[str, Estimate]:
    """Estimate totals and rates of all blocks of the modelled SMs, by name."""
    totals = [sm.total() for sm in sms]
    counted = sum(part.last - part.first for sm in sms for part in sm.plan.parts)
    sampled = f"{counted:,} of {sum(sm.plan.blocks for sm in sms):,} blocks"
    freedom = max(1, sum(sm.freedom for sm in sms))
    value = {name: sum(count(sm) for sm in totals) for name, count in ESTIMATED_COUNTS.items()}

    def estimate(name: str, share: float, number: float, by: float, most: float = float("inf")) -> Estimate:
        def residual(sm: SmCounts) -> float:
            return ESTIMATED_COUNTS[name](sm) - share * sm.sectors

        is_outcome = name not in REQUESTED_COUNTS
        least = MIN_VARIANCE if is_outcome else 0.0
        choice = sum(sm.variance(residual, least) for sm in sms)
        # Drift and shared variation are the same on all SMs: they do not average out.
        drift = sum(sm.drift(residual) for sm in sms)
        shared = sum(sm.shared_error(ESTIMATED_COUNTS[name]) for sm in sms) if is_outcome else 0.0
        return _Variances(choice, drift**2, shared**2).estimate(number, by, freedom, sampled, most)

    def estimate_rate(numerator: str) -> Estimate:
        share = value[numerator] / value["sectors"]
        return estimate(numerator, share, share, value["sectors"], 1.0)

    # Without loads there are no rates.
    rates = {name: estimate_rate(numerator) for name, numerator in ESTIMATED_RATES.items() if value["transactions"]}
    return rates | {name: estimate(name, 0.0, value[name], 1.0) for name in ESTIMATED_COUNTS}
