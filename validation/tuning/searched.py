"""Search the spaces by their recorded predictions, as a ranking of a program does (`rdmodel.tiling.search`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rdmodel.tiling.objectives import Value
from rdmodel.tiling.search import TileSearch
from validation.tuning.measures import quality
from validation.tuning.predict import Predicted, read_config

SEEDS = range(5)
TOP = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """A search among the points of a space.

    `estimated` are the points that it looked at, `best` the predicted time of the one that it found, relative to the
    least predicted time. `regret_1` and `tau` are those of its ranking by measured times. `held` is the share of the
    intervals of the other points that hold their predicted times.
    """

    estimated: int
    best: float
    regret_1: float
    tau: float
    held: float


def search(rows: Sequence[Predicted], times: dict[str, float], seed: int) -> Searched:
    """Return what a search with a seed finds."""
    one, known = TileSearch([read_config(row.config) for row in rows], TOP, seed), dict[int, float | None]()
    while batch := one.next_batch():
        found = {place: None if rows[place].failure else rows[place].milliseconds for place in batch}
        known |= found
        one.add(found)
    rest = one.rest()
    worst = max(row.milliseconds for row in rows) + 1
    scores = [_score(place, known, rest, worst) for place in range(len(rows))]
    measured = quality(scores, [times[row.config] for row in rows])
    able = {place: value for place, value in rest.items() if not rows[place].failure}
    held = [value.low <= rows[place].milliseconds <= value.high for place, value in able.items()]
    least = min(row.milliseconds for row in rows if not row.failure)
    return Searched(len(known), min(scores) / least, measured.regret_1, measured.tau, float(np.mean(held)))


def _score(place: int, known: dict[int, float | None], rest: dict[int, Value], worst: float) -> float:
    if place in rest:
        return rest[place].value
    value = known[place]
    return worst if value is None else value


def search_table(spaces: dict[str, tuple[Sequence[Predicted], dict[str, float]]]) -> str:
    """Return the means over the seeds in Markdown, with ranges, a row for each space."""
    lines = ["| space | points | estimated | found / best | regret@1 | tau | intervals that hold |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for space, (rows, times) in spaces.items():
        runs = [search(rows, times, seed) for seed in SEEDS]
        estimated = [run.estimated for run in runs]
        lines.append(
            f"| {space} | {len(rows)} | {np.mean(estimated):.0f} ({min(estimated)} to {max(estimated)}) "
            f"| {_mean_and_worst([run.best for run in runs])} | {_mean_and_worst([run.regret_1 for run in runs])} "
            f"| {np.mean([run.tau for run in runs]):.3f} | {100 * np.mean([run.held for run in runs]):.0f} % |"
        )
    return "\n".join(lines) + "\n"


def _mean_and_worst(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ({max(values):.3f})"
