"""Rank the simulated tiles with the model, from complete runs and quickly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from time import process_time
from typing import Any

import rdmodel as rd
import tracegen
from rdmodel import Prediction, RankedTile, Ranking, presets
from rdmodel.model.machine_options import complete_options
from rdmodel.tiling.objectives import objective_named
from rdmodel.tiling.values import tile_text
from validation.tiling.measure import BY_NAME, GPUS, STUDIES, Sizes, Study, Task

QUICK_OBJECTIVES = ("dram_bytes", "cycles")


@dataclass(frozen=True, slots=True)
class Exact:
    """Counts of the model for one tile from a complete run: fields as in `Row`, and the terms of the roofline.

    `cycles` is the largest of the terms `sm` to `dram`; `steps` is the value of `sm` if the L2 held everything.
    """

    gpu: str
    kernel: str
    tile: str
    cycles: int
    l1_misses: int
    l2_bytes: int
    dram_bytes: int
    steps: int
    sm: int
    l1: int
    crossbar: int
    l2: int
    dram: int

    @property
    def key(self) -> Task:
        """GPU, kernel and tile of the row."""
        return self.gpu, self.kernel, self.tile

    @property
    def near_cycles(self) -> int:
        """The value of `cycles` if misses that go to DRAM took no longer than others."""
        return max(self.steps, self.l1, self.crossbar, self.l2, self.dram)


@dataclass(frozen=True, slots=True)
class Quick:
    """One tile in a quick ranking by `objective`: its rank, the estimated value, and the `work` of the estimate.

    `pruned` is 1 for a tile that was dropped before the last round, else 0.
    """

    gpu: str
    kernel: str
    objective: str
    tile: str
    rank: int
    value: int
    low: int
    high: int
    work: int
    pruned: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """GPU, kernel, objective and tile of the row."""
        return self.gpu, self.kernel, self.objective, self.tile


@dataclass(frozen=True, slots=True)
class Seconds:
    """The processor time of one ranking of all tiles of a kernel in seconds; it differs from run to run."""

    gpu: str
    kernel: str
    objective: str
    effort: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """GPU, kernel, objective and effort of the row."""
        return self.gpu, self.kernel, self.objective, self.effort


Case = tuple[str, str]
"""GPU and kernel."""

Ranked = tuple[list[Exact], list[Quick], list[Seconds]]


def cases(gpus: Sequence[str] = GPUS, kernels: Sequence[str] = tuple(BY_NAME)) -> list[Case]:
    """Return the selected (GPU, kernel) pairs in the order of the record."""
    return [(gpu, one.kernel) for gpu, one in product(GPUS, STUDIES) if gpu in gpus and one.kernel in kernels]


def rank(case: Case) -> Ranked:
    """Rank all tiles of a kernel: once from complete runs, and quickly by each objective."""
    gpu, kernel = case
    ranking, seconds = _ranking(case, "cycles", "exact")
    exact = [exact_row(gpu, kernel, tile_text(one.tile), _prediction(one)) for one in ranking.tiles]
    times = [Seconds(gpu, kernel, "cycles", "exact", seconds)]
    quick: list[Quick] = []
    for objective in QUICK_OBJECTIVES:
        ranking, seconds = _ranking(case, objective, "quick")
        quick += [quick_row(gpu, kernel, objective, one) for one in ranking.tiles]
        times.append(Seconds(gpu, kernel, objective, "quick", seconds))
    return exact, quick, times


def _ranking(case: Case, objective: str, effort: Any) -> tuple[Ranking, float]:
    """Return a ranking and its processor time in seconds."""
    gpu, kernel = case
    study = BY_NAME[kernel]

    def trace(tile: Sizes) -> rd.Trace:
        return tracegen.kernel(kernel, **_parameters(study, tile))

    started = process_time()
    ranking = rd.rank_tiles(trace, study.all_tiles(), gpu, objective=objective, effort=effort, n_jobs=1)
    return ranking, round(process_time() - started, 2)


def _parameters(study: Study, tile: Sizes) -> dict[str, Any]:
    return {**study.sizes, **tile}


def exact_row(gpu: str, kernel: str, tile: str, found: Prediction) -> Exact:
    """Return the row of a complete prediction."""
    assert found.l2 is not None
    line = rd.roofline(found, presets.gpu(gpu))
    return Exact(
        gpu=gpu,
        kernel=kernel,
        tile=tile,
        cycles=round(line.cycles),
        l1_misses=round(found.misses.total),
        l2_bytes=round(found.l2.bytes),
        dram_bytes=round(found.l2.dram_bytes),
        steps=round(found.steps),
        **{name: round(cycles) for name, cycles in asdict(line).items()},
    )


def quick_row(gpu: str, kernel: str, objective: str, one: RankedTile) -> Quick:
    """Return the row of one tile of a quick ranking."""
    return Quick(
        gpu=gpu,
        kernel=kernel,
        objective=objective,
        tile=tile_text(one.tile),
        rank=one.rank,
        value=round(one.value),
        low=round(one.low),
        high=round(one.high),
        work=_prediction(one).config["work"],
        pruned=int(one.pruned is not None),
    )


def _prediction(one: RankedTile) -> Prediction:
    """Return the prediction of a tile: a search, which leaves tiles out, is for programs alone."""
    assert one.prediction is not None
    return one.prediction


def estimated(task: Task, work: int | None) -> Prediction:
    """Estimate one tile as a ranking does, from `work` transactions (None: a complete run)."""
    gpu, kernel, tile = task
    study = BY_NAME[kernel]
    sizes = next(found for found in study.all_tiles() if tile_text(found) == tile)
    machine = presets.gpu(gpu)
    trace = tracegen.kernel(kernel, **_parameters(study, sizes))
    return rd.estimate(trace, machine, l2=True, work=work, **complete_options(machine, {}))


def exact_again(task: Task) -> Exact:
    """Predict one tile alone, from a complete run."""
    return exact_row(*task, estimated(task, None))


def still_estimated(row: Quick) -> bool:
    """Return whether the estimate of one tile, alone and from the recorded work, equals the recorded one."""
    found = estimated((row.gpu, row.kernel, row.tile), row.work)
    value = objective_named(row.objective).value(found, presets.gpu(row.gpu))
    return (round(value.value), round(value.low), round(value.high)) == (row.value, row.low, row.high)
