"""Predict the measured points and counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np

import rdmodel as rd
import tracegen
from rdmodel.gpu.cache import ALL_LOADS
from tracegen import Buffer
from validation.modern import chases, kernels
from validation.modern.cases import CASES, Case, Counter, Point

ROUNDS = 300
"""Rounds of the curve `rounds`; the measured kernels read their data 10^8 / elements times."""

RUNS = (2, 3)
"""Numbers of times that all data of the curve `runs` are read; the ratios are those of what the larger one adds."""

DRAM_READ = "dram__sectors_read.sum"
"""Name of the counter of sectors that are read from the DRAM."""

L2_STEMS = ("lts__", "dram__")
"""Beginnings of the names of counters that need an L2."""


@dataclass(frozen=True, slots=True)
class Score:
    """A measured number by its `name` on a GPU, and its prediction; both in percent for rates."""

    name: str
    gpu: str
    metric: str
    measured: float
    predicted: float

    @property
    def is_rate(self) -> bool:
        """Whether the number is a rate, whose error is in points."""
        return not self.metric.endswith(".sum")

    @property
    def error(self) -> float | None:
        """Predicted minus measured: in points of a rate, in percent of a counter; None for a counter of 0."""
        difference = self.predicted - self.measured
        if self.is_rate:
            return difference
        return 100 * difference / self.measured if self.measured else (None if difference else 0.0)


def machine(name: str) -> rd.GPU:
    """Return a GPU; its L1 serves all loads, as in the measured programs."""
    gpu = rd.presets.gpu(name)
    return gpu.replace(l1=replace(gpu.l1, caches=ALL_LOADS))


def score_point(point: Point, gpu: rd.GPU | None = None, **options: Any) -> Score:
    """Predict the miss ratio of a point of a curve on its GPU, or on a changed one."""
    predict = {"rounds": _rounds, "runs": _run_reads, "chase": _chases}.get(point.curve, _scans)
    predicted = predict(point, gpu or machine(point.gpu), options)
    return Score(f"{point.curve} {point.kib:g} KiB", point.gpu, "miss ratio", point.measured, predicted)


def _rounds(point: Point, gpu: rd.GPU, options: dict[str, Any]) -> float:
    """Return the miss ratio without the first round, whose misses the measured rounds outnumber."""
    data = Buffer(int(point.kib) << 7, np.float64)
    trace = tracegen.trace(kernels.rounds, grid=1, block=256, arrays={"data": data}, repeat=ROUNDS)
    found = rd.predict(trace, gpu, threads=None, histogram=False, **options)
    first = found.misses.compulsory
    return 100 * (found.misses.total - first) / (found.sectors - first)


def _chases(point: Point, gpu: rd.GPU, options: dict[str, Any]) -> float:
    """Return the median miss ratio of chases in several random orders, without their first round."""
    lines = round(point.kib * 1024 / chases.LINE)
    ratios = []
    for order in range(chases.ORDERS):
        found = rd.predict(chases.chase(lines, order), gpu, threads=None, histogram=False, **options)
        ratios.append(100 * (found.misses.total - lines) / (found.transactions - lines))
    return median(ratios)


def _scans(point: Point, gpu: rd.GPU, options: dict[str, Any]) -> float:
    kernel = kernels.scan_again if point.curve == "again" else kernels.scan_back
    arrays = {"data": int(point.kib) << 8, "out": 64}
    trace = tracegen.trace(kernel, grid=1, block=1, arrays=arrays, stride=32)
    found = rd.predict(trace, gpu, threads=None, histogram=False, **options)
    return 100 - found.metrics()["l1tex__t_sector_hit_rate.pct"]


def _run_reads(point: Point, gpu: rd.GPU, options: dict[str, Any]) -> float:
    """Return the sectors read from the DRAM per sector read from the L2, at the last reading of all data."""
    options = {"model_sms": "all", "l2": True, **options}
    before, after = (_predict_runs(int(point.kib), gpu, times, options).metrics() for times in RUNS)
    read, dram_read = (after[name] - before[name] for name in ("lts__t_sectors_srcunit_tex_op_read.sum", DRAM_READ))
    return 100 * dram_read / read


def _predict_runs(kib: int, gpu: rd.GPU, times: int, options: dict[str, Any]) -> rd.Prediction:
    """Predict so many readings of all data, or as many waves of blocks if these have more blocks."""
    run = kib // 256
    data = Buffer(run * 32 * 1024, np.float64)
    grid = times * max(run, gpu.sms * (gpu.max_threads // 1024))
    trace = tracegen.trace(kernels.sum_runs, grid=grid, block=1024, arrays={"data": data}, run=run)
    return rd.predict(trace, gpu, threads=None, histogram=False, **options)


def score_case(counters: Sequence[Counter]) -> list[Score]:
    """Predict all counters of one case on one GPU."""
    case, gpu = CASES[counters[0].case], counters[0].gpu
    metrics = predict_case(case, gpu, l2=any(counter.metric.startswith(L2_STEMS) for counter in counters))
    return [Score(counter.case, gpu, counter.metric, counter.measured, metrics[counter.metric]) for counter in counters]


def predict_case(case: Case, gpu: str, *, l2: bool) -> dict[str, float]:
    """Return the metrics of a launch; of one part of it, multiplied, where its blocks are all alike."""
    extent: dict[str, Any] = {} if case.blocks is None else {"blocks": case.blocks, "sms": 1}
    found = rd.predict(case.trace(), machine(gpu), model_sms="all", threads=None, histogram=False, l2=l2, **extent)
    return {name: value * case.scale if name.endswith(".sum") else value for name, value in found.metrics().items()}


def mean_error(scores: Sequence[Score]) -> float:
    """Return the mean absolute error of the scores that have one."""
    return fmean(abs(score.error) for score in scores if score.error is not None)
