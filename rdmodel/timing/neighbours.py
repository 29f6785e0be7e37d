"""Estimate the traffic of a launch from one SM, and from a few blocks and those before them in the grid.

The L1 is modelled for the first blocks of one SM. Data that an SM reads from the L2 come from DRAM unless an earlier
block has brought them in: one that runs at the same time, or one since which the L2 has not been filled with other
data. A block shares data with its neighbours in the grid, so it suffices to look at these (docs/time.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.timing.footprints import Footprint, Footprints
from rdmodel.timing.merging import bulk_share, merged_share
from rdmodel.timing.rereading import bytes_left_by_others
from rdmodel.timing.sharing import UNDER_WAY, Sharing, find_sharings
from rdmodel.timing.traffic import LaunchTraffic, fetching_share, load_shares, missing_share
from rdmodel.trace import Trace, Work

WAVES_OF_ONE_SM = 2
"""Times that the modelled SM is filled with blocks."""

PLACES = (0.37, 0.61)
"""Places of the blocks whose neighbours are looked at, as shares of the grid in each dimension: inside of it."""

STORES = ("store_global", "atomic_global", "store_local")
"""Accesses that send data to the L2."""


def sample_traffic(trace: Trace, gpu: GPU, work: Work, resident: int, options: Mapping[str, Any]) -> LaunchTraffic:
    """Return the traffic of a launch of which `resident` blocks are on an SM at a time.

    `work` is the work of some blocks, and `options` are options of `rdmodel.predict`, whose errors are raised.
    """
    launch = trace.launch
    threads = WAVES_OF_ONE_SM * resident * launch.block_threads
    prediction = predict(
        trace, gpu, **{"threads": threads, "histogram": False, "model_sms": 1, "origins": True, **options}
    )
    modelled = sum(sm.blocks for sm in prediction.per_sm)
    missed = (prediction.misses.total + prediction.bypassed_sectors) * gpu.l1.sector_bytes
    read = missed * launch.blocks / max(1, modelled)
    stored = sum(work.scaled(1).sectors[name] for name in STORES) * gpu.l1.sector_bytes * launch.blocks
    footprints = Footprints(trace, gpu.l2_fetch_bytes)
    unit, places = footprints.unit, sorted({_place(launch.grid, share) for share in PLACES})
    # Data that all SMs read fill each partition of the L2.
    room = gpu.l2.slices * gpu.l2.size / gpu.l2.partitions
    concurrent = min(launch.blocks, gpu.sms * resident)
    sharings = find_sharings(footprints, places, concurrent)
    fresh = float(np.mean([_fresh_bytes(each, unit, concurrent, room) for each in sharings]))
    first_wave = min(1.0, concurrent / launch.blocks)
    awaited = float(np.mean([_awaited_bytes(each, unit, concurrent, first_wave, room) for each in sharings]))
    lost = float(
        np.mean(
            [
                _lost_share(footprints.of(place), each, room // unit)
                for place, each in zip(places, sharings, strict=True)
            ]
        )
    )
    needed = float(np.mean([each.reads for each in sharings])) * unit
    writes = float(np.mean([each.writes for each in sharings])) * unit
    written = writes * launch.blocks
    left = bytes_left_by_others(footprints, fresh, writes, room)
    fresh, awaited = fresh - left, max(0.0, awaited - left)
    merged = read * bulk_share(trace, places[0]) * merged_share(sharings, concurrent)
    # Of what a block reads again, some has left the L2 in the meantime.
    again = lost * max(0.0, read / launch.blocks - needed)
    dram_read = min(read, max((fresh + again) * launch.blocks, _least_read(footprints)))
    return LaunchTraffic(
        missing_share=missing_share(prediction),
        fetching_share=fetching_share(prediction),
        l2_read_bytes=read,
        l2_write_bytes=stored,
        dram_read_share=dram_read / read if read else 0.0,
        # Data that a block reads several times wait once; those that are in the L1 for another block are left out.
        dram_wait_share=max(dram_read / read, (awaited + again) / max(needed, read / launch.blocks)) if read else 0.0,
        dram_bytes=dram_read + written,
        dram_written_bytes=written,
        l2_merged_bytes=merged,
        load_shares=load_shares(prediction),
    )


def _place(grid: Sequence[int], share: float) -> int:
    x, y, z = (min(n - 1, int(share * n)) for n in grid)
    return x + grid[0] * (y + grid[1] * z)


def _fresh_bytes(sharing: Sharing, unit: int, concurrent: int, room: float) -> float:
    """Return the bytes that a block reads and that no earlier block has left in the L2, as an expected value."""
    fresh = sharing.reads
    for each in sharing.shared:
        # Blocks that run together share data. Of those before, data are left until the room is filled with others.
        is_near = each.lag * (fresh + sharing.writes) * unit <= room
        fresh -= (1.0 if is_near else max(0.0, 1 - each.lag / concurrent)) * each.pieces
    return max(0.0, fresh) * unit


def _lost_share(own: Footprint, sharing: Sharing, room: float) -> float:
    """Return the share of the pieces which a block reads again that have left an L2 with room for so many pieces.

    Between two reads of a piece, a block accesses others, and the blocks that run together as many times more as their
    wave has pieces. Pieces that other blocks read, too, are taken to stay.
    """
    again = own.lasts - own.places > UNDER_WAY
    if not again.any():
        return 0.0
    accessed = len(np.union1d(own.reads, own.writes))
    wave = sharing.wave * accessed / (len(own.reads) + len(own.writes))
    first, last = own.places[again], own.lasts[again]
    begun, ended = np.sort(own.places), np.sort(last)
    between = np.searchsorted(begun, last) - np.searchsorted(begun, first, "right")
    between += np.searchsorted(ended, last) - np.searchsorted(ended, first, "right")
    lost = np.minimum(between / len(own.reads), 1.0) * wave > room
    shared = sum(each.pieces for each in sharing.shared) / sharing.reads
    return max(0.0, 1 - shared) * float(lost.mean())


def _awaited_bytes(sharing: Sharing, unit: int, concurrent: int, first_wave: float, room: float) -> float:
    """Return the bytes that a block reads and waits for until they come from DRAM.

    Blocks that run together read the data that they share at the same time, if they do at about the same place of their
    program. They wait for DRAM together, unless a block of an earlier wave has left the data in the L2. Of data that
    blocks read at different times, only the first one waits. The share `first_wave` of the blocks has no wave before.
    """
    awaited = sharing.reads
    for each in sharing.shared:
        is_near = each.lag * (sharing.reads + sharing.writes) * unit <= room
        near = min(1.0, each.lag / concurrent) if is_near else 0.0
        far = 1 - first_wave if sharing.wave * unit <= room else near
        left = (far * each.earlier + near * (each.pieces - each.earlier)) / max(1, each.pieces)
        apart = 1.0 if is_near else max(0.0, 1 - each.lag / concurrent)
        awaited -= left * each.together + max(left, apart) * (each.pieces - each.together)
    return max(0.0, awaited) * unit


def _least_read(footprints: Footprints) -> float:
    """Return the bytes of the arrays that the sampled blocks read, as far as all blocks can read them."""
    launch, unit = footprints.trace.launch, footprints.unit
    total = 0.0
    for array in launch.arrays:
        total += min(array.bytes, max(footprints.read_of(array)) * unit * launch.blocks)
    return total
