"""Combine the counters of several SMs or runs: sums over SMs, means over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from rdmodel.results.origins import add_origins
from rdmodel.results.prediction import Prediction, mean_l2
from rdmodel.reuse.histogram import Histogram


def average(runs: Sequence[Prediction]) -> Prediction:
    """Return the mean of runs over seeds; times are summed, and the histogram is that of all runs together."""
    histograms = [run.histogram for run in runs if run.histogram is not None]
    origins = [run.origins for run in runs if run.origins is not None]
    return dataclasses.replace(
        runs[0],
        **_means(runs),
        histogram=sum_histograms(histograms) if histograms else None,
        l2=mean_l2([run.l2 for run in runs if run.l2 is not None]) if runs[0].l2 is not None else None,
        origins=add_origins(origins, len(runs)) if origins else None,
        trace_seconds=sum(run.trace_seconds for run in runs),
        seconds=sum(run.seconds for run in runs),
        config={**runs[0].config, "seeds": len(runs)},
        per_sm=tuple(
            dataclasses.replace(sms[0], **_means(sms)) for sms in zip(*(run.per_sm for run in runs), strict=True)
        ),
        runs=tuple(runs),
    )


def _means(counts: Sequence[Prediction] | Sequence[SmCounts]) -> dict[str, Any]:
    return combine_counters(lambda values: float(sum(values) / len(values)), counts)


def combine_counters(
    combine: Callable[[Sequence[float]], float], counts: Sequence[Prediction] | Sequence[SmCounts]
) -> dict[str, Any]:
    """Apply `combine` to the values of each counter; return the results by the counters' names."""
    causes, of_stores = (f"misses.{cause}" for cause in MissCounts.CAUSES), (f"stores.{n}" for n in StoreCounts.COUNTS)
    rows = map(attrgetter(*causes, *of_stores, *SmCounts.COUNTERS), counts)
    combined = map(combine, zip(*rows, strict=True))
    misses = MissCounts(*islice(combined, len(MissCounts.CAUSES)))
    stores = StoreCounts(*islice(combined, len(StoreCounts.COUNTS)))
    return {"misses": misses, "stores": stores, **dict(zip(SmCounts.COUNTERS, combined, strict=True))}


def sum_histograms(histograms: Sequence[Histogram]) -> Histogram:
    """Return one histogram of all distances of one or more histograms."""
    if len(histograms) == 1:
        return histograms[0]
    ends = [int(histogram.distances[-1]) + 1 for histogram in histograms if len(histogram.distances)]
    counts = np.zeros(max(ends, default=0), np.int64)
    for histogram in histograms:
        counts[histogram.distances] += histogram.counts
    return Histogram.from_dense(counts, sum(histogram.infinite for histogram in histograms))


def subtract_counts(after: SmCounts, before: SmCounts) -> SmCounts:
    """Return the counters of the time between two readings of an SM's counters."""
    return combine_linearly([after, before], [1, -1])


def combine_linearly(counts: Sequence[SmCounts], factors: Sequence[float]) -> SmCounts:
    """Return the linear combination of the counters with the given factors."""

    def total(count: Callable[[SmCounts], float]) -> float:
        return sum(factor * count(sm) for sm, factor in zip(counts, factors, strict=True))

    counters: dict[str, Any] = {name: total(attrgetter(name)) for name in SmCounts.COUNTERS}
    misses = MissCounts(*(total(attrgetter(f"misses.{cause}")) for cause in MissCounts.CAUSES))
    stores = StoreCounts(*(total(attrgetter(f"stores.{count}")) for count in StoreCounts.COUNTS))
    return dataclasses.replace(
        counts[0], blocks=round(total(attrgetter("blocks"))), misses=misses, stores=stores, **counters
    )
