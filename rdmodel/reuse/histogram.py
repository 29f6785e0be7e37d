"""Represent histograms of reuse distances, and the miss-ratio curves derived from them, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel.common.axes import draw_groups, draw_steps, given_or_new, nothing_to_draw
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.text import range_text
from rdmodel.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INFINITE = -1
"""Reuse distance of the first access to a line: a compulsory miss."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MissRatioCurve(Presented):
    """Miss ratio of a fully associative LRU cache at some sizes (Mattson et al., 1970).

    `sizes` (int64, lines) and `miss_ratios` (float64, compulsory misses included) are read-only and equally long. A
    curve iterates over pairs (size, miss ratio). Raises `ConfigError` if lengths differ or a value is out of range.

    >>> curve = MissRatioCurve([1, 2, 4], [0.8, 0.4, 0.4])
    >>> curve.at(2)
    0.4
    """

    sizes: NDArray[np.int64]
    miss_ratios: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Make the columns read-only; raise `ConfigError` for values that no cache can have."""
        sizes = integer_column("sizes", self.sizes)
        try:
            ratios = make_read_only(np.array(self.miss_ratios, dtype=np.float64))
        except (TypeError, ValueError):
            raise ConfigError("miss_ratios: must be numbers") from None
        if ratios.shape != sizes.shape:
            raise ConfigError(f"miss_ratios: shape {ratios.shape}: must be {sizes.shape}, the shape of sizes")
        wrong = ~((ratios >= 0) & (ratios <= 1))
        if wrong.any():
            raise ConfigError(f"miss_ratios={ratios[wrong][0]}: must be 0 to 1")
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "miss_ratios", ratios)

    def __len__(self) -> int:
        """Return the number of sizes."""
        return len(self.sizes)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        """Yield (size, miss ratio) in the order of `sizes`."""
        return zip(self.sizes.tolist(), self.miss_ratios.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        """Tell whether all points of two curves are equal."""
        return list(self) == list(other) if isinstance(other, MissRatioCurve) else NotImplemented

    def __str__(self) -> str:
        """Return one line with the number of points and the last point."""
        return f"{len(self)} sizes" + (f", {self.miss_ratios[-1]:.4f} at {self.sizes[-1]} lines" if len(self) else "")

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every size."""
        return [{"size": size, "miss_ratio": ratio} for size, ratio in self]

    def plot(self, ax: Axes | None = None, *, line: int | None = None) -> Axes:
        """Draw the curve on axes, new ones by default, and return them; needs matplotlib (extra ``plot``).

        With `line`, the bytes of a line, sizes are in bytes. Raises `ConfigError` for a curve without points.
        """
        if not len(self):
            raise nothing_to_draw(self, "the curve has no points")
        ax = given_or_new(ax)
        draw_steps(ax, (self.sizes * (line or 1)).tolist(), self.miss_ratios.tolist())
        ax.set(xlabel="size of a fully associative cache in " + ("bytes" if line else "lines"), ylabel="miss ratio")
        return ax

    def at(self, size: int) -> float:
        """Return the miss ratio at `size` lines; raise `ConfigError` if the curve has no such point."""
        places = np.flatnonzero(self.sizes == size)
        if len(places) == 0:
            raise ConfigError(f"size={size}: not on the curve; its sizes are {_first_sizes(self.sizes)}")
        return float(self.miss_ratios[places[0]])

    def to_dict(self) -> dict[str, list[Any]]:
        """Return ``{"sizes": [...], "miss_ratios": [...]}``, ready for JSON."""
        return {"sizes": self.sizes.tolist(), "miss_ratios": self.miss_ratios.tolist()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram(Presented, Mapping[int, int]):
    """Counts by reuse distance: a mapping from distance to count, -1 = infinite.

    `distances` (int64, ascending, at least 0) and `counts` (int64, at least 1) are read-only and equally long;
    `infinite` is the number of first accesses to a line. A histogram is equal to any mapping with the same items.
    Raises `ConfigError` for columns that do not form a histogram.

    >>> histogram = Histogram([0, 1, 2], [1, 2, 1], infinite=3)
    >>> histogram[1], histogram[-1], histogram.total
    (2, 3, 7)
    """

    distances: NDArray[np.int64]
    counts: NDArray[np.int64]
    infinite: int

    def __post_init__(self) -> None:
        """Make the columns read-only; raise `ConfigError` if they do not form a histogram."""
        distances = integer_column("distances", self.distances)
        counts = integer_column("counts", self.counts)
        if len(distances) != len(counts):
            raise ConfigError(f"counts: {len(counts)} values: must be {len(distances)}, one for each distance")
        if (distances[1:] <= distances[:-1]).any():
            raise ConfigError("distances: must be strictly ascending")
        if (counts == 0).any():
            raise ConfigError("counts=0: leave out distances that never occurred")
        infinite = int(integer_column("infinite", [self.infinite])[0])
        object.__setattr__(self, "distances", distances)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "infinite", infinite)

    @classmethod
    def from_dense(cls, counts: ArrayLike, infinite: int) -> Histogram:
        """Return the histogram with ``counts[d]`` accesses of distance d, zeros allowed; O(len(counts))."""
        dense = integer_column("counts", counts)
        distances = np.flatnonzero(dense)
        return cls(distances, dense[distances], infinite)

    @property
    def total(self) -> int:
        """All accesses, infinite distances included."""
        return int(self.counts.sum()) + self.infinite

    def __len__(self) -> int:
        """Return the number of different distances, including the infinite one if it occurred."""
        return len(self.distances) + (self.infinite > 0)

    def __iter__(self) -> Iterator[int]:
        """Yield the distances that occurred, ascending (-1 = infinite is the first)."""
        if self.infinite:
            yield INFINITE
        yield from self.distances.tolist()

    def __getitem__(self, distance: int) -> int:
        """Return the count of `distance`; raise `KeyError` if it did not occur. O(log distances)."""
        if distance == INFINITE and self.infinite:
            return self.infinite
        at = int(np.searchsorted(self.distances, distance))
        if at == len(self.distances) or self.distances[at] != distance:
            raise KeyError(distance)
        return int(self.counts[at])

    def __str__(self) -> str:
        """Return one line with the accesses, the infinite distances and the largest finite distance."""
        end = f", largest {self.distances[-1]}" if len(self.distances) else ""
        return f"{self.total} accesses, {self.infinite} infinite{end}"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every distance, -1 = infinite first."""
        return [{"distance": distance, "count": count} for distance, count in self.items()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the counts of ranges of distances that end at powers of two."""
        rows: list[dict[str, Any]] = [{"distance": "infinite", "count": self.infinite}] if self.infinite else []
        return rows + [{"distance": range_text(low, high), "count": count} for low, high, count in by_powers(self)]

    def to_dict(self) -> dict[int, int]:
        """Return the items as a plain dict, ascending, -1 = infinite first."""
        return dict(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the shares of ranges of distances on axes, new ones by default, and return them.

        Needs matplotlib (extra ``plot``). Raises `ConfigError` for an empty histogram.
        """
        if not self.total:
            raise nothing_to_draw(self, "the histogram is empty")
        ax, rows = given_or_new(ax), self.shown_rows()
        shares = [row["count"] / self.total for row in rows]
        draw_groups(ax, [row["distance"] for row in rows], {"": shares}, "share of accesses")
        ax.set_xlabel("reuse distance in lines")
        return ax

    def miss_ratio(self, size: int) -> float:
        """Return the miss ratio of a fully associative LRU cache of `size` lines; see `miss_ratio_curve`."""
        return float(self.miss_ratio_curve([size]).miss_ratios[0])

    def miss_ratio_curve(self, sizes: ArrayLike | None = None) -> MissRatioCurve:
        """Return the miss ratios of fully associative LRU caches of `sizes` lines (at least 0).

        Such a cache misses exactly the accesses whose distance is at least its size, and those with an infinite
        distance (Mattson et al., 1970). Default sizes: powers of two, and the smallest size that has only compulsory
        misses, which is the number of distinct lines for the histogram of one stream. O(distances + sizes log
        distances).

        Raises `ConfigError` for sizes that are not integers of at least 0, `TraceError` for an empty histogram.
        """
        if self.total == 0:
            raise TraceError("histogram: is empty; a miss ratio needs at least one access")
        wanted = self._default_sizes() if sizes is None else integer_column("sizes", sizes)
        hits = np.concatenate(([0], np.cumsum(self.counts)))
        missed = self.total - hits[np.searchsorted(self.distances, wanted, side="left")]
        return MissRatioCurve(wanted, missed / self.total)

    def _default_sizes(self) -> NDArray[np.int64]:
        largest = int(self.distances[-1]) if len(self.distances) else 0
        end = max(self.infinite, largest + 1)
        return np.array([*(1 << i for i in range((end - 1).bit_length())), end], dtype=np.int64)


def integer_column(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return a read-only int64 copy of `values`; raise `ConfigError` unless they are 1-D and not negative."""
    column = np.asarray(values)
    if column.ndim != 1:
        raise ConfigError(f"{name}: shape {column.shape}, must be one-dimensional")
    if len(column) and column.dtype.kind not in "iu":
        raise ConfigError(f"{name}: must be integers, not {column.dtype}")
    for bound in (column.min(), column.max()) if len(column) else ():
        if not 0 <= int(bound) < 1 << 63:
            raise ConfigError(f"{name}={int(bound)}: must be 0 to 2^63 - 1")
    return make_read_only(column.astype(np.int64))


def make_read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make `array` read-only, and return it."""
    array.flags.writeable = False
    return array


def _first_sizes(sizes: NDArray[np.int64]) -> str:
    text = ", ".join(str(size) for size in sizes[:12].tolist())
    return text + (", ..." if len(sizes) > 12 else "")


def by_powers(histogram: Histogram) -> list[tuple[int, int, int]]:
    """Return (least, most, count) for each of the ranges 0, 1, 2 to 3, 4 to 7, ... in which distances occurred."""
    rows = []
    end = int(histogram.distances[-1]).bit_length() + 1 if len(histogram.distances) else 0
    for bits in range(end):
        low, high = (0, 0) if bits == 0 else (1 << (bits - 1), (1 << bits) - 1)
        first, last = np.searchsorted(histogram.distances, [low, high + 1])
        if first < last:
            rows.append((low, high, int(histogram.counts[first:last].sum())))
    return rows
