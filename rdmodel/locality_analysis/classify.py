"""`locality`: every load transaction of a simulated kernel, classified by who touched its line before."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.locality_analysis._locality import Accesses
from rdmodel.locality_analysis.concentration import balance, concentration_by_load
from rdmodel.locality_analysis.values import (
    TYPES,
    AccessCounts,
    LineTypes,
    LoadLocality,
    Locality,
    ReReferences,
    ReuseDistances,
    sums,
)
from rdmodel.presets import gpu as find_gpu
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.options import configure
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace

BUCKETS = 64


def locality(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Locality:
    """Simulate a kernel launch and classify every load transaction of its L1s.

    Arguments and errors are those of `simulate`, with `TraceError` also where nothing is loaded. Besides what the
    simulation needs, time O(transactions log distinct lines) and memory O(distinct lines x SMs).
    """
    machine, resolved = configure(find_gpu(gpu), options)
    assert resolved.sms is not None
    accesses = Accesses(resolved.sms)
    result = simulate(trace, machine, seed=seed, check=check, progress=progress, observe=accesses.feed, **options)
    return locality_of(accesses, result, trace, machine.l1)


def locality_of(accesses: Accesses, result: Simulation, trace: Trace, l1: CacheConfig) -> Locality:
    """Return the locality of a simulation of `trace`, all accesses of it observed; `TraceError` without loads."""
    if not result.loads:
        raise TraceError(f"the simulated blocks of {result.kernel} load nothing")
    blocks = result.config["options"]["blocks"]
    concentrations = concentration_by_load(_first_blocks(trace, blocks), l1.index, l1.sets, l1.line)
    return summarise_accesses(accesses, result, l1, concentrations)


def _first_blocks(trace: Trace, blocks: int | None) -> Trace:
    assert trace.blocks is not None
    if blocks is None:
        return trace
    part = copy.copy(trace)
    part.blocks = trace.blocks[:blocks]
    return part


def summarise_accesses(
    accesses: Accesses, result: Simulation, l1: CacheConfig, concentrations: Mapping[int, float]
) -> Locality:
    """Return the locality that all `accesses` of a simulation show, which are at least one."""
    loads = accesses.program_counters()
    lines = _Lines(accesses, result.sms, len(loads), l1)
    (first, *unbounded), (_, *bounded) = accesses.classes().tolist()
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
        accesses_per_line=_merge(lines.per_line),
        accesses_per_stay=_merge([*lines.per_stay, accesses.residences()]),
        reuse_distances={
            name: _distances(buckets, int(total))
            for name, buckets, total in zip(TYPES, lines.buckets, lines.distances, strict=True)
        },
        balance=sum(lines.balances) / result.loads,
        simulation=result,
    )


class _Lines:
    """What the lines of all SMs say together."""

    def __init__(self, accesses: Accesses, sms: int, loads: int, l1: CacheConfig) -> None:
        self.by_load = np.zeros((loads, len(TYPES)), np.int64)
        self.buckets = np.zeros((len(TYPES), BUCKETS), np.int64)
        self.distances = np.zeros(len(TYPES), np.int64)
        self.per_line: list[NDArray[np.int64]] = []
        self.per_stay: list[NDArray[np.int64]] = []
        self.balances: list[float] = []
        for sm in range(sms):
            rows = accesses.lines(sm)
            if len(rows):
                self._add(rows, accesses.distances(sm), l1)

    def _add(self, rows: NDArray[np.int64], uses: NDArray[np.int64], l1: CacheConfig) -> None:
        line, load, times, own, since_miss, distances = rows.T
        kind = _types(times, own)
        np.add.at(self.by_load, (load, kind), 1)
        np.add.at(self.distances, kind, distances)
        np.add.at(self.buckets, (kind[uses[:, 0]], uses[:, 1]), uses[:, 2])
        self.per_line.append(_tally(times))
        self.per_stay.append(_tally(since_miss))
        in_sets = sums(l1.index.set_of(line, l1.sets, l1.line), times, l1.sets)
        self.balances.append(balance(in_sets) * int(times.sum()))


def _types(times: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each line's type, as a place in `TYPES`: table 2 of Koo et al."""
    return np.select([times == 1, own == 1, own == times], [0, 1, 2], 3)


# ---- histograms


def _tally(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of (value, how often it occurs)."""
    return np.stack(np.unique(values, return_counts=True), axis=1)


def _merge(tallies: list[NDArray[np.int64]]) -> AccessCounts:
    values, counts = np.concatenate(tallies).T
    distinct, at = np.unique(values, return_inverse=True)
    return AccessCounts(distinct, sums(at, counts, len(distinct)))


def _distances(buckets: NDArray[np.int64], total: int) -> ReuseDistances:
    count = int(buckets.sum())
    return ReuseDistances(tuple(np.trim_zeros(buckets, "b").tolist()), total / count if count else 0.0)
