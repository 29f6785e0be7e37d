"""Average ratios, such as speeds relative to a baseline; apart from `intervals`, because `statistics` loads slowly."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import exp, log

from rdmodel.common.intervals import student_quantile


def geometric_interval(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of a geometric mean, by Student's t of the logarithms; None for fewer than two ratios."""
    if len(ratios) < 2:
        return None
    logarithms = [log(ratio) for ratio in ratios]
    half = student_quantile(len(ratios) - 1) * statistics.stdev(logarithms) / len(ratios) ** 0.5
    middle = statistics.fmean(logarithms)
    return exp(middle - half), exp(middle + half)
