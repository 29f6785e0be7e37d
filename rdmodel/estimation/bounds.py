"""Bound the counts that an excerpt cannot show: of the data that there is, and of warps that get out of step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.cores import obeys_barriers
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.grid_pilot import MIN_ROWS_OF_LONG_WARPS, STEADY_ROWS, run_pilot
from rdmodel.model.predict import make_options, with_l1_options
from rdmodel.trace import Columns, Launch, Program, Trace
from rdmodel.trace.columns import Op
from rdmodel.trace.moved import segments_of

LOOKED_AT_SHARE = 0.5
"""A share of iterations below one: it asks whether a trace has outer loops that can be shortened."""

DRIFT_SHARE = 0.5
"""Share of the work of an estimate on which the work of its pilot depends, which looks at the warps of one SM."""

Reach = Mapping[str, tuple[float, float]]
"""Numbers by which intervals extend below and above their standard errors, by the name of the count."""


def loaded_bytes(launch: Launch, contents: Iterable[Columns | Program], granule: int) -> int | None:
    """Return the bytes of all arrays from which some blocks load, in whole granules; None if they load elsewhere."""
    loaded: set[int] = set()
    bases = np.array([array.base for array in launch.arrays], np.int64)
    order = np.argsort(bases)
    for content in contents:
        addresses = _load_addresses(content)
        if len(addresses) and not len(bases):
            return None
        for at in set((np.searchsorted(bases[order], addresses, side="right") - 1).tolist()):
            loaded.add(int(order[at]) if at >= 0 else -1)
    if -1 in loaded:
        return None
    return sum(-(-launch.arrays[number].bytes // granule) * granule for number in loaded)


def _load_addresses(content: Columns | Program) -> NDArray[np.int64]:
    """Return one address of each load."""
    if isinstance(content, Columns):
        lanes = np.diff(content.address_start)
        first: NDArray[np.int64] = content.address_start[:-1][(content.op == int(Op.LOAD)) & (lanes > 0)]
        addresses: NDArray[np.int64] = content.addresses[first]
        return addresses
    found = [np.empty(0, np.int64)]
    for segment in content:
        loads = np.flatnonzero(segment.op == int(Op.LOAD))
        masks = segment.mask[:, loads].astype(np.int64)
        warps, places = np.nonzero(masks)
        # The exponent of a power of two tells the first active lane.
        lanes = np.frexp((masks & -masks)[warps, places])[1] - 1
        found.append(segment.base[warps, loads[places], lanes])
    return np.concatenate(found)


def stay_in_step(trace: Trace, blocks: Iterable[int]) -> bool:
    """Return whether barriers keep the warps of some blocks in step, as far as a pilot could tell.

    False if the trace has outer loops that can be shortened: making the whole blocks takes longer than a pilot.
    """
    if trace.shortened(LOOKED_AT_SHARE) is not None:
        return False
    return all(_longest_stretch(trace.block(block)) <= STEADY_ROWS for block in blocks)


def _longest_stretch(content: Columns | Program) -> int:
    """Return an upper bound of the instructions that a warp executes from one barrier of its block to the next."""
    longest = since = 0
    if isinstance(content, Columns):
        for first, last in pairwise(content.warp_start.tolist()):
            barriers = np.flatnonzero(content.op[first:last] == int(Op.BARRIER))
            longest = max(longest, int(np.diff([-1, *barriers, last - first]).max()))
        return longest
    for segment in segments_of(content):
        body = len(segment.op)
        if ((segment.op == int(Op.BARRIER)) & (segment.mask != 0).all(axis=0)).any():
            longest, since = max(longest, since + body), body
        else:
            since += body * segment.trips
        longest = max(longest, since)
    return longest


def has_long_warps(trace: Trace, rows: float) -> bool:
    """Return whether blocks with so many instructions have warps that are long enough to drift apart."""
    return rows >= MIN_ROWS_OF_LONG_WARPS * trace.launch.block_warps


def warps_may_drift(
    trace: Trace, gpu: GPU, options: Mapping[str, Any], sms: int, counts: BlockCounts, work: float, seed: int
) -> bool:
    """Return whether the warps of a long block drift apart, or may do so later than the beginnings of blocks show."""
    if not has_long_warps(trace, counts.rows):
        return False
    rest = dict(options)
    gpu = with_l1_options(gpu, rest)
    chosen = replace(make_options({**rest, "sms": sms, "l2": False}).resolve(gpu), threads=None)
    if obeys_barriers(chosen) and stay_in_step(trace, {0, counts.blocks // 2, counts.blocks - 1}):
        return False
    resident = compute_occupancy(trace.launch, gpu).blocks
    return not run_pilot(trace, gpu, chosen, resident, counts, DRIFT_SHARE * work, seed, least_sms=1).knows_lives


def reach_of_order(counts: Mapping[str, float], drifts: bool) -> dict[str, tuple[float, float]]:
    """Return how far counts may be off since a cut block shows its warps in one order only.

    Associativity misses are the work of the warps that meet in a set: in another order, each may be a hit. If warps
    drift apart, any hit to data that another warp brought may be a miss, and any capacity miss may be a hit.
    """
    below = counts["associativity"]
    above = 0.0
    if drifts:
        below += counts["capacity"]
        above = counts["hits"] + counts["latency_misses"]
    reach = {"misses": (below, above), "hits": (above, below), "latency_misses": (above, below)}
    if "l2_reads" in counts:
        # Blocks drift apart with their warps, so that another SM may no longer find in the L2 what one of them read.
        unshared = counts["l2_hits"] if drifts else 0.0
        reach |= {"l2_reads": (below, above), "l2_misses": (0.0, unshared), "dram_read_sectors": (0.0, unshared)}
    return reach
