"""Estimate the traffic of a launch from one SM, and from a few blocks and those before them in the grid.

The L1 is modelled for the first blocks of one SM. Data that an SM reads from the L2 come from DRAM unless an earlier
block has brought them in: one that runs at the same time, or one since which the L2 has not been filled with other
data. A block shares data with its neighbours in the grid, so it suffices to look at these (docs/time.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.timing.traffic import LaunchTraffic, fetching_share, missing_share
from rdmodel.trace import Columns, Op, Space, Trace, Work
from rdmodel.trace.splitting import split_block

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
    prediction = predict(trace, gpu, **{"threads": threads, "histogram": False, "model_sms": 1, **options})
    modelled = sum(sm.blocks for sm in prediction.per_sm)
    missed = (prediction.misses.total + prediction.bypassed_sectors) * gpu.l1.sector_bytes
    read = missed * launch.blocks / max(1, modelled)
    stored = sum(work.scaled(1).sectors[name] for name in STORES) * gpu.l1.sector_bytes * launch.blocks
    footprints = _Footprints(trace, gpu.l2_fetch_bytes)
    places = sorted({_place(launch.grid, share) for share in PLACES})
    # Data that all SMs read fill each partition of the L2.
    room = gpu.l2.slices * gpu.l2.size / gpu.l2.partitions
    concurrent = min(launch.blocks, gpu.sms * resident)
    fresh = [_fresh_bytes(footprints, place, concurrent, room) for place in places]
    awaited = float(np.mean([_awaited_bytes(footprints, place, concurrent, room) for place in places]))
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


class Footprint(NamedTuple):
    """The distinct pieces of global memory that a block reads, and those that it writes, sorted."""

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]


class _Footprints:
    """The footprints of blocks in pieces of `unit` bytes; each block is made once."""

    def __init__(self, trace: Trace, unit: int) -> None:
        self.trace, self.unit = trace, unit
        self.known: dict[int, Footprint] = {}

    def of(self, block: int) -> Footprint:
        if block not in self.known:
            parts = [_footprint(columns, self.unit) for _, columns in split_block(self.trace, block)]
            empty = np.zeros(0, np.int64)
            reads = np.unique(np.concatenate([empty, *(part.reads for part in parts)]))
            writes = np.unique(np.concatenate([empty, *(part.writes for part in parts)]))
            self.known[block] = Footprint(reads, writes)
        return self.known[block]

    def held(self, pieces: NDArray[np.int64], block: int) -> int:
        """Return how many of some pieces a block reads; 0 if there is no such block."""
        if block < 0 or not len(pieces):
            return 0
        return len(np.intersect1d(pieces, self.of(block).reads, assume_unique=True))


def _footprint(columns: Columns, unit: int) -> Footprint:
    lanes = np.diff(columns.address_start)
    behind = np.isin(columns.space, (int(Space.GLOBAL), int(Space.TEXTURE)))
    pieces = columns.addresses // unit
    loads = np.repeat(behind & (columns.op != int(Op.STORE)), lanes)
    stores = np.repeat(behind & (columns.op != int(Op.LOAD)), lanes)
    return Footprint(np.unique(pieces[loads]), np.unique(pieces[stores]))


def _place(grid: Sequence[int], share: float) -> int:
    x, y, z = (min(n - 1, int(share * n)) for n in grid)
    return x + grid[0] * (y + grid[1] * z)


def _fresh_bytes(footprints: _Footprints, block: int, concurrent: int, room: float) -> float:
    """Return the bytes that a block reads and that no earlier block has left in the L2, as an expected value."""
    x, y, _ = footprints.trace.launch.grid
    unit, (left, writes) = footprints.unit, footprints.of(block)
    fresh = float(len(left))
    for lag in sorted({1, x, x * y}):
        if lag > block or not len(left):
            continue
        # Blocks that run together share data. Of those before, data are left until the room is filled with others.
        share = 1.0 if lag * (fresh + len(writes)) * unit <= room else max(0.0, 1 - lag / concurrent)
        if share:
            remaining = np.setdiff1d(left, footprints.of(block - lag).reads, assume_unique=True)
            fresh -= share * (len(left) - len(remaining))
            left = remaining
    return max(0.0, fresh) * unit


class _Shared(NamedTuple):
    """Pieces that a block shares with the block `lag` before it, and those of them that a wave before had, too.

    `sharers` blocks of a wave share them.
    """

    lag: int
    pieces: int
    earlier: int
    sharers: float


def _awaited_bytes(footprints: _Footprints, block: int, concurrent: int, room: float) -> float:
    """Return the bytes that a block reads and that no block of an earlier wave has left in the L2.

    Blocks that run together read the data that they share at about the same time, and wait for DRAM together.
    """
    unit, own = footprints.unit, footprints.of(block)
    first_wave = min(1.0, concurrent / footprints.trace.launch.blocks)
    shared = _shared(footprints, block, concurrent)
    alone = len(own.reads) - sum(each.pieces for each in shared)
    wave = concurrent * (alone + len(own.writes) + sum(each.pieces / each.sharers for each in shared))
    awaited = float(len(own.reads))
    for each in shared:
        is_near = each.lag * (len(own.reads) + len(own.writes)) * unit <= room
        near = min(1.0, each.lag / concurrent) if is_near else 0.0
        far = 1 - first_wave if wave * unit <= room else near
        awaited -= far * each.earlier + near * (each.pieces - each.earlier)
    return max(0.0, awaited) * unit


def _shared(footprints: _Footprints, block: int, concurrent: int) -> list[_Shared]:
    """Return what a block shares with the blocks before it in each dimension of the grid, each piece once."""
    x, y, z = footprints.trace.launch.grid
    left, found = footprints.of(block).reads, []
    extents = {1: (x, block % x), x: (y, block // x % y), x * y: (z, block // (x * y))}
    for lag, (extent, before) in sorted(extents.items()):
        if lag > block or not len(left):
            continue
        pieces = np.intersect1d(left, footprints.of(block - lag).reads, assume_unique=True)
        left = np.setdiff1d(left, pieces, assume_unique=True)
        earlier = lag * -(-concurrent // lag)
        held = footprints.held(pieces, block - earlier)
        together = min(before, max(1, concurrent // lag - 1))  # blocks before, in this dimension and this wave
        share = footprints.held(pieces, block - lag * together) / max(1, len(pieces))
        sharers = 1 + share * (min(extent, max(1.0, concurrent / lag)) - 1)
        found.append(_Shared(lag, len(pieces), held, sharers))
    return found


def _least_read(footprints: _Footprints) -> float:
    """Return the bytes of the arrays that the sampled blocks read, as far as all blocks can read them."""
    launch, unit = footprints.trace.launch, footprints.unit
    total = 0.0
    for array in launch.arrays:
        ends = array.base // unit, -(-(array.base + array.bytes) // unit)
        most = max(int(np.diff(np.searchsorted(each.reads, ends))[0]) for each in footprints.known.values())
        total += min(array.bytes, most * unit * launch.blocks)
    return total
