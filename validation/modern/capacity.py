"""Try other L1s, schedulers and latencies on the sizes at which a measured curve leaves 0 (docs/accuracy.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import rdmodel as rd
from rdmodel.policies import BXor, Linear, PMod, Pric
from validation.modern.cases import Point, read_points
from validation.modern.replacement import REPLACEMENTS, miss_ratio, organisations
from validation.modern.study import machine, score_point

KNEES = [
    ("rounds", "v100", 100, 280),
    ("rounds", "a100-80g", 128, 280),
    ("again", "rtx3070", 96, 400),
    ("reverse", "rtx3070", 96, 400),
]
"""Curves, their GPUs, and the sizes in KiB between which the ratio is neither 0 nor at its end, whatever the L1."""

SETS = (16, 64, 256)
"""Numbers of sets that are tried; with 256, a V100 has 4 ways."""

FEW_WAYS = 6
"""Ways of the sets of an L1 whose index is the line modulo a prime.

The second reads of an RTX 3070 show them: each line beyond the capacity makes six or seven miss.
"""

SHARES = (1.0, 0.95, 0.82)
"""Shares of the lines that hold data.

A pointer chase fits into 95 % of the L1 of a V100, and into 79 to 83 % of that of an A100, A40 and GH200
(RRZE-HPC/gpu-benches, gpu-latency).
"""


@dataclass(frozen=True, slots=True)
class Table:
    """Miss ratios in percent at the knee of a curve with `points` sizes in all: measured, and of each alternative."""

    name: str
    points: int
    sizes: list[int]
    measured: list[float]
    found: dict[str, list[float]]

    def knee_error(self, text: str) -> float:
        """Return the mean error of an alternative at the sizes of the table."""
        return self._sum_of_errors(text) / len(self.sizes)

    def mean_error(self, text: str) -> float:
        """Return the mean error at all sizes of the curve; at the others all L1s have no misses, or nothing else."""
        return self._sum_of_errors(text) / self.points

    def _sum_of_errors(self, text: str) -> float:
        return sum(abs(found - measured) for found, measured in zip(self.found[text], self.measured, strict=True))


def alternatives(gpu: rd.GPU) -> Iterator[tuple[str, rd.GPU, dict[str, Any]]]:
    """Yield changes of a GPU, each with its description and options of the model."""
    assert gpu.calibrated is not None
    loaded = {"lat_min": gpu.calibrated.lat_min, "sigma": gpu.calibrated.sigma}
    queued = {"sigma": sigma_at_one_slice(gpu)}
    yield "the preset", gpu, {}
    for sched in ("lrr", "oldest"):
        yield f"sched={sched}", gpu, {"sched": sched}
    for share in SHARES[1:]:
        lines = int(share * gpu.l1.lines) // gpu.l1.sets * gpu.l1.sets
        smaller = _own(gpu, size=lines * gpu.l1.line, ways=lines // gpu.l1.sets)
        yield f"{share:.0%} of the lines", smaller, {}
        yield f"{share:.0%} of the lines, latencies under load", smaller, loaded
        yield f"{share:.0%} of the lines, all SMs at one slice", smaller, queued
    yield "latencies under load", gpu, loaded
    yield "all SMs at one slice", gpu, queued
    for share in SHARES:
        sets = int(share * gpu.l1.lines) // FEW_WAYS
        modulo = _own(gpu, size=sets * FEW_WAYS * gpu.l1.line, ways=FEW_WAYS, index=PMod())
        yield f"{share:.0%} of the lines, {FEW_WAYS} ways, pmod", modulo, {}
        yield f"{share:.0%} of the lines, {FEW_WAYS} ways, pmod, latencies under load", modulo, loaded
        yield f"{share:.0%} of the lines, {FEW_WAYS} ways, pmod, all SMs at one slice", modulo, queued
    for sets in SETS:
        for index in (Linear(), BXor(), Pric()):
            ways = gpu.l1.lines // sets
            yield f"{sets} sets, {index.name}", _own(gpu, ways=ways, index=index), {}


def sigma_at_one_slice(gpu: rd.GPU) -> float:
    """Return the spread of miss latencies in steps if all SMs of a partition of the L2 request the same line at once.

    The slice of the line sends one sector per cycle, so that the last SM waits for the sectors of all, and on average
    an SM waits for half of them. The half-normal distribution of the model has this mean.
    """
    return gpu.sms / gpu.l2.partitions * gpu.l1.sectors / 2 * math.sqrt(math.pi / 2)


def _own(gpu: rd.GPU, **changes: Any) -> rd.GPU:
    """Return a GPU whose L1 has memory of its own and other fields."""
    return gpu.replace(l1=replace(gpu.l1, unified=0, carveouts=(), carveout="auto", **changes))


def knees() -> Iterator[tuple[rd.GPU, list[Point], Table]]:
    """Yield for each curve its GPU, the points of its knee, and a table without alternatives."""
    for curve, name, low, high in KNEES:
        all_points = [point for point in read_points() if (point.curve, point.gpu) == (curve, name)]
        points = [point for point in all_points if low < point.kib < high]
        sizes, measured = [point.kib for point in points], [point.measured for point in points]
        yield machine(name), points, Table(f"{curve}, {name}", len(all_points), sizes, measured, {})


def predicted() -> list[Table]:
    """Return for each curve what the model predicts with each alternative."""
    tables = []
    for own, points, table in knees():
        for text, gpu, options in alternatives(own):
            table.found[text] = [score_point(point, gpu, **options).predicted for point in points]
        tables.append(table)
    return tables


def replaced() -> list[Table]:
    """Return for each curve what caches with other replacement have, if the warps are in step."""
    tables = []
    for gpu, points, table in knees():
        for text, index, sets, ways in organisations(gpu.l1.unified // gpu.l1.line):
            for replacement in REPLACEMENTS:
                ratios = [miss_ratio(point, index, sets, ways, replacement) for point in points]
                table.found[f"{text}, {replacement}"] = ratios
        tables.append(table)
    return tables
