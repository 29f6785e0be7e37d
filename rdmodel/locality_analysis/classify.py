"""Classify every load transaction of a simulated kernel by the last access to its line: the function `locality`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.errors import TraceError
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.locality_analysis._locality import Accesses
from rdmodel.locality_analysis.concentration import balance, concentration_by_load
from rdmodel.locality_analysis.values import (
    LINE_TYPES,
    AccessCounts,
    LineTypes,
    LoadLocality,
    Locality,
    ReReferences,
    ReuseDistances,
    sum_by_index,
)
from rdmodel.presets import DEFAULT_GPU
from rdmodel.presets import gpu as find_gpu
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.options import configure
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace

DISTANCE_BUCKETS = 64
"""Buckets of a histogram of reuse distances: bit lengths of an int64."""


def locality(
    trace: Trace,
    gpu: str | GPU = DEFAULT_GPU,
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Locality:
    """Simulate a kernel launch and classify every load transaction of its L1s.

    Besides what the simulation needs, it takes time O(transactions log distinct lines) and memory O(distinct lines x
    SMs).

    Parameters
    ----------
    trace : Trace
        The kernel launch. Its simulated blocks must hold loads.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    seed : int
        Recorded in the result; the simulation itself is not random.
    check : bool
        Whether the simulator checks its invariants.
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all.
    **options
        Options of `simulate`.

    Returns
    -------
    Locality
        Classes of re-references, types of lines, reuse distances, and the simulation.

    Raises
    ------
    ConfigError
        If an option is unknown or has a bad value.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If `trace` is not a `Trace`, or its simulated blocks hold no loads.
    """
    gpu, resolved = configure(find_gpu(gpu), options)
    check_trace(trace)
    gpu = fit_to_launch(gpu, trace.launch)
    assert resolved.sms is not None
    accesses = Accesses(resolved.sms)
    result = simulate(trace, gpu, seed=seed, check=check, progress=progress, observe=accesses.feed, **options)
    return locality_of(accesses, result, trace, gpu.l1)


def locality_of(accesses: Accesses, result: Simulation, trace: Trace, l1: CacheConfig) -> Locality:
    """Return the locality of a simulation of `trace`, from all its accesses; raise `TraceError` without loads."""
    if not result.loads:
        raise TraceError(f"the simulated blocks of {result.kernel} hold no loads")
    blocks = result.config["options"]["blocks"]
    concentrations = concentration_by_load(_limit_blocks(trace, blocks), l1.index, l1.sets, l1.line)
    return summarise_accesses(accesses, result, l1, concentrations)


def _limit_blocks(trace: Trace, blocks: int | None) -> Trace:
    """Return the trace with its first `blocks` blocks only; None: all."""
    assert trace.blocks is not None
    if blocks is None:
        return trace
    limited = copy.copy(trace)
    limited.blocks = trace.blocks[:blocks]
    return limited


def summarise_accesses(
    accesses: Accesses, result: Simulation, l1: CacheConfig, concentrations: Mapping[int, float]
) -> Locality:
    """Return the locality of a simulation from all its `accesses`; there must be at least one."""
    loads = accesses.load_counts()
    lines = _LineTotals(accesses, result.sms, len(loads), l1)
    (first, *unbounded), (_, *bounded) = accesses.class_counts().tolist()
    order = np.argsort(loads[:, 0])
    return Locality(
        accesses=int(loads[:, 1].sum()),
        first_touches=first,
        unbounded=ReReferences(*unbounded),
        bounded=ReReferences(*bounded),
        lines=LineTypes(*lines.by_load.sum(axis=0).tolist()),
        loads=tuple(
            LoadLocality(pc, times, hits, LineTypes(*lines.by_load[i].tolist()), concentrations[pc])
            for i, (pc, times, hits) in zip(order.tolist(), loads[order].tolist(), strict=True)
        ),
        accesses_per_line=_merge_counts(lines.per_line),
        accesses_per_stay=_merge_counts([*lines.per_stay, accesses.stay_lengths()]),
        reuse_distances={
            name: _make_distances(buckets, int(total))
            for name, buckets, total in zip(LINE_TYPES, lines.buckets, lines.distances, strict=True)
        },
        balance=sum(lines.balances) / result.loads,
        simulation=result,
    )


class _LineTotals:
    """Totals over the lines of all SMs."""

    def __init__(self, accesses: Accesses, sms: int, loads: int, l1: CacheConfig) -> None:
        self.by_load = np.zeros((loads, len(LINE_TYPES)), np.int64)
        self.buckets = np.zeros((len(LINE_TYPES), DISTANCE_BUCKETS), np.int64)
        self.distances = np.zeros(len(LINE_TYPES), np.int64)
        self.per_line: list[NDArray[np.int64]] = []
        self.per_stay: list[NDArray[np.int64]] = []
        self.balances: list[float] = []
        for sm in range(sms):
            rows = accesses.lines(sm)
            if len(rows):
                self._add(rows, accesses.distances(sm), l1)

    def _add(self, rows: NDArray[np.int64], uses: NDArray[np.int64], l1: CacheConfig) -> None:
        line, load, times, by_bringer, since_miss, distances = rows.T
        kind = _classify_lines(times, by_bringer)
        np.add.at(self.by_load, (load, kind), 1)
        np.add.at(self.distances, kind, distances)
        np.add.at(self.buckets, (kind[uses[:, 0]], uses[:, 1]), uses[:, 2])
        self.per_line.append(_count_values(times))
        self.per_stay.append(_count_values(since_miss))
        in_sets = sum_by_index(l1.index.set_of(line, l1.sets, l1.line), times, l1.sets)
        self.balances.append(balance(in_sets) * int(times.sum()))


def _classify_lines(times: NDArray[np.int64], by_bringer: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the type of each line as a position in `LINE_TYPES`: table 2 of Koo et al."""
    return np.select([times == 1, by_bringer == 1, by_bringer == times], [0, 1, 2], 3)


# ---- histograms


def _count_values(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of (value, number of its occurrences)."""
    return np.stack(np.unique(values, return_counts=True), axis=1)


def _merge_counts(tallies: list[NDArray[np.int64]]) -> AccessCounts:
    values, counts = np.concatenate(tallies).T
    distinct, at = np.unique(values, return_inverse=True)
    return AccessCounts(distinct, sum_by_index(at, counts, len(distinct)))


def _make_distances(buckets: NDArray[np.int64], total: int) -> ReuseDistances:
    count = int(buckets.sum())
    return ReuseDistances(tuple(np.trim_zeros(buckets, "b").tolist()), total / count if count else 0.0)
