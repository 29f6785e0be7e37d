"""Add the accesses of spilled registers, which a trace does not have, to the work, traffic and latency of a launch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.timing.latency import Phase
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import WARP, Launch, Work

_WORD_BYTES = 4
"""Bytes of a register; the lanes of a warp have theirs side by side in local memory, in one line."""


def with_spills(work: Work, spills: tuple[float, float], sector: int) -> Work:
    """Return the work of a block, with the loads and the stores of spilled registers (`Trace.spills`)."""
    if not any(spills):
        return work
    counts = dict(zip(("load_local", "store_local"), spills, strict=True))
    sectors = {name: count * WARP * _WORD_BYTES / sector for name, count in counts.items()}
    return work + Work(
        blocks=0, warps=0, instructions=counts, requests=counts, tag_lookups=counts, sectors=sectors,
        has_arithmetic=work.has_arithmetic, has_shared=work.has_shared,
    )  # fmt: skip


def add_spill_traffic(
    traffic: LaunchTraffic, launch: Launch, gpu: GPU, accesses: Sequence[float], frame: int
) -> LaunchTraffic:
    """Return the traffic of a launch with that of spilled registers, whose stores it has on the way to the L2.

    `accesses` are the loads and the stores of an average block, and `frame` are the bytes of a thread in which they
    lie. Loads miss in an L1 that does not serve local memory, or is smaller than the frames of the threads of its SM.
    Loads and stores miss in an L2 that is smaller than those of all SMs. Data whose home is another partition of the L2
    are in that of the SM, too.
    """
    if not frame:
        return traffic
    fitted = fit_to_launch(gpu, launch)
    resident = min(compute_occupancy(launch, fitted).blocks, -(-launch.blocks // gpu.sms))
    frames = frame * launch.block_threads * resident
    loads, stores = (count * WARP * _WORD_BYTES * launch.blocks for count in accesses)
    reads = loads * (cyclic_miss_share(frames / fitted.l1.size) if "local" in gpu.l1.caches else 1.0)
    places = 2 - 1 / gpu.l2.partitions
    beyond = cyclic_miss_share(places * frames * min(gpu.sms, launch.blocks) / (gpu.l2.size * gpu.l2.slices))
    found: LaunchTraffic = replace(
        traffic,
        l2_read_bytes=traffic.l2_read_bytes + reads,
        dram_bytes=traffic.dram_bytes + (reads + stores) * beyond,
        dram_written_bytes=traffic.dram_written_bytes + stores * beyond,
    )
    return found


def cyclic_miss_share(size: float) -> float:
    """Return the share of accesses that miss, for data that are passed over again and again, of `size` capacities.

    A cache that replaces at random keeps a line until its next use with probability exp(-m x), if a share m of the
    accesses to data of x capacities miss: m = 1 - exp(-m x), which is 0 up to x = 1.
    """
    if size <= 1.0:
        return 0.0
    from scipy.special import lambertw  # loading it takes longer than most estimates

    return float(1.0 + lambertw(-size * math.exp(-size)).real / size)


def phases_of_spills(spills: tuple[float, float], warps: int, latency: float) -> list[Phase]:
    """Return the time in which a warp waits for its spilled registers, as a phase of its own; none without spills.

    A thread spills since it has no register left, so that it loads a value when it needs it, and waits for it. The wait
    is that for a hit even if its data have left the L1: the assembler moves these loads ahead as far as it can.
    """
    loads, stores = (count / warps for count in spills)
    return [Phase(loads * latency + stores, loads + stores, 0.0)] if loads or stores else []
