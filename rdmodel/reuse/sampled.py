"""Represent reuse distances and miss-ratio curves that are estimated from a sample of lines, as frozen values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel.common.intervals import Estimate, student_quantile
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.errors import ConfigError, TraceError
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, integer_column, make_read_only


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SampledCurve(MissRatioCurve):
    """A miss-ratio curve estimated from a sample of lines, with the error of each point.

    `standard_errors` and the ends of the intervals, `lows` and `highs` (float64), are read-only and as long as `sizes`.
    `sampled` describes the sample.
    """

    standard_errors: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    sampled: str

    def __post_init__(self) -> None:
        """Make the columns read-only; raise `ConfigError` if their lengths differ."""
        MissRatioCurve.__post_init__(self)
        for name in ("standard_errors", "lows", "highs"):
            column = make_read_only(np.array(getattr(self, name), dtype=np.float64))
            if column.shape != self.sizes.shape:
                raise ConfigError(f"{name}: shape {column.shape}: must be {self.sizes.shape}, the shape of sizes")
            object.__setattr__(self, name, column)

    def estimate(self, size: int) -> Estimate:
        """Return the miss ratio at `size` lines with its error; raise `ConfigError` if the curve has no such point."""
        self.at(size)
        return self.estimates()[int(np.flatnonzero(self.sizes == size)[0])]

    def estimates(self) -> list[Estimate]:
        """Return the estimate at every size."""
        columns = (self.miss_ratios, self.standard_errors, self.lows, self.highs)
        return [
            Estimate(value=value, standard_error=error, low=low, high=high, sampled=self.sampled)
            for value, error, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every size, with the standard error and the ends of the interval."""
        columns = self.to_dict()
        names = {"sizes": "size", "miss_ratios": "miss_ratio", "standard_errors": "standard_error"}
        names |= {"lows": "low", "highs": "high"}
        rows = zip(*(columns[column] for column in names), strict=True)
        return [dict(zip(names.values(), row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return sizes, miss ratios, standard errors and the ends of the intervals as lists, ready for JSON."""
        return {
            **MissRatioCurve.to_dict(self),
            "standard_errors": self.standard_errors.tolist(),
            "lows": self.lows.tolist(),
            "highs": self.highs.tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SampledHistogram(Presented):
    """Reuse distances among the lines whose hash is below `rate` (SHARDS: Waldspurger et al., FAST 2015).

    `counts` (int64, distances x parts) are accesses by the number of distinct sampled lines in between, and by the part
    of the hash range in which the line's hash lies. `infinite` (int64, parts) are the first touches. `total` counts all
    accesses of the stream, `lines` the sampled lines. Raises `TraceError` if no line was sampled.

    A distance d among sampled lines stands for the distance d / `rate`, and an access for 1 / `rate` accesses.
    """

    rate: float
    total: int
    lines: int
    counts: NDArray[np.int64]
    infinite: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Make the columns read-only; raise `TraceError` for an empty stream or sample."""
        if self.total == 0:
            raise TraceError("histogram: is empty; a miss ratio needs at least one access")
        if self.lines == 0:
            raise TraceError(f"sample={self.rate:g}: no line is in the sample; choose a larger sample")
        for name in ("counts", "infinite"):
            object.__setattr__(self, name, make_read_only(np.array(getattr(self, name), dtype=np.int64)))

    @property
    def followed(self) -> int:
        """Accesses to sampled lines."""
        return int(self.counts.sum() + self.infinite.sum())

    @property
    def sampled(self) -> str:
        """Description of the sample."""
        return f"{self.lines:,} lines, {100 * self.rate:g} % of all hashes"

    def __str__(self) -> str:
        """Return one line with the accesses, those to sampled lines, and the sampled lines."""
        return f"{self.total} accesses, {self.followed} followed, {self.lines} lines"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every distance of the estimated histogram, -1 = infinite first."""
        return self.scaled().to_rows()

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the counts of ranges of distances that end at powers of two."""
        return self.scaled().shown_rows()

    def scaled(self) -> Histogram:
        """Return the estimated histogram of all accesses.

        Distances and counts are divided by the rate, and rounded. The difference from `total` is added to the count of
        distance 0 (SHARDS-adj), which does not become negative.
        """
        by_distance = np.rint(self.counts.sum(axis=1) / self.rate).astype(np.int64)
        infinite = round(int(self.infinite.sum()) / self.rate)
        distances = np.rint(np.arange(len(by_distance)) / self.rate).astype(np.int64)
        if len(by_distance) == 0:
            by_distance, distances = np.zeros(1, np.int64), np.zeros(1, np.int64)
        by_distance[0] = max(0, by_distance[0] + self.total - infinite - int(by_distance.sum()))
        occurred = by_distance > 0
        return Histogram(distances[occurred], by_distance[occurred], infinite)

    def miss_ratio_curve(self, sizes: ArrayLike | None = None) -> SampledCurve:
        """Return the estimated miss ratios of fully associative LRU caches of `sizes` lines, with their errors.

        Default sizes: powers of two up to the estimated number of distinct lines, and that number.
        """
        wanted = self._default_sizes() if sizes is None else integer_column("sizes", sizes)
        ratios = np.minimum(self._misses(wanted).sum(axis=1) / self._expected, 1.0)
        variance = (1 - self.rate) * self._spread(wanted) + self._blur(wanted) ** 2
        variance[wanted == 0] = 0.0
        errors = np.sqrt(variance)
        half = student_quantile(self.infinite.size - 1) * errors
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
        """Expected number of sampled accesses; SHARDS-adj divides by it instead of by their actual number."""
        return self.total * self.rate

    def _misses(self, sizes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sampled accesses that miss, by size and part; at size 0 all accesses miss."""
        hits: NDArray[Any] = np.concatenate(
            [np.zeros((1, self.infinite.size), np.int64), np.cumsum(self.counts, axis=0)]
        )
        # The first d with d / rate >= size. The factor keeps a rounding error from making it larger by one.
        first = np.ceil(sizes * self.rate * (1 - 1e-12)).astype(np.int64).clip(0, len(self.counts))
        misses = (hits[-1] + self.infinite - hits[first]).astype(np.float64)
        misses[sizes == 0] = self._expected / self.infinite.size
        return np.asarray(misses, np.float64)

    def _spread(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance over the choice of lines; each part of the hash range is a separate sample."""
        parts = self.infinite.size
        ratios = self._misses(sizes) * parts / self._expected
        return np.asarray(ratios.var(axis=1, ddof=1) / parts, np.float64)

    def _blur(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the change of the miss ratio if sizes change by the standard deviation of a scaled distance."""
        off = np.sqrt(sizes * (1 - self.rate) / self.rate)
        near, far = (self._misses(np.maximum(sizes + sign * off, 1)).sum(axis=1) for sign in (-1, 1))
        return np.asarray(np.abs(near - far) / 2 / self._expected, np.float64)

    def _default_sizes(self) -> NDArray[np.int64]:
        end = max(1, round(self.lines / self.rate))
        return np.array([*(1 << i for i in range((end - 1).bit_length())), end], dtype=np.int64)
