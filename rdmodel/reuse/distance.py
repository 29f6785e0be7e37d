"""Measure the exact reuse distances of a stream of cache lines, their histogram and the miss-ratio curve.

The reuse distance of an access is the number of *distinct other* lines accessed since the last access to the same line
(Nugteren et al., HPCA 2014, section 3.3). The value -1 means infinite: the line was never accessed before. The
algorithm is that of Bennett and Kruskal (1975): memory is O(distinct lines), whatever the length of the stream; time is
practically linear in that length. The GIL is released.

>>> import rdmodel.reuse.distance as rd
>>> rd.reuse_distances([0, 1, 0, 2, 0, 0, 1])
array([-1, -1,  1, -1,  1,  0,  2])
>>> rd.histogram([0, 1, 0, 2, 0, 0, 1])
Histogram(7 accesses, 3 infinite, largest 2)
>>> [round(ratio, 3) for size, ratio in rd.miss_ratio_curve([0, 1, 0, 2, 0, 0, 1])]
[0.857, 0.571, 0.429]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel._tree import Distances
from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError, TraceError
from rdmodel.reuse.histogram import Histogram, MissRatioCurve
from rdmodel.reuse.sampled import SampledHistogram
from rdmodel.reuse.shards import check_sample, make_shards, sampled_histogram

__all__ = ["DistanceStream", "histogram", "miss_ratio_curve", "reuse_distances"]

ACCESSES_PER_CHUNK = 1 << 16
"""Accesses whose distances `histogram` computes at a time."""


class DistanceStream:
    """Reuse distances of a stream that arrives in pieces, for instance one that is larger than memory.

    >>> stream = DistanceStream()
    >>> stream.feed([0, 1, 0])
    array([-1, -1,  1])
    >>> stream.feed([1, 2])
    array([ 1, -1])
    >>> stream.distinct
    3
    """

    def __init__(self) -> None:
        """Start before the first access."""
        self._distances = Distances()

    def __repr__(self) -> str:
        """Return one line with the number of distinct lines."""
        return f"DistanceStream({self.distinct} distinct lines)"

    @property
    def distinct(self) -> int:
        """Distinct lines so far."""
        return self._distances.distinct

    def feed(self, lines: ArrayLike) -> NDArray[np.int64]:
        """Return the reuse distance of each of `lines`, which continue the stream; -1 = infinite.

        Arguments, result and errors as in `reuse_distances`; a call that raises changes nothing.
        """
        accesses = _int64(_check_lines(lines))
        distances = np.empty(len(accesses), dtype=np.int64)
        self._distances.feed(accesses, distances)
        return distances


def reuse_distances(lines: ArrayLike) -> NDArray[np.int64]:
    """Return the reuse distance of each access of a stream of lines.

    For n accesses to D distinct lines: time O(n log D), with a logarithm to base 64; memory O(D) besides the result.

    Parameters
    ----------
    lines : array_like
        One-dimensional integers that fit int64, negative ones included: line numbers (byte address // line size), or
        addresses for distances in addresses.

    Returns
    -------
    numpy.ndarray
        Distances (int64), as many as `lines`; -1 = infinite.

    Raises
    ------
    TraceError
        If `lines` is anything else.

    Examples
    --------
    >>> reuse_distances([7, 8, 9, 7])
    array([-1, -1, -1,  2])
    """
    return DistanceStream().feed(lines)


@overload
def histogram(lines: ArrayLike, *, sample: None = None, seed: int = 0) -> Histogram: ...
@overload
def histogram(lines: ArrayLike, *, sample: float, seed: int = 0) -> SampledHistogram: ...
def histogram(lines: ArrayLike, *, sample: float | None = None, seed: int = 0) -> Histogram | SampledHistogram:
    """Count how often each reuse distance occurs in a stream of lines.

    The stream is read in chunks, in memory O(D) for D distinct lines; `lines` may be a ``numpy.memmap`` larger than
    memory.

    Parameters
    ----------
    lines : array_like
        The stream, as in `reuse_distances`.
    sample : float, optional
        Rate above 0 and at most 1: follow only the lines whose hash is below the rate (SHARDS: Waldspurger et al.,
        FAST 2015). Memory shrinks to about this share; time to little more than that of hashing.
    seed : int
        Seed of the hash, at least 0.

    Returns
    -------
    Histogram or SampledHistogram
        The counts by distance; a `SampledHistogram` with `sample`.

    Raises
    ------
    ConfigError
        If `sample` or `seed` is out of range.
    TraceError
        If `lines` is not a stream of lines, or if no line is in the sample.

    Examples
    --------
    >>> histogram([7, 8, 9, 7]).to_dict()
    {-1: 3, 2: 1}
    """
    if sample is not None:
        return _sampled(lines, sample, seed)
    stream = DistanceStream()
    counts = np.zeros(1, dtype=np.int64)  # counts[d + 1] accesses have distance d
    for chunk in _chunks(_check_lines(lines)):
        distances = stream.feed(chunk)
        if stream.distinct >= len(counts):
            counts = np.concatenate((counts, np.zeros(stream.distinct, dtype=np.int64)))
        np.add.at(counts, distances + 1, 1)
    return Histogram.from_dense(counts[1:], int(counts[0]))


def miss_ratio_curve(
    lines: ArrayLike | Histogram | SampledHistogram,
    sizes: ArrayLike | None = None,
    *,
    sample: float | None = None,
    seed: int = 0,
) -> MissRatioCurve:
    """Return the miss ratio of a fully associative LRU cache as a function of its size, compulsory misses included.

    Parameters
    ----------
    lines : array_like, Histogram or SampledHistogram
        A stream as in `reuse_distances`, or its histogram.
    sizes : array_like, optional
        Sizes of the cache in lines. Default: powers of two up to the number of distinct lines, and that number.
    sample : float, optional
        Rate as in `histogram`. The result is then a `SampledCurve`, with an `Estimate` for every size.
    seed : int
        Seed of the hash, as in `histogram`.

    Returns
    -------
    MissRatioCurve
        The miss ratio at each size; `Histogram.miss_ratio_curve` has the details.

    Raises
    ------
    ConfigError
        If a size, `sample` or `seed` is out of range, or if `sample` is given with a histogram.
    TraceError
        If `lines` is not a stream of lines, or is empty: an empty stream has no miss ratio.

    Examples
    --------
    >>> miss_ratio_curve([7, 8, 9, 7], sizes=[0, 2, 3]).miss_ratios
    array([1.  , 1.  , 0.75])
    """
    if isinstance(lines, Histogram | SampledHistogram):
        if sample is not None:
            raise ConfigError(f"sample={sample!r}: only a stream of lines can be sampled, not its histogram")
        return lines.miss_ratio_curve(sizes)
    if sample is not None:
        return histogram(lines, sample=sample, seed=seed).miss_ratio_curve(sizes)
    return histogram(lines).miss_ratio_curve(sizes)


def _sampled(lines: ArrayLike, sample: float, seed: int) -> SampledHistogram:
    rate = check_sample(sample)
    check_int("seed", seed, 0)
    shards = make_shards(rate, seed)
    for chunk in _chunks(_check_lines(lines)):
        shards.feed(chunk)
    return sampled_histogram([shards], rate)


def _check_lines(lines: ArrayLike) -> NDArray[Any]:
    """Return `lines` as a one-dimensional integer array, without a copy; raise `TraceError` if that is impossible."""
    try:
        array = np.asarray(lines)
    except (TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"lines: must be an array of integers ({error})") from None
    if array.ndim != 1:
        raise TraceError(f"lines: shape {array.shape}, must be one-dimensional")
    if len(array) == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise TraceError(f"lines: access {np.flatnonzero(~np.isfinite(array))[0]} is not a line number")
    if array.dtype.kind not in "iu":
        raise TraceError(f"lines: must be integers that fit int64, not {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) >= 1 << 63:
        raise TraceError(f"lines: access {int(array.argmax())} is line {int(array.max())}, beyond int64")
    return array


def _int64(lines: NDArray[Any]) -> NDArray[np.int64]:
    return np.ascontiguousarray(lines, dtype=np.int64)


def _chunks(lines: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(lines), ACCESSES_PER_CHUNK):
        yield _int64(lines[start : start + ACCESSES_PER_CHUNK])
