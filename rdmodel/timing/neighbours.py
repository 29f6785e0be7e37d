"""Estimate the traffic of a launch from one SM, and from a few blocks and those before them in the grid.

The L1 is modelled for the first blocks of one SM. Data that an SM reads from the L2 come from DRAM unless an earlier
block has brought them in: one that runs at the same time, or one since which the L2 has not been filled with other
data. A block shares data with its neighbours in the grid, so it suffices to look at these (docs/time.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.timing.footprints import Footprints
from rdmodel.timing.traffic import LaunchTraffic, fetching_share, missing_share
from rdmodel.trace import Trace, Work

WAVES_OF_ONE_SM = 2
"""Times that the modelled SM is filled with blocks."""

PLACES = (0.37, 0.61)
"""Places of the blocks whose neighbours are looked at, as shares of the grid in each dimension: inside of it."""

UNDER_WAY = 8
"""Memory instructions of a warp that may be under way at once, so that they wait for the same data together."""

STORES = ("store_global", "atomic_global", "store_local")
"""Accesses that send data to the L2."""


def sample_traffic(trace: Trace, gpu: GPU, work: Work, resident: int, options: Mapping[str, Any]) -> LaunchTraffic:
    """Return the traffic of a launch of which `resident` blocks are on an SM at a time.

    `work` is the work of some blocks, and `options` are options of `rdmodel.predict`, whose errors are raised.
    """
    launch = trace.launch
    threads = WAVES_OF_ONE_SM * resident * launch.block_threads
    prediction = predict(trace, gpu, **{"threads": threads, "histogram": False, "model_sms": 1, **options})
    modelled = sum(sm.blocks for sm in prediction.per_sm)
    missed = (prediction.misses.total + prediction.bypassed_sectors) * gpu.l1.sector_bytes
    read = missed * launch.blocks / max(1, modelled)
    stored = sum(work.scaled(1).sectors[name] for name in STORES) * gpu.l1.sector_bytes * launch.blocks
    footprints = Footprints(trace, gpu.l2_fetch_bytes)
    places = sorted({_place(launch.grid, share) for share in PLACES})
    # Data that all SMs read fill each partition of the L2.
    room = gpu.l2.slices * gpu.l2.size / gpu.l2.partitions
    concurrent = min(launch.blocks, gpu.sms * resident)
    shared = {place: _shared(footprints, place, concurrent) for place in places}
    fresh = [_fresh_bytes(footprints, place, shared[place], concurrent, room) for place in places]
    awaited = float(np.mean([_awaited_bytes(footprints, at, shared[at], concurrent, room) for at in places]))
    needed = float(np.mean([len(footprints.of(place).reads) for place in places])) * footprints.unit
    written = float(np.mean([len(footprints.of(place).writes) for place in places])) * footprints.unit * launch.blocks
    dram_read = min(read, max(float(np.mean(fresh)) * launch.blocks, _least_read(footprints)))
    return LaunchTraffic(
        missing_share=missing_share(prediction),
        fetching_share=fetching_share(prediction),
        l2_read_bytes=read,
        l2_write_bytes=stored,
        dram_read_share=dram_read / read if read else 0.0,
        # Data that a block reads several times wait once; those that are in the L1 for another block are left out.
        dram_wait_share=max(dram_read / read, awaited / max(needed, read / launch.blocks)) if read else 0.0,
        dram_bytes=dram_read + written,
    )


def _place(grid: Sequence[int], share: float) -> int:
    x, y, z = (min(n - 1, int(share * n)) for n in grid)
    return x + grid[0] * (y + grid[1] * z)


class _Shared(NamedTuple):
    """Pieces that a block shares with the block `lag` before it, and those of them that a wave before had, too.

    `together` of the pieces are first read at about the same place of the program by both. `sharers` blocks of a wave
    share the pieces.
    """

    lag: int
    pieces: int
    together: int
    earlier: int
    sharers: float


def _shared(footprints: Footprints, block: int, concurrent: int) -> list[_Shared]:
    """Return what a block shares with the blocks before it in each dimension of the grid, each piece once."""
    x, y, z = footprints.trace.launch.grid
    own, found = footprints.of(block), []
    left, at = own.reads, own.places
    extents = {1: (x, block % x), x: (y, block // x % y), x * y: (z, block // (x * y))}
    for lag, (extent, before) in sorted(extents.items()):
        if lag > block or not len(left):
            continue
        other = footprints.of(block - lag)
        pieces, mine, theirs = np.intersect1d(left, other.reads, assume_unique=True, return_indices=True)
        together = int(np.count_nonzero(np.abs(at[mine] - other.places[theirs]) <= UNDER_WAY))
        left, at = np.delete(left, mine), np.delete(at, mine)
        earlier = footprints.held(pieces, block - lag * -(-concurrent // lag))
        last = min(before, max(1, concurrent // lag - 1))  # blocks before, in this dimension and this wave
        share = footprints.held(pieces, block - lag * last) / max(1, len(pieces))
        sharers = 1 + share * (min(extent, max(1.0, concurrent / lag)) - 1)
        found.append(_Shared(lag, len(pieces), together, earlier, sharers))
    return found


def _fresh_bytes(footprints: Footprints, block: int, shared: Sequence[_Shared], concurrent: int, room: float) -> float:
    """Return the bytes that a block reads and that no earlier block has left in the L2, as an expected value."""
    unit, own = footprints.unit, footprints.of(block)
    fresh = float(len(own.reads))
    for each in shared:
        # Blocks that run together share data. Of those before, data are left until the room is filled with others.
        is_near = each.lag * (fresh + len(own.writes)) * unit <= room
        fresh -= (1.0 if is_near else max(0.0, 1 - each.lag / concurrent)) * each.pieces
    return max(0.0, fresh) * unit


def _awaited_bytes(
    footprints: Footprints, block: int, shared: Sequence[_Shared], concurrent: int, room: float
) -> float:
    """Return the bytes that a block reads and waits for until they come from DRAM.

    Blocks that run together read the data that they share at the same time, if they do at about the same place of their
    program. They wait for DRAM together, unless a block of an earlier wave has left the data in the L2. Of data that
    blocks read at different times, only the first one waits.
    """
    unit, own = footprints.unit, footprints.of(block)
    first_wave = min(1.0, concurrent / footprints.trace.launch.blocks)
    alone = len(own.reads) - sum(each.pieces for each in shared)
    wave = concurrent * (alone + len(own.writes) + sum(each.pieces / each.sharers for each in shared))
    awaited = float(len(own.reads))
    for each in shared:
        is_near = each.lag * (len(own.reads) + len(own.writes)) * unit <= room
        near = min(1.0, each.lag / concurrent) if is_near else 0.0
        far = 1 - first_wave if wave * unit <= room else near
        left = (far * each.earlier + near * (each.pieces - each.earlier)) / max(1, each.pieces)
        apart = 1.0 if is_near else max(0.0, 1 - each.lag / concurrent)
        awaited -= left * each.together + max(left, apart) * (each.pieces - each.together)
    return max(0.0, awaited) * unit


def _least_read(footprints: Footprints) -> float:
    """Return the bytes of the arrays that the sampled blocks read, as far as all blocks can read them."""
    launch, unit = footprints.trace.launch, footprints.unit
    total = 0.0
    for array in launch.arrays:
        ends = array.base // unit, -(-(array.base + array.bytes) // unit)
        most = max(int(np.diff(np.searchsorted(each.reads, ends))[0]) for each in footprints.known.values())
        total += min(array.bytes, most * unit * launch.blocks)
    return total
