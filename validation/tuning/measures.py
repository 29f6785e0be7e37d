"""Measure how good a choice of configurations is: regret and rank correlation, beside choices without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOP = 5
"""Configurations of `Quality.regret_5`: those that a user would measure."""

SPREAD = (0.1, 0.5, 0.9)
"""Quantiles of the ratios of predicted to measured times."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a ranking.

    `regret_1` and `regret_5` are the measured time of the best of the first one and the first five, relative to the
    least measured time; `tau` is Kendall's rank correlation (tau-b) with the measured times.
    """

    regret_1: float
    regret_5: float
    tau: float


def scores_of(milliseconds: Sequence[float]) -> list[float]:
    """Return predicted times as scores of a ranking; 0, the time of a point without a prediction, ranks last."""
    worst = max(milliseconds) + 1
    return [each or worst for each in milliseconds]


def quality(scores: Sequence[float], measured: Sequence[float]) -> Quality:
    """Return the quality of a ranking by `scores`, the least first; equal scores count as a random order of them."""
    values, times = np.asarray(scores, float), np.asarray(measured, float)
    best = times.min()
    return Quality(
        expected_least(values, times, 1) / best, expected_least(values, times, TOP) / best, tau(values, times)
    )


def expected_least(scores: NDArray[np.float64], times: NDArray[np.float64], k: int) -> float:
    """Return the expected least time of the first `k`, over all orders of those with the score of the k-th."""
    ordered = np.sort(scores)
    last = ordered[min(k, len(ordered)) - 1]
    sure, ties = times[scores < last], np.sort(times[scores == last])
    draws = min(k, len(ordered)) - len(sure)
    ceiling = sure.min() if len(sure) else np.inf
    # The i-th smallest of n ties is the least of the draws with the probability C(n - i, draws - 1) / C(n, draws).
    total, left = 0.0, 1.0
    n = len(ties)
    for at, time in enumerate(ties):
        rest = n - at
        share = left * draws / rest if rest > draws - 1 else 0.0
        total += share * min(time, ceiling)
        left -= share
        if left <= 1e-15:
            break
    return float(total)


def tau(scores: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Return Kendall's tau-b; 0 if all scores are equal."""
    from scipy.stats import kendalltau

    found = float(kendalltau(scores, times).statistic)
    return 0.0 if np.isnan(found) else found


def random_choice(measured: Sequence[float]) -> Quality:
    """Return the expected quality of a random order."""
    zeros = np.zeros(len(measured))
    return quality(zeros.tolist(), measured)


def baselines(rows: Sequence[Mapping[str, float]], measured: Sequence[float]) -> dict[str, Quality]:
    """Return the quality of choices without a time: at random, most occupancy, least DRAM and least L2 bytes."""
    return {
        "random choice": random_choice(measured),
        "most occupancy": quality([-row["warps"] for row in rows], measured),
        "least DRAM bytes": quality([row["dram_bytes"] for row in rows], measured),
        "least L2 bytes": quality([row["l2_bytes"] for row in rows], measured),
    }


def quantile_cells(ratios: Sequence[float] | NDArray[np.float64]) -> str:
    """Return the quantiles `SPREAD` of ratios, as cells of a table."""
    return " | ".join(f"{ratio:.2f}" for ratio in np.quantile(ratios, SPREAD))
