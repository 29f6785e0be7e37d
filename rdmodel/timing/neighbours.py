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
    fresh = [_fresh_bytes(footprints, place, min(launch.blocks, gpu.sms * resident), room) for place in places]
    written = float(np.mean([len(footprints.of(place).writes) for place in places])) * footprints.unit * launch.blocks
    dram_read = min(read, max(float(np.mean(fresh)) * launch.blocks, _least_read(footprints)))
    return LaunchTraffic(
        missing_share=missing_share(prediction),
        fetching_share=fetching_share(prediction),
        l2_read_bytes=read,
        l2_write_bytes=stored,
        dram_read_share=dram_read / read if read else 0.0,
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


def _least_read(footprints: _Footprints) -> float:
    """Return the bytes of the arrays that the sampled blocks read, as far as all blocks can read them."""
    launch, unit = footprints.trace.launch, footprints.unit
    total = 0.0
    for array in launch.arrays:
        ends = array.base // unit, -(-(array.base + array.bytes) // unit)
        most = max(int(np.diff(np.searchsorted(each.reads, ends))[0]) for each in footprints.known.values())
        total += min(array.bytes, most * unit * launch.blocks)
    return total
