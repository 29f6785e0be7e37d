"""From the compiled machine's counters to results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.results.prediction import MissCounts
from rdmodel.results.simulation import (
    Contention,
    DramCounts,
    L2Counts,
    MissLatencies,
    ReservationFails,
    SmSimulation,
    Traffic,
)
from rdmodel.simulator._engine import FAIL_NAMES, REQUEST_BYTES, SLICE_FAIL_NAMES

SUMMED = tuple(f.name for f in dataclasses.fields(SmSimulation) if f.name not in ("sm", "blocks"))
"""Fields that `SmSimulation` and `Simulation` share."""

Counters = Mapping[str, Any]


def add_up(counters: Sequence[Counters]) -> dict[str, Any]:
    """Return the sums of all counters, if there are any; lists are added element by element."""
    total = dict(counters[0]) if counters else {}
    for one in counters[1:]:
        for name, value in one.items():
            both = (total[name], value)
            total[name] = list(map(sum, zip(*both, strict=True))) if isinstance(value, list) else sum(both)
    return total


def sm_result(sm: int, counts: Counters) -> SmSimulation:
    """Return what one SM counted; -1 stands for all of them."""
    return SmSimulation(
        sm=sm,
        blocks=counts["blocks"],
        warp_instructions=counts["warp_instructions"],
        instructions=counts["thread_instructions"],
        hits=counts["hits"],
        pending_hits=counts["pending_hits"],
        misses=MissCounts(counts["compulsory"], counts["capacity"], counts["associativity"]),
        writes=counts["writes"],
        bypassed=counts["bypassed"],
        reservation_fails=ReservationFails(**dict(zip(FAIL_NAMES, counts["fails"], strict=True))),
        contention=Contention(counts["intra_warp"], counts["cross_warp"], counts["cross_block"]),
    )


def traffic(counts: Counters, line: int) -> Traffic:
    """Return the messages over the crossbar and their bytes, for lines of `line` bytes."""
    reads, writes = counts["read_messages"], counts["write_messages"]
    return Traffic(
        read_messages=reads,
        write_messages=writes,
        response_messages=reads,
        request_bytes=REQUEST_BYTES * reads + (REQUEST_BYTES + line) * writes,
        response_bytes=(REQUEST_BYTES + line) * reads,
    )


def latencies(counts: Sequence[int]) -> MissLatencies:
    """Return the misses by latency, from their counts for 0, 1, 2, ... cycles."""
    cycles = np.flatnonzero(counts)
    return MissLatencies(cycles, np.asarray(counts, np.int64)[cycles])


def l2_counts(counts: Counters) -> L2Counts:
    """Return what the slices counted together."""
    stalls = dict(zip(SLICE_FAIL_NAMES, counts["fails"], strict=True))
    return L2Counts(**{name: value for name, value in counts.items() if name != "fails"}, stalls=stalls)


def dram_counts(counts: Counters, gpu: GPU) -> DramCounts:
    """Return what the channels counted together."""
    return DramCounts(**counts, bytes=(counts["reads"] + counts["writes"]) * gpu.l1.line)
