"""Predict the times of tiles from those of other tiles, by a Gaussian process on the logarithms of the times.

The process has a constant mean, and the covariance of two tiles is ``variance * exp(-sum_d rate_d * distance_d)``, plus
`noise` on the diagonal. It is the product of exponential kernels, one for each feature, so that a time may change
abruptly with a size and does not have to be smooth. Rates, variance and noise maximise the posterior density. All
formulas are those of Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press 2006 ("R&W").
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import import_library
from rdmodel.tiling.values import Tile

Array = NDArray[np.float64]

PRIOR_SPREAD = 2.0
"""Standard deviation of the prior of each hyperparameter's logarithm, which leaves a factor of 50 either way."""

PRIOR_CENTRES = {"variance": 0.0, "noise": -5.0, "rate": 0.0}
"""Means of these priors: times that differ by a factor of e, noise of 8 %, and a covariance that falls to 1/e."""

BOUNDS = {"variance": (-6.0, 4.0), "noise": (-12.0, 0.0), "rate": (-6.0, 5.0)}
"""Bounds of the logarithms. The least noise, 0.25 %, keeps the covariance matrix well-conditioned."""

MAX_ITERATIONS = 40
"""Iterations of L-BFGS: the posterior changes little afterwards."""

PARAMETER_DIGITS = 3
VALUE_DIGITS = 9
"""Decimal places of the logarithms of hyperparameters, and of predictions.

They are rounded, because the last digits depend on the number of threads of the linear algebra.
"""

CHUNK_TILES = 2048
"""Tiles that are predicted at a time, which bounds the memory."""


@dataclass(frozen=True, slots=True)
class Features:
    """The numbers by which tiles are compared, one row for each tile.

    `ordered` are places from 0 to 1, whose distance is that of the numbers. `categories` are numbers that only stand
    for values: their distance is 1 if they differ.
    """

    ordered: Array
    categories: Array

    @property
    def count(self) -> int:
        """Number of features."""
        return int(self.ordered.shape[1] + self.categories.shape[1])

    def __len__(self) -> int:
        """Return the number of tiles."""
        return len(self.ordered)

    def take(self, rows: Any) -> Features:
        """Return the features of some tiles."""
        return Features(self.ordered[rows], self.categories[rows])

    def distances(self) -> Array:
        """Return the distances between all pairs of tiles: tiles x tiles x features."""
        return np.concatenate(
            [
                np.abs(self.ordered[:, None, :] - self.ordered[None, :, :]),
                self.categories[:, None, :] != self.categories[None, :, :],
            ],
            axis=2,
        )

    def distances_to(self, others: Features, rates: Array) -> Array:
        """Return the sums of the distances to other tiles, weighted by the rates of the features."""
        distance = import_library("scipy.spatial.distance")
        split, total = self.ordered.shape[1], np.zeros((len(self), len(others)))
        if split:
            weights = rates[:split]
            total += distance.cdist(self.ordered * weights, others.ordered * weights, "cityblock")
        if len(rates) > split:
            weights = rates[split:]
            total += weights.sum() * distance.cdist(self.categories, others.categories, "hamming", w=weights)
        return total


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which linear algebra has one thread, if threadpoolctl is installed (extra ``cuda``).

    These matrices are small. More threads gain nothing, and are many times as slow where other processes are busy.
    """
    with suppress(ImportError):
        limited: AbstractContextManager[Any] = import_library("threadpoolctl").threadpool_limits(1, "blas")
        return limited
    return nullcontext()


# ---- features of tiles


def features_of(tiles: Sequence[Tile]) -> Features | None:
    """Return the features of tiles; None if the tiles are not mappings or have nothing to compare.

    A size whose values are numbers is the place of the value among all values. If these are whole numbers, the number
    of its factors of two is another feature, because it decides about alignment and the use of whole warps. Other
    values, such as shapes, are categories, and so are those of a size that some tiles do not have.
    """
    if not all(isinstance(tile, Mapping) for tile in tiles):
        return None
    ordered: list[list[float]] = []
    categories: list[list[float]] = []
    names = dict.fromkeys(name for tile in tiles for name in tile)
    if not any(all(name in tile for tile in tiles) for name in names):
        return None
    for name in names:
        values = [_hashable(tile.get(name)) for tile in tiles]
        distinct = dict.fromkeys(values)
        if len(distinct) < 2:
            continue
        if not all(map(_is_number, distinct)):
            numbers = {value: float(at) for at, value in enumerate(distinct)}
            categories.append([numbers[value] for value in values])
            continue
        ordered.append(_places(values))
        if len(distinct) > 2 and all(isinstance(value, Integral) for value in distinct):
            factors = {value: _factors_of_two(value) for value in distinct}
            if 1 < len(set(factors.values())) < len(distinct):
                ordered.append(_places([factors[value] for value in values]))
    if not ordered and not categories:
        return None
    return Features(_columns(ordered, len(tiles)), _columns(categories, len(tiles)))


def _hashable(value: Any) -> Hashable:
    """Return a value by which equal sizes are found: the shape of a block from JSON is a list."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value if isinstance(value, Hashable) else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Integral) or (isinstance(value, Real) and isfinite(value))


