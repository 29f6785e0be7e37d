"""Rankings of the tiles that the simulator ran: everything of each run by the model, and quick ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from time import process_time
from typing import Any

import rdmodel as rd
import tracegen
from rdmodel import Prediction, RankedTile, Ranking, presets
from rdmodel.tiling.objectives import objective_named, told
from rdmodel.tiling.values import tile_text
from validation.tiling.measure import BY_NAME, FOLDER, GPUS, STUDIES, Sizes, Study, Task

EXACT = FOLDER / "predicted.csv"
QUICK = FOLDER / "quick.csv"
SECONDS = FOLDER / "seconds.csv"

QUICK_OBJECTIVES = ("dram_bytes", "time")


@dataclass(frozen=True, slots=True)
class Exact:
    """What the model counts for one tile if everything is run: fields as of `Row`, and the terms of the roofline.

    `cycles` is the largest of the terms `sm` to `dram`; `steps` is what `sm` would be if the L2 held everything.
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
        """What the row is of."""
        return self.gpu, self.kernel, self.tile

    @property
    def near_cycles(self) -> int:
        """What `cycles` would be if no miss took longer for having to go to DRAM."""
        return max(self.steps, self.l1, self.crossbar, self.l2, self.dram)


@dataclass(frozen=True, slots=True)
class Quick:
    """One tile in a quick ranking by `objective`: its rank, what it was estimated to be, and from how much `work`.

    `pruned` is 1 for a tile that was given up before the last round, else 0.
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
        """What the row is of."""
        return self.gpu, self.kernel, self.objective, self.tile


@dataclass(frozen=True, slots=True)
class Seconds:
    """The processor time of one ranking, of all tiles of a kernel; it differs from run to run."""

    gpu: str
    kernel: str
    objective: str
    effort: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the row is of."""
        return self.gpu, self.kernel, self.objective, self.effort


Case = tuple[str, str]
"""GPU and kernel."""

Ranked = tuple[list[Exact], list[Quick], list[Seconds]]


def cases(gpus: Sequence[str] = GPUS, kernels: Sequence[str] = tuple(BY_NAME)) -> list[Case]:
    """Return the GPUs with the kernels whose tiles are ranked, in the order of the record."""
    return [(gpu, one.kernel) for gpu, one in product(GPUS, STUDIES) if gpu in gpus and one.kernel in kernels]


def rank(case: Case) -> Ranked:
    """Rank all tiles of a kernel: once with everything run, and quickly by each objective."""
    gpu, kernel = case
    ranking, seconds = _ranking(case, "time", "exact")
    exact = [exact_row(gpu, kernel, tile_text(one.tile), one.prediction) for one in ranking.tiles]
    times = [Seconds(gpu, kernel, "time", "exact", seconds)]
    quick: list[Quick] = []
    for objective in QUICK_OBJECTIVES:
        ranking, seconds = _ranking(case, objective, "quick")
        quick += [quick_row(gpu, kernel, objective, one) for one in ranking.tiles]
        times.append(Seconds(gpu, kernel, objective, "quick", seconds))
    return exact, quick, times


def _ranking(case: Case, objective: str, effort: Any) -> tuple[Ranking, float]:
    """Return a ranking, and the processor time that it took."""
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
    """Return the row of a prediction of everything."""
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
    """Return the row of a tile of a quick ranking."""
    return Quick(
        gpu=gpu,
        kernel=kernel,
        objective=objective,
        tile=tile_text(one.tile),
        rank=one.rank,
        value=round(one.value),
        low=round(one.low),
        high=round(one.high),
        work=one.prediction.config["work"],
        pruned=int(one.pruned is not None),
    )


def estimated(task: Task, work: int | None) -> Prediction:
    """Estimate one tile as a ranking does, from so much work (None: everything)."""
    gpu, kernel, tile = task
    study = BY_NAME[kernel]
    sizes = next(found for found in study.all_tiles() if tile_text(found) == tile)
    machine = presets.gpu(gpu)
    trace = tracegen.kernel(kernel, **_parameters(study, sizes))
    return rd.estimate(trace, machine, l2=True, work=work, **told(machine, {}))


def exact_again(task: Task) -> Exact:
    """Run everything of one tile, alone."""
    return exact_row(*task, estimated(task, None))


def still_estimated(row: Quick) -> bool:
    """Tell whether one tile, alone and from the recorded work, is estimated to be what was recorded."""
    found = estimated((row.gpu, row.kernel, row.tile), row.work)
    value = objective_named(row.objective).value(found, presets.gpu(row.gpu))
    return (round(value.value), round(value.low), round(value.high)) == (row.value, row.low, row.high)
