"""Convert the counters of the compiled machine to results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.results.counts import MissCounts
from rdmodel.results.simulation import (
    NO_STORE_LOOKUPS,
    Contention,
    DramCounts,
    L2Counts,
    MissLatencies,
    ReservationFails,
    SmSimulation,
    StoreLookups,
    Traffic,
)
from rdmodel.simulator._engine import REQUEST_BYTES
from rdmodel.simulator._inspection import FAIL_NAMES, SLICE_FAIL_NAMES

SM_FIELDS = tuple(f.name for f in dataclasses.fields(SmSimulation) if f.name not in ("sm", "blocks"))
"""Fields that `SmSimulation` and `Simulation` share: those of all SMs are sums over the SMs."""

ALL_SMS = -1
"""The number of the SM in a sum over all SMs."""

RawCounters = Mapping[str, Any]
"""Counters of a part of the compiled machine: numbers, or lists of numbers, by name."""


def sum_counters(parts: Sequence[RawCounters]) -> dict[str, Any]:
    """Return the sums of all counters over parts of one kind; empty without parts. Lists are added by element."""
    total = dict(parts[0]) if parts else {}
    for part in parts[1:]:
        for name, value in part.items():
            pair = (total[name], value)
            total[name] = list(map(sum, zip(*pair, strict=True))) if isinstance(value, list) else sum(pair)
    return total


def sm_result(sm: int, counters: RawCounters, *, sectored: bool) -> SmSimulation:
    """Return the counts of an SM, or of `ALL_SMS`, on a machine with or without sectors."""
    misses = MissCounts(counters["compulsory"], counters["capacity"], counters["associativity"])
    stores = StoreLookups(counters["writes"], counters["store_sectors"], counters["store_hits"])
    return SmSimulation(
        sm=sm,
        blocks=counters["blocks"],
        warp_instructions=counters["warp_instructions"],
        instructions=counters["thread_instructions"],
        hits=counters["hits"],
        pending_hits=counters["pending_hits"],
        misses=misses,
        lookups=counters["lookups"] if sectored else None,
        tag_misses=counters["tag_misses"] if sectored else int(misses.total),
        sector_misses=counters["sector_misses"],
        store_lookups=stores if sectored else NO_STORE_LOOKUPS,
        writes=counters["writes"],
        bypassed=counters["bypassed"],
        reservation_fails=ReservationFails(**dict(zip(FAIL_NAMES, counters["fails"], strict=True))),
        contention=Contention(counters["intra_warp"], counters["cross_warp"], counters["cross_block"]),
    )


def traffic_result(counters: RawCounters, part: int, *, sized: bool) -> Traffic:
    """Return the messages over the crossbar and their bytes; they carry parts of `part` bytes.

    Those are counted if messages have masks of them; otherwise, each message has one.
    """
    reads, writes = counters["read_messages"], counters["write_messages"]
    responses = reads + counters["acknowledgements"]
    read_parts, write_parts = reads, writes
    if sized:
        read_parts, write_parts = counters["read_sectors"], counters["write_sectors"]
    return Traffic(
        read_messages=reads,
        write_messages=writes,
        response_messages=responses,
        request_bytes=REQUEST_BYTES * (reads + writes) + part * write_parts,
        response_bytes=REQUEST_BYTES * responses + part * read_parts,
    )


def latency_result(counts: Sequence[int]) -> MissLatencies:
    """Return the misses by latency, from their numbers for 0, 1, 2, ... cycles."""
    cycles = np.flatnonzero(counts)
    return MissLatencies(cycles, np.asarray(counts, np.int64)[cycles])


def l2_result(counters: RawCounters) -> L2Counts:
    """Return the counts of the L2 from sums over its slices."""
    stalls = dict(zip(SLICE_FAIL_NAMES, counters["fails"], strict=True))
    return L2Counts(**{name: value for name, value in counters.items() if name != "fails"}, stalls=stalls)


def dram_result(counters: RawCounters, gpu: GPU, constant_sectors: int) -> DramCounts:
    """Return the counts of the DRAM from sums over its channels, and from the sectors of constant memory."""
    sectors = counters["writes"] + constant_sectors
    moved = counters["reads"] * gpu.l2_fetch_bytes + sectors * gpu.l2_sector_bytes
    return DramCounts(**counters, bytes=moved, constant_sectors=constant_sectors)