def _places(values: Sequence[Any]) -> list[float]:
    """Return the places of numbers among all different ones, from 0 to 1."""
    places = {value: at for at, value in enumerate(sorted(set(values)))}
    return [places[value] / (len(places) - 1) for value in values]


def _factors_of_two(value: Any) -> int:
    """Return one more than the number of factors of two; 0 for 0."""
    return (int(value) & -int(value)).bit_length()


def _columns(columns: Sequence[Sequence[float]], rows: int) -> Array:
    return np.array(columns, float).reshape(len(columns), rows).T.copy()


# ---- the process


class GaussianProcess:
    """A Gaussian process on numbers of tiles: `fit` finds its hyperparameters, `condition` gives it data.

    `logarithms` are those of the hyperparameters: variance, noise, and the rate of each feature.
    """

    def __init__(self, features: int) -> None:
        self.logarithms: Array = np.array(_of_each(PRIOR_CENTRES, features))
        self._bounds = _of_each(BOUNDS, features)

    def fit(self, tiles: Features, values: Array) -> None:
        """Maximise the posterior density of the hyperparameters, from those of the last fit on."""
        optimize = import_library("scipy.optimize")
        distances, centred = tiles.distances(), values - values.mean()
        found = optimize.minimize(
            lambda at: negative_log_posterior(at, distances, centred),
            self.logarithms,
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": MAX_ITERATIONS},
        )
        self.logarithms = np.round(found.x, PARAMETER_DIGITS)

    def condition(self, tiles: Features, values: Array) -> None:
        """Condition the process on the values of some tiles (R&W, algorithm 2.1)."""
        linalg = import_library("scipy.linalg")
        self._tiles, self._mean = tiles, float(values.mean())
        self._variance, self._noise, *rates = np.exp(self.logarithms)
        self._rates = np.array(rates)
        covariance = self._variance * np.exp(-tiles.distances_to(tiles, self._rates))
        covariance[np.diag_indices_from(covariance)] += self._noise
        self._factor: Array = linalg.cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        self._weights: Array = linalg.cho_solve((self._factor, True), values - self._mean, check_finite=False)

    def predict(self, tiles: Features) -> tuple[Array, Array]:
        """Return means and standard deviations of the values of tiles, with noise (R&W, algorithm 2.1)."""
        linalg = import_library("scipy.linalg")
        means, deviations = np.empty(len(tiles)), np.empty(len(tiles))
        for first in range(0, len(tiles), CHUNK_TILES):
            some = slice(first, first + CHUNK_TILES)
            covariance = self._variance * np.exp(-tiles.take(some).distances_to(self._tiles, self._rates))
            known = linalg.solve_triangular(self._factor, covariance.T, lower=True, check_finite=False)
            left = self._variance - np.einsum("ij,ij->j", known, known)
            means[some] = self._mean + covariance @ self._weights
            deviations[some] = np.sqrt(np.maximum(left, 0.0) + self._noise)
        return np.round(means, VALUE_DIGITS), np.round(deviations, VALUE_DIGITS)

    def leave_one_out(self) -> Array:
        """Return the error of each value in standard deviations, as predicted from all others (R&W, section 5.4.2)."""
        linalg = import_library("scipy.linalg")
        inverse = linalg.solve_triangular(self._factor, np.eye(len(self._factor)), lower=True, check_finite=False)
        precisions = np.einsum("ij,ij->j", inverse, inverse)
        errors: Array = self._weights / np.sqrt(precisions)
        return errors


def negative_log_posterior(logarithms: Array, distances: Array, centred: Array) -> tuple[float, Array]:
    """Return the negative logarithm of the posterior density of hyperparameters, up to a constant, and its gradient.

    `distances` are those of `Features.distances`, and `centred` the values minus their mean. The likelihood is R&W's
    equation 5.8, its gradient equation 5.9; the logarithms of the hyperparameters have normal priors.
    """
    linalg = import_library("scipy.linalg")
    variance, noise, *rest = np.exp(logarithms)
    rates, count = np.array(rest), len(centred)
    covariance = variance * np.exp(-distances @ rates)
    factor = linalg.cholesky(covariance + noise * np.eye(count), lower=True, check_finite=False)
    inverse = linalg.cho_solve((factor, True), np.eye(count), check_finite=False)
    weights = inverse @ centred
    value = 0.5 * centred @ weights + np.log(np.diag(factor)).sum()
    slopes = inverse - np.outer(weights, weights)  # twice the derivative by each element of the covariance matrix
    weighted = slopes * covariance
    gradient = np.empty_like(logarithms)
    gradient[0] = 0.5 * weighted.sum()
    gradient[1] = 0.5 * noise * np.trace(slopes)
    gradient[2:] = -0.5 * rates * (weighted.ravel() @ distances.reshape(count * count, -1))
    away = logarithms - _of_each(PRIOR_CENTRES, len(rates))
    value += 0.5 * (away @ away) / PRIOR_SPREAD**2
    return float(value), gradient + away / PRIOR_SPREAD**2


def _of_each(by_name: Mapping[str, Any], features: int) -> list[Any]:
    """Return what belongs to each hyperparameter: variance, noise, and the rate of each feature."""
    return [by_name["variance"], by_name["noise"], *[by_name["rate"]] * features]
