"""What a sample says of the whole: an `Estimate`, and the miss-ratio curve of a sample of lines, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel.common.estimate import Estimate, student
from rdmodel.errors import ConfigError, TraceError
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, frozen, integer_column


@dataclass(frozen=True, slots=True, eq=False)
class SampledCurve(MissRatioCurve):
    """A miss-ratio curve that was estimated from a sample of lines, with the error of each point.

    `standard_errors`, `lows` and `highs` (float64) are as long as `sizes`, and read-only.
    """

    standard_errors: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    sampled: str

    def __post_init__(self) -> None:
        """Freeze the columns."""
        MissRatioCurve.__post_init__(self)
        for name in ("standard_errors", "lows", "highs"):
            column = frozen(np.array(getattr(self, name), dtype=np.float64))
            if column.shape != self.sizes.shape:
                raise ConfigError(f"{name}: shape {column.shape}, expected {self.sizes.shape} as sizes")
            object.__setattr__(self, name, column)

    def estimate(self, size: int) -> Estimate:
        """Return the miss ratio at `size` lines with its error; raise `ConfigError` as `at` does."""
        self.at(size)
        return self.estimates()[int(np.flatnonzero(self.sizes == size)[0])]

    def estimates(self) -> list[Estimate]:
        """Return the estimate at every size."""
        columns = (self.miss_ratios, self.standard_errors, self.lows, self.highs)
        return [
            Estimate(value=value, standard_error=error, low=low, high=high, sampled=self.sampled)
            for value, error, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return sizes, miss ratios, standard errors and the ends of the intervals as lists, ready for JSON."""
        return {
            **MissRatioCurve.to_dict(self),
            "standard_errors": self.standard_errors.tolist(),
            "lows": self.lows.tolist(),
            "highs": self.highs.tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class SampledHistogram:
    """Reuse distances among a sample of lines (Waldspurger et al., FAST 2015): those whose hash is below `rate`.

    `counts` (int64, distances x parts) are the accesses by the number of distinct sampled lines in between, and by the
    part of the hashes that the line belongs to; `infinite` (int64, parts) the first touches. `total` counts all
    accesses of the stream, `lines` the sampled lines. Raises `TraceError` if no line was sampled.

    A distance d among sampled lines stands for d / `rate`, an access for 1 / `rate` accesses.
    """

    rate: float
    total: int
    lines: int
    counts: NDArray[np.int64]
    infinite: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Freeze the columns, and refuse a sample of nothing."""
        if self.total == 0:
            raise TraceError("histogram: empty, a miss ratio needs at least one access")
        if self.lines == 0:
            raise TraceError(f"sample={self.rate:g}: no line is in the sample; take a larger one")
        for name in ("counts", "infinite"):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=np.int64)))

    @property
    def followed(self) -> int:
        """Accesses to sampled lines."""
        return int(self.counts.sum() + self.infinite.sum())

    @property
    def sampled(self) -> str:
        """What was sampled, in words."""
        return f"{self.lines:,} lines, {100 * self.rate:g} % of all hashes"

    def __repr__(self) -> str:
        """Return one line: accesses, and how many were followed."""
        return f"SampledHistogram({self.total} accesses, {self.followed} followed, {self.lines} lines)"

    def scaled(self) -> Histogram:
        """Return the histogram of all accesses that the sample stands for.

        Distances are divided by the rate, and accesses too, rounded to whole ones. What lacks of `total`, or is too
        much, is added to distance 0 (SHARDS-adj) as far as that leaves no negative count.
        """
        by_distance = np.rint(self.counts.sum(axis=1) / self.rate).astype(np.int64)
        infinite = round(int(self.infinite.sum()) / self.rate)
        distances = np.rint(np.arange(len(by_distance)) / self.rate).astype(np.int64)
        if len(by_distance) == 0:
            by_distance, distances = np.zeros(1, np.int64), np.zeros(1, np.int64)
        by_distance[0] = max(0, by_distance[0] + self.total - infinite - int(by_distance.sum()))
        kept = by_distance > 0
        return Histogram(distances[kept], by_distance[kept], infinite)

    def miss_ratio_curve(self, sizes: ArrayLike | None = None) -> SampledCurve:
        """Return the estimated miss ratios of fully associative LRU caches of `sizes` lines, with their errors.

        Default sizes: powers of two up to the estimated number of distinct lines, and that number.
        """
        wanted = self._default_sizes() if sizes is None else integer_column("sizes", sizes)
        ratios = np.minimum(self._misses(wanted).sum(axis=1) / self._expected, 1.0)
        variance = (1 - self.rate) * self._spread(wanted) + self._blur(wanted) ** 2
        variance[wanted == 0] = 0.0
        errors = np.sqrt(variance)
        half = student(self.infinite.size - 1) * errors
        return SampledCurve(
            sizes=wanted,
            miss_ratios=ratios,
            standard_errors=errors,
            lows=np.maximum(ratios - half, 0.0),
            highs=np.minimum(ratios + half, 1.0),
            sampled=self.sampled,
        )

    @property
    def _expected(self) -> float:
        """Accesses that a sample follows on average: to divide by them is SHARDS-adj."""
        return self.total * self.rate

    def _misses(self, sizes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sampled accesses that miss, by size and part; no cache has a hit at size 0."""
        hits: NDArray[Any] = np.concatenate(
            [np.zeros((1, self.infinite.size), np.int64), np.cumsum(self.counts, axis=0)]
        )
        # d / rate >= size; the product is nudged so that a rounding error does not make a distance larger by one.
        first = np.ceil(sizes * self.rate * (1 - 1e-12)).astype(np.int64).clip(0, len(self.counts))
        misses = (hits[-1] + self.infinite - hits[first]).astype(np.float64)
        misses[sizes == 0] = self._expected / self.infinite.size
        return np.asarray(misses, np.float64)

    def _spread(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance that other lines would make: the parts are samples of their own."""
        parts = self.infinite.size
        ratios = self._misses(sizes) * parts / self._expected
        return np.asarray(ratios.var(axis=1, ddof=1) / parts, np.float64)

    def _blur(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how far the curve moves where sizes move by the standard deviation of a scaled distance."""
        off = np.sqrt(sizes * (1 - self.rate) / self.rate)
        near, far = (self._misses(np.maximum(sizes + way * off, 1)).sum(axis=1) for way in (-1, 1))
        return np.asarray(np.abs(near - far) / 2 / self._expected, np.float64)

    def _default_sizes(self) -> NDArray[np.int64]:
        end = max(1, round(self.lines / self.rate))
        return np.array([*(1 << i for i in range((end - 1).bit_length())), end], dtype=np.int64)


def points(curve: MissRatioCurve) -> Sequence[Estimate | None]:
    """Return the estimate at each size of a curve; None for those that were counted."""
    return curve.estimates() if isinstance(curve, SampledCurve) else [None] * len(curve)
