"""Choose the tiles that are estimated, and predict the times of the others from them.

After a first design that is drawn at random, every batch consists of the tiles with the greatest probability of
improvement (Kushner, J. Basic Engineering 86, 1964; Jones, J. Global Optimization 21, 2001) under a Gaussian process.
The search ends when hardly any of all the other tiles is expected to improve on the best ones, also after a look at
some that are drawn at random (docs/tiles.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.intervals import CONFIDENCE
from rdmodel.common.memory import import_library
from rdmodel.tiling.objectives import Value
from rdmodel.tiling.surrogate import Array, Features, GaussianProcess, features_of, one_thread
from rdmodel.tiling.values import Tile

MIN_SEARCHED_TILES = 64
"""Spaces with no more tiles are estimated completely: the first design and two batches would be most of them."""

FIRST_TILES = 40
"""Tiles of the first design, with which the hyperparameters become meaningful."""

MIN_FEASIBLE_TILES = 10
"""Tiles that must run before a Gaussian process chooses others: it would know little but where tiles cannot run."""

SEARCHED_BATCH_TILES = 16
"""Least number of tiles of a batch, which keeps the workers of a desktop busy."""

BATCH_SHARE = 8
"""A batch is 1/8 of the tiles that have been tried, if this is more: one batch changes little then."""

IMPROVEMENT = 0.01
"""The share by which a tile must be better to be worth an estimate: a choice among closer ones does not matter."""

MIN_EXPECTED = 0.1
"""The number of tiles that are expected to improve so much, below which the search ends.

It is the sum of their probabilities, and bounds the risk that one of them is missed, however many tiles there are.
"""

REFIT_GROWTH = 1.25
"""The growth of the data after which the hyperparameters are fitted again; it takes longer than anything else."""

MAX_FITTED_TILES = 400
"""Tiles from which the hyperparameters are fitted, in a time that grows with their cube."""

MAX_KNOWN_TILES = 2048
"""Tiles from which others are predicted, for the same reason."""


class TileSearch:
    """A search for the `top` tiles of the least values, which its user estimates batch by batch.

    The batches depend on tiles, `top`, `seed` and the values of earlier batches. If the tiles have no features, they
    form one batch.
    """

    def __init__(self, tiles: Sequence[Tile], top: int, seed: int) -> None:
        self._features = features_of(tiles)
        self._order = np.random.default_rng(seed).permutation(len(tiles))
        self._top = top
        self._logarithms: dict[int, float | None] = {}
        self._process: GaussianProcess | None = None
        self._fitted_tiles = 0
        self._is_checked = False
        self._left: NDArray[np.intp] = np.arange(len(tiles))
        self._means = self._deviations = np.empty(0)

    def next_batch(self) -> list[int]:
        """Return the places of the tiles to estimate next; none at the end of the search."""
        if self._features is None or not self._logarithms:
            count = len(self._order) if self._features is None else FIRST_TILES
            return self._next_at_random(count)
        count = max(SEARCHED_BATCH_TILES, len(self._logarithms) // BATCH_SHARE)
        feasible = self._feasible()
        if len(feasible) < MIN_FEASIBLE_TILES:
            return self._next_at_random(count)
        if not len(self._left):
            return []
        with one_thread():
            self._predict(self._features)
        if len(feasible) < self._top:
            promising = np.argsort(self._means, kind="stable")
        else:
            goal = sorted(feasible)[self._top - 1] + math.log(1 - IMPROVEMENT)
            chances = (goal - self._means) / self._deviations  # quantiles of the probabilities of improvement
            if _expected(chances) < MIN_EXPECTED:
                return self._check(count)
            promising = np.argsort(-chances, kind="stable")
        return [int(place) for place in self._left[promising[:count]]]

    def add(self, values: Mapping[int, float | None]) -> None:
        """Take the values of a batch by the places of its tiles; None for a tile that cannot run."""
        least = np.finfo(float).tiny
        for place, value in values.items():
            self._logarithms[place] = None if value is None else math.log(max(value, least))
        self._left = self._left[~np.isin(self._left, list(values))]

    def rest(self) -> dict[int, Value]:
        """Return the predicted values of the tiles that were not estimated, after the end of the search."""
        half = -_quantile((1 - CONFIDENCE) / 2) * self._deviations
        bounds = np.exp([self._means, self._means - half, self._means + half])
        return {int(place): Value(*map(float, each)) for place, each in zip(self._left, bounds.T, strict=False)}

    def _check(self, count: int) -> list[int]:
        """Return a batch drawn at random when the search could end for the first time; none later.

        The process knows its errors from tiles that it has mostly chosen itself. Where it takes other tiles for worse
        than they are, these tell.
        """
        if self._is_checked:
            return []
        self._is_checked = True
        return self._next_at_random(count)

    def _next_at_random(self, count: int) -> list[int]:
        return [int(place) for place in self._order if place not in self._logarithms][:count]

    def _feasible(self) -> list[float]:
        return [value for value in self._logarithms.values() if value is not None]

    def _predict(self, features: Features) -> None:
        """Predict all tiles that are left; tiles that cannot run count as the worst, so that the search avoids them."""
        worst = max(self._feasible())
        places = np.array(list(self._logarithms))
        values = np.array([worst if value is None else value for value in self._logarithms.values()])
        runs = np.array([value is not None for value in self._logarithms.values()])
        process = self._process = self._process or GaussianProcess(features.count)
        if len(places) >= REFIT_GROWTH * self._fitted_tiles:
            some = choose_representative(values, MAX_FITTED_TILES)
            process.fit(features.take(places[some]), values[some])
            self._fitted_tiles = len(places)
        some = choose_representative(values, MAX_KNOWN_TILES)
        process.condition(features.take(places[some]), values[some])
        errors = process.leave_one_out()[runs[some]]
        self._means, self._deviations = process.predict(features.take(self._left))
        self._deviations *= max(1.0, round(float(np.sqrt(np.mean(errors**2))), 6))


def choose_representative(values: Array, count: int) -> NDArray[np.intp]:
    """Return the places of at most `count` values: half of them the least, the others spread evenly over the rest."""
    if len(values) <= count:
        return np.arange(len(values))
    order = np.argsort(values, kind="stable")
    best, others = order[: count // 2], np.sort(order[count // 2 :])
    spread = np.linspace(0, len(others) - 1, count - len(best)).round().astype(np.intp)
    return np.sort(np.concatenate([best, others[spread]]))


def _expected(quantiles: Array) -> float:
    """Return the sum of the probabilities of quantiles of the standard normal distribution."""
    return round(float(import_library("scipy.special").ndtr(quantiles).sum()), 6)


def _quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(import_library("scipy.special").ndtri(probability))
