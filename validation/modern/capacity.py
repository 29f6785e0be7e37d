"""Try other L1s and schedulers on the sizes at which a measured curve leaves 0 (docs/accuracy.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import rdmodel as rd
from rdmodel.policies import BXor, Linear, PMod, Pric
from validation.modern.cases import read_points
from validation.modern.study import machine, score_point

KNEES = {"v100": (120, 280), "a100-80g": (128, 280), "rtx3070": (104, 384)}
"""Sizes in KiB of the data between which a curve goes from 0 to its end, by GPU: above the first, below the second."""

SETS = (16, 64, 256)
"""Numbers of sets that are tried; with 256, a V100 has 4 ways."""

FEW_WAYS = 6
"""Ways of the sets of an L1 whose index is the line modulo a prime."""


UNDER_LOAD = {"v100": {"lat_min": 211, "sigma": 1148.3}, "rtx3070": {"lat_min": 249, "sigma": 830.8}}
"""Latencies that `rdmodel calibrate` finds for simulated GPUs whose memory is fully loaded; it refuses partitions."""


def alternatives(gpu: rd.GPU) -> Iterator[tuple[str, rd.GPU, dict[str, Any]]]:
    """Yield changes of a GPU, each with its description and options of the model."""
    yield "the preset", gpu, {}
    for sched in ("lrr", "oldest"):
        yield f"sched={sched}", gpu, {"sched": sched}
    if gpu.name in UNDER_LOAD:
        yield "latencies under load", gpu, UNDER_LOAD[gpu.name]
    for share in (0.8, 0.95):
        lines = int(share * gpu.l1.lines) // gpu.l1.sets * gpu.l1.sets
        smaller = _own(gpu, size=lines * gpu.l1.line, ways=lines // gpu.l1.sets)
        yield f"{share:.0%} of the lines", smaller, {}
    for share in (0.82, 0.95):
        sets = int(share * gpu.l1.lines) // FEW_WAYS
        modulo = _own(gpu, size=sets * FEW_WAYS * gpu.l1.line, ways=FEW_WAYS, index=PMod())
        yield f"{share:.0%} of the lines, {FEW_WAYS} ways, pmod", modulo, {}
    for sets in SETS:
        for index in (Linear(), BXor(), Pric()):
            ways = gpu.l1.lines // sets
            yield f"{sets} sets of {ways} ways, {index.name}", _own(gpu, ways=ways, index=index), {}


def _own(gpu: rd.GPU, **changes: Any) -> rd.GPU:
    """Return a GPU whose L1 has memory of its own and other fields."""
    return gpu.replace(l1=replace(gpu.l1, unified=0, carveouts=(), carveout="auto", **changes))


def rows(names: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, list[float]]]]]:
    """Yield for each GPU the table of its knee: the sizes, the measured ratios, and those of each alternative."""
    for name in names:
        low, high = KNEES[name]
        points = [p for p in read_points() if p.gpu == name and low < p.kib < high and p.curve in ("rounds", "again")]
        table = [("KiB", [float(p.kib) for p in points]), ("measured", [p.measured for p in points])]
        for text, gpu, options in alternatives(machine(name)):
            table.append((text, [score_point(point, gpu, **options).predicted for point in points]))
        yield name, table
