"""Fit the model's latencies to miss latencies of the simulator or of a GPU: the function `calibrate`.

The model draws the latency of a miss from a half-normal distribution (Nugteren et al., HPCA 2014, section 4.2), and has
no queues. For a comparison with the simulator both must describe the same memory. So the distribution is fitted to the
latencies of the simulated machine on a few access patterns, none of which is one of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel import presets
from rdmodel.common.checks import MAX_SMS, MAX_VALUE, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import import_library
from rdmodel.common.progress import Progress, stage
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.results.simulation import MissLatencies
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Trace

WARPS_PER_BLOCK = 8
"""Warps per block of the patterns; fewer if that exceeds the limit of the GPU."""

LOADS_PER_WARP = 64
"""Loads of each warp of the patterns."""

MOST_WHOLE_SMS = 32
"""SMs of the largest machine that is simulated as a whole."""

PART_SMS = range(8, 17)
"""Number of SMs of the simulated part of a larger machine."""

AddressFunction = Callable[[NDArray[np.int64], NDArray[np.int64], int], NDArray[np.int64]]
"""From warp numbers (n, 1, 1), load numbers (1, m, 1) and a line size in bytes to byte addresses (n, m, 32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Latencies of the model, fitted to `misses` samples, and a summary of each pattern.

    `sms` and `slices` are the SMs and L2 slices of the simulated part of the GPU; None if all of it was simulated, or
    if the samples are measured.

    `error` is the Kolmogorov-Smirnov distance between the samples and the fitted distribution, 0 to 1. `patterns` holds
    the shortest, median, 95 %, longest and mean latency in cycles, for each pattern or for "measured".
    """

    gpu: str
    latency: LatencyConfig
    misses: int
    error: float
    patterns: Mapping[str, Mapping[str, float]]
    sms: int | None = None
    slices: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as plain numbers and dicts."""
        return {
            "gpu": self.gpu,
            "sms": self.sms,
            "slices": self.slices,
            "lat_min": self.latency.lat_min,
            "sigma": self.latency.sigma,
            "hit_latency": self.latency.hit_latency,
            "misses": self.misses,
            "error": self.error,
            "patterns": {name: dict(row) for name, row in self.patterns.items()},
        }


def calibrate(
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    measured: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Calibration:
    """Fit the model's `lat_min` and `sigma` to miss latencies, in cycles.

    The fit is the maximum-likelihood half-normal above the shortest latency. Without `measured`, the latencies are
    those of the simulated GPU on the patterns `stream`, `column`, `random` and `resident`, each with the same weight.
    That takes seconds: a few million transactions are simulated. Of a GPU with more than `MOST_WHOLE_SMS` SMs, a part
    is simulated that has about as many SMs for each slice of the L2 (`representative_part`).

    Parameters
    ----------
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    measured : array_like, optional
        Measured miss latencies in cycles, of any shape, to fit instead; they are rounded to whole cycles.
    seed : int
        Seed of the pattern `random`.
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all, over all patterns.

    Returns
    -------
    Calibration
        The fitted `lat_min` and `sigma`, with the `hit_latency` of the GPU.

    Raises
    ------
    ConfigError
        If `measured` is empty or holds a value that is not a latency, if `seed` is not a whole number of at least 0, or
        if the L1 of the GPU does not serve global loads.
    """
    gpu = presets.gpu(gpu)
    check_int("seed", seed, 0)
    check_int("sms", gpu.sms, 1, MAX_SMS)
    part = representative_part(gpu) if measured is None else gpu
    if measured is not None:
        samples = {"measured": _tally_samples(measured)}
    else:
        samples = {
            name: simulate(make(part, seed), part, progress=stage(progress, i, len(PATTERNS))).miss_latencies
            for i, (name, make) in enumerate(PATTERNS.items())
        }
    if not all(sample.counts.size for sample in samples.values()):
        raise ConfigError(
            f"l1.caches={','.join(gpu.l1.caches)}: global loads bypass the L1 of {gpu.name}, so that they have no "
            "latencies of L1 misses; l1.caches=global,local,nc simulates code that was compiled with -Xptxas -dlcm=ca"
        )
    cycles, weights = _pool_samples(list(samples.values()))
    lat_min, sigma = fit_half_normal(cycles, weights)
    return Calibration(
        gpu=gpu.name,
        sms=None if part is gpu else part.sms,
        slices=None if part is gpu else part.l2.slices,
        latency=LatencyConfig(lat_min=lat_min, sigma=sigma, hit_latency=gpu.core.hit_latency),
        misses=sum(int(sample.counts.sum()) for sample in samples.values()),
        error=_kolmogorov_smirnov(cycles, weights, lat_min, sigma),
        patterns={name: sample.to_dict() for name, sample in samples.items()},
    )


def representative_part(gpu: GPU) -> GPU:
    """Return a part of a large machine in which the SMs load the memory as in the whole one; a small one unchanged.

    The time of a simulation grows with the SMs, while the latencies of the patterns depend on how many SMs share a
    slice of the L2 and its channel: a whole V100 gives sigma = 1148 cycles, and its part 1108.
    So the part has `PART_SMS` SMs and the slices that come closest to the ratio of the whole machine, the fewest if
    several come as close; both are divided evenly among the partitions of the L2.
    """
    if gpu.sms <= MOST_WHOLE_SMS:
        return gpu
    partitions = gpu.l2.partitions
    candidates = [
        (abs(sms * gpu.l2.slices - slices * gpu.sms) / slices, sms, slices)
        for sms in PART_SMS
        for slices in range(partitions, gpu.l2.slices + 1, partitions)
        if sms % partitions == 0
    ]
    if not candidates:  # more partitions than the part could have SMs
        return gpu
    _, sms, slices = min(candidates)
    return gpu.replace(sms=sms, l2=replace(gpu.l2, slices=slices))


def fit_half_normal(cycles: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[int, float]:
    """Return `lat_min` and `sigma` of the maximum-likelihood half-normal for weighted latencies, in cycles.

    The location `lat_min` is the smallest sample. The scale `sigma` is the root mean square of the excess over it,
    rounded to 0.1.
    """
    lat_min = int(cycles.min())
    above = (cycles - lat_min).astype(np.float64)
    return lat_min, round(float(np.sqrt(weights @ above**2 / weights.sum())), 1)


def _tally_samples(measured: ArrayLike) -> MissLatencies:
    try:
        values = np.asarray(measured).ravel()
    except ValueError:  # rows of different lengths
        values = np.empty(0)
    # NaN is not at least 0 either.
    if not values.size or values.dtype.kind not in "iuf" or not ((values >= 0) & (values <= MAX_VALUE)).all():
        raise ConfigError("measured: must be latencies in cycles: at least one, each a number from 0 to 2^40")
    cycles, counts = np.unique(np.rint(values).astype(np.int64), return_counts=True)
    return MissLatencies(cycles, counts.astype(np.int64))


def _pool_samples(samples: Sequence[MissLatencies]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all latencies, ascending, with weights that sum to 1; each pattern has the same total weight."""
    cycles, places = np.unique(np.concatenate([sample.cycles for sample in samples]), return_inverse=True)
    shares = np.concatenate([sample.counts / sample.counts.sum() for sample in samples])
    return cycles, np.bincount(places, shares) / len(samples)


def _kolmogorov_smirnov(cycles: NDArray[np.int64], weights: NDArray[np.float64], lat_min: int, sigma: float) -> float:
    """Return the largest difference between the cumulative distributions of the samples and of the fit."""
    special = import_library("scipy.special")

    def drawn(cycles_up_to: NDArray[np.int64]) -> NDArray[np.float64]:
        above: NDArray[np.float64] = np.maximum(cycles_up_to + 0.5 - lat_min, 0)  # the model rounds what it draws
        shares: NDArray[np.float64] = special.erf(above / (max(sigma, 1e-9) * np.sqrt(2)))
        return shares

    cumulated = np.cumsum(weights)
    before = np.concatenate([[0.0], cumulated[:-1]])
    return float(max(np.abs(cumulated - drawn(cycles)).max(), np.abs(before - drawn(cycles - 1)).max()))


# ---- patterns: enough warps to fill the machine, and every load needs the one before it


def _make_pattern(gpu: GPU, name: str, addresses: AddressFunction) -> Trace:
    """Return a trace of two full waves of blocks over all SMs, in which each warp loads from `addresses`."""
    max_warps = min(gpu.max_warps, gpu.max_threads // WARP)
    block_warps = max(1, min(WARPS_PER_BLOCK, max_warps, gpu.max_block_threads // WARP))
    blocks = 2 * gpu.sms * max(1, min(gpu.max_blocks, max_warps // block_warps))
    warps = blocks * block_warps
    n = warps * LOADS_PER_WARP
    lanes = addresses(np.arange(warps)[:, None, None], np.arange(LOADS_PER_WARP)[None, :, None], gpu.l1.line)
    columns = Columns(
        warp_start=np.arange(warps + 1) * LOADS_PER_WARP,
        pc=np.zeros(n, np.int32),
        op=np.full(n, int(Op.LOAD), np.uint8),
        space=np.zeros(n, np.uint8),
        size=np.full(n, 4, np.uint8),
        gap=np.zeros(n, np.int32),
        needs=np.full(n, ALL_NEEDS, np.uint64),
        loop_exit=np.zeros(n, np.bool_),
        mask=np.full(n, (1 << WARP) - 1, np.uint32),
        address_start=np.arange(n + 1) * WARP,
        addresses=np.broadcast_to(lanes, (warps, LOADS_PER_WARP, WARP)).reshape(-1),
    )
    return Trace(Launch(kernel=name, grid=(blocks, 1, 1), block=(block_warps * WARP, 1, 1)), columns)


_LANE = np.arange(WARP)[None, None, :]
"""Numbers of the lanes, of shape (1, 1, 32)."""


def _stream(gpu: GPU, seed: int) -> Trace:
    """Make every load take the next whole lines of a range of the warp's own, so that no line is loaded twice."""

    def addresses(warp: NDArray[np.int64], load: NDArray[np.int64], line: int) -> NDArray[np.int64]:
        whole_lines: NDArray[np.int64] = (warp * LOADS_PER_WARP + load) * max(line, 4 * WARP)
        return whole_lines + 4 * _LANE

    return _make_pattern(gpu, "stream", addresses)


def _column(gpu: GPU, seed: int) -> Trace:
    """Make every lane walk along its own row, four bytes at a time: 32 lines per load."""
    row = 16384
    return _make_pattern(gpu, "column", lambda warp, load, line: (warp * WARP + _LANE) * row + 4 * load)


def _random(gpu: GPU, seed: int) -> Trace:
    """Make every load take a random line of a footprint eight times the size of the L2."""
    footprint = 8 * gpu.l2.slices * gpu.l2.size // gpu.l1.line
    draws = np.random.default_rng(seed)

    def addresses(warp: NDArray[np.int64], load: NDArray[np.int64], line: int) -> NDArray[np.int64]:
        lines: NDArray[np.int64] = draws.integers(0, footprint, (warp.size, load.size, 1))
        return lines * line + 4 * _LANE

    return _make_pattern(gpu, "random", addresses)


def _resident(gpu: GPU, seed: int) -> Trace:
    """Make all warps go round one footprint, from different places; it is half the L2, and larger than the L1."""
    footprint = max(1, gpu.l2.slices * gpu.l2.size // gpu.l1.line // 2)
    return _make_pattern(gpu, "resident", lambda warp, load, line: (warp * 97 + load) % footprint * line + 4 * _LANE)


PATTERNS: dict[str, Callable[[GPU, int], Trace]] = {
    "stream": _stream,
    "column": _column,
    "random": _random,
    "resident": _resident,
}
"""Access patterns for which the simulated machine's latencies are measured, by name."""
