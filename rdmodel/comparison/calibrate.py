"""Latencies for the model from the simulator's misses, or from anybody's: `calibrate`.

The model draws the latency of a miss from a half-normal distribution (Nugteren et al., HPCA 2014, section 4.2) and
knows nothing of queues. To compare it with the simulator, both have to mean the same memory: the distribution is
fitted to the latencies that the simulated machine shows on a few patterns, which are none of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel import presets
from rdmodel.common.checks import MAX_VALUE, check_int
from rdmodel.common.progress import Progress, stage
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.results.simulation import MissLatencies
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Trace

WARPS = 8
"""Warps per block of the patterns; fewer where a block cannot have so many."""

LOADS = 64
"""Loads per warp of the patterns."""

Addresses = Callable[[NDArray[np.int64], NDArray[np.int64], int], NDArray[np.int64]]
"""From warp numbers (n, 1, 1) and load numbers (1, m, 1) and a line size to addresses (n, m, 32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Latencies fitted to `misses` samples: `latency` for the model, and what every pattern showed.

    `error` is the Kolmogorov-Smirnov distance between the samples and what the model draws, 0 to 1. `patterns` are
    the shortest, median, 95 %, longest and mean latency by pattern, or those of "measured".
    """

    gpu: str
    latency: LatencyConfig
    misses: int
    error: float
    patterns: Mapping[str, Mapping[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as plain numbers and dicts."""
        return {
            "gpu": self.gpu,
            "lat_min": self.latency.lat_min,
            "sigma": self.latency.sigma,
            "hit_latency": self.latency.hit_latency,
            "misses": self.misses,
            "error": self.error,
            "patterns": {name: dict(row) for name, row in self.patterns.items()},
        }


def calibrate(
    gpu: str | GPU = "gtx470-16k",
    *,
    measured: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Calibration:
    """Fit the model's `lat_min` and `sigma` to miss latencies, in cycles.

    Without `measured` the latencies are those of the simulated `gpu` on the patterns `stream`, `column`, `random` and
    `resident`, every pattern with the same weight; `hit_latency` is the GPU's. `measured` are a user's own samples,
    of any shape, rounded to whole cycles. `seed` makes the random pattern. `progress` is called with (blocks begun,
    blocks in all) of all patterns together.

    The fit is the maximum-likelihood half-normal above the shortest latency. Raises `ConfigError` for samples that
    are no latencies. Takes seconds without `measured`: about 4 million transactions are simulated.
    """
    machine = presets.gpu(gpu)
    check_int("seed", seed, 0)
    if measured is not None:
        samples = {"measured": _as_latencies(measured)}
    else:
        samples = {
            name: simulate(make(machine, seed), machine, progress=stage(progress, i, len(PATTERNS))).miss_latencies
            for i, (name, make) in enumerate(PATTERNS.items())
        }
    cycles, weights = _pool(list(samples.values()))
    lat_min, sigma = fit_half_normal(cycles, weights)
    return Calibration(
        gpu=machine.name,
        latency=LatencyConfig(lat_min=lat_min, sigma=sigma, hit_latency=machine.core.hit_latency),
        misses=sum(int(one.counts.sum()) for one in samples.values()),
        error=_distance(cycles, weights, lat_min, sigma),
        patterns={name: one.to_dict() for name, one in samples.items()},
    )


def fit_half_normal(cycles: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[int, float]:
    """Return (`lat_min`, `sigma`) of the maximum-likelihood half-normal for weighted latencies.

    Its location is the smallest sample, its scale the root mean square of what is above; sigma is rounded to 0.1.
    """
    lat_min = int(cycles.min())
    above = (cycles - lat_min).astype(np.float64)
    return lat_min, round(float(np.sqrt(weights @ above**2 / weights.sum())), 1)


def _as_latencies(measured: ArrayLike) -> MissLatencies:
    try:
        values = np.asarray(measured).ravel()
    except ValueError:  # rows of different lengths
        values = np.empty(0)
    # NaN is not at least 0 either.
    if not values.size or values.dtype.kind not in "iuf" or not ((values >= 0) & (values <= MAX_VALUE)).all():
        raise ConfigError("measured: must be latencies in cycles: at least one, each a number from 0 to 2^40")
    cycles, counts = np.unique(np.rint(values).astype(np.int64), return_counts=True)
    return MissLatencies(cycles, counts.astype(np.int64))


def _pool(samples: Sequence[MissLatencies]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all latencies, ascending, with weights that sum to 1; every sample weighs as much as the others."""
    cycles, places = np.unique(np.concatenate([one.cycles for one in samples]), return_inverse=True)
    shares = np.concatenate([one.counts / one.counts.sum() for one in samples])
    return cycles, np.bincount(places, shares) / len(samples)


def _distance(cycles: NDArray[np.int64], weights: NDArray[np.float64], lat_min: int, sigma: float) -> float:
    """Return the largest difference between the shares of latencies up to any number of cycles."""
    from scipy.special import erf

    def drawn(upto: NDArray[np.int64]) -> NDArray[np.float64]:
        above: NDArray[np.float64] = np.maximum(upto + 0.5 - lat_min, 0)  # the model rounds what it draws
        shares: NDArray[np.float64] = erf(above / (max(sigma, 1e-9) * np.sqrt(2)))
        return shares

    cumulated = np.cumsum(weights)
    before = np.concatenate([[0.0], cumulated[:-1]])
    return float(max(np.abs(cumulated - drawn(cycles)).max(), np.abs(before - drawn(cycles - 1)).max()))


# ---- patterns: enough warps to fill the machine, every load needs the one before


def _pattern(gpu: GPU, name: str, addresses: Addresses) -> Trace:
    """Return a trace of two full waves of blocks over all SMs, each warp loading from `addresses`."""
    most = min(gpu.max_warps, gpu.max_threads // WARP)
    block_warps = max(1, min(WARPS, most, gpu.max_block_threads // WARP))
    blocks = 2 * gpu.sms * max(1, min(gpu.max_blocks, most // block_warps))
    warps = blocks * block_warps
    n = warps * LOADS
    lanes = addresses(np.arange(warps)[:, None, None], np.arange(LOADS)[None, :, None], gpu.l1.line)
    columns = Columns(
        warp_start=np.arange(warps + 1) * LOADS,
        pc=np.zeros(n, np.int32),
        op=np.full(n, Op.LOAD, np.uint8),
        space=np.zeros(n, np.uint8),
        size=np.full(n, 4, np.uint8),
        gap=np.zeros(n, np.int32),
        needs=np.full(n, ALL_NEEDS, np.uint64),
        loop_exit=np.zeros(n, np.bool_),
        mask=np.full(n, (1 << WARP) - 1, np.uint32),
        address_start=np.arange(n + 1) * WARP,
        addresses=np.broadcast_to(lanes, (warps, LOADS, WARP)).reshape(-1),
    )
    return Trace(Launch(kernel=name, grid=(blocks, 1, 1), block=(block_warps * WARP, 1, 1)), columns)


_LANE = np.arange(WARP)[None, None, :]


def _stream(gpu: GPU, seed: int) -> Trace:
    """Every load takes the next whole lines of the warp's own stretch: nothing is met twice."""
    return _pattern(gpu, "stream", lambda warp, load, line: (warp * LOADS + load) * max(line, 4 * WARP) + 4 * _LANE)


def _column(gpu: GPU, seed: int) -> Trace:
    """Every lane walks along its own row, four bytes at a time: 32 lines per load."""
    row = 16384
    return _pattern(gpu, "column", lambda warp, load, line: (warp * WARP + _LANE) * row + 4 * load)


def _random(gpu: GPU, seed: int) -> Trace:
    """Every load takes a random line of a footprint eight times the L2."""
    footprint = 8 * gpu.l2.slices * gpu.l2.size // gpu.l1.line
    draws = np.random.default_rng(seed)

    def addresses(warp: NDArray[np.int64], load: NDArray[np.int64], line: int) -> NDArray[np.int64]:
        lines: NDArray[np.int64] = draws.integers(0, footprint, (warp.size, load.size, 1))
        return lines * line + 4 * _LANE

    return _pattern(gpu, "random", addresses)


def _resident(gpu: GPU, seed: int) -> Trace:
    """All warps go round the same stretch, half as large as the L2 and larger than the L1, from different places."""
    footprint = max(1, gpu.l2.slices * gpu.l2.size // gpu.l1.line // 2)
    return _pattern(gpu, "resident", lambda warp, load, line: (warp * 97 + load) % footprint * line + 4 * _LANE)


PATTERNS: dict[str, Callable[[GPU, int], Trace]] = {
    "stream": _stream,
    "column": _column,
    "random": _random,
    "resident": _resident,
}
"""What the simulated machine is measured with."""
