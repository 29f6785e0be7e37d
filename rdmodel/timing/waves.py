"""Compute the time of a grid: full waves of resident blocks, and the tail behind them (docs/time.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import mul

from rdmodel.common.late_dataclass import dataclass
from rdmodel.timing.demands import DRAM, MATRIX_FACTORS, MATRIX_UNITS, Demand
from rdmodel.timing.latency import Phase
from rdmodel.timing.queue import solve_queues
from rdmodel.timing.uneven import WarpLoads

LOCAL_STAGES = ("core",)
"""Stages that serve the instructions between accesses to global memory."""


@dataclass(frozen=True, slots=True)
class Block:
    """An average block of a launch: its warps, the `phases` of some of them, and the demands by active SMs.

    `barriers` tells whether its warps wait for each other, and `weights` how many warps each of those stands for. If
    a block is known to take `crowding` times as long with `resident` blocks on its SM, it waits for nothing else there.
    Data from DRAM are there `dram_latency` cycles after a load. `loads` tell how its warps differ (None: not at all).
    """

    warps: int
    phases: Sequence[Sequence[Phase]]
    demands: Callable[[int], Sequence[Demand]]
    barriers: bool
    weights: Sequence[float] = (1.0,)
    resident: int = 1
    crowding: float | None = None
    dram_latency: float = 0.0
    loads: WarpLoads | None = None

    def crowded(self, resident: int) -> float:
        """Return how many times as long the block takes with so many blocks on its SM: in proportion to the others."""
        if self.crowding is None or self.resident <= 1:
            return 1.0
        return 1.0 + (self.crowding - 1.0) * min(1.0, (resident - 1) / (self.resident - 1))


@dataclass(frozen=True, slots=True)
class GridTime:
    """Cycles of a grid, those after its last full wave, the number of full waves, and the cycles of latency alone."""

    cycles: float
    tail: float
    waves: int
    latency: float


def time_of_grid(block: Block, blocks: int, sms: int, resident: int, longest: float = 1.0) -> GridTime:
    """Return the time of `blocks` blocks, of which `resident` fit on each of `sms` SMs at a time.

    The last wave ends with its longest block, which takes `longest` times as long as an average one.
    """
    waves, rest = divmod(blocks, sms * resident)
    cycles = latency = last = idle = 0.0
    if waves:
        last, alone = time_of_wave(block, resident, sms)
        cycles, latency = waves * last, waves * alone
        idle = idle_at_ends(block, resident, sms, last, alone)
    tail = 0.0
    if rest:
        active = min(sms, rest)
        together = -(-rest // active)
        tail, alone = time_of_wave(block, together, active)
        last = tail
        cycles += tail
        latency += alone
        if not waves:
            idle = idle_at_ends(block, together, active, tail, alone)
    longer = (longest - 1) * last
    return GridTime(cycles + idle + longer, tail + longer, waves, latency)


def idle_at_ends(block: Block, resident: int, active: int, wave: float, alone: float) -> float:
    """Return the cycles for which the DRAM has nothing to do when a grid begins and when it ends.

    No data are asked for before the first load, and none after the last one, which a block waits for: together, these
    are the latency of one load. If blocks leave the DRAM idle anyway, some of that is in the time of a wave already.
    """
    busy = sum(demand.cycles for demand in block.demands(active) if demand.name == DRAM) * resident
    return max(0.0, min(alone, block.dram_latency) - (wave - busy))


def time_of_wave(block: Block, resident: int, active: int) -> tuple[float, float]:
    """Return the cycles for `resident` blocks on each of `active` SMs, and those of one block alone.

    Without barriers, warps circulate on their own. With them, blocks do: their warps pass each phase together, as
    customers of the SM that are alone on it.
    """
    average = block.demands(active)
    loads = block.loads or WarpLoads.even(block.warps)
    demands = on_whole_warps(average, loads, resident)
    together = block.warps if block.barriers else 1
    customers = resident * block.warps / together
    share = together / block.warps
    own = [
        Demand(d.name, d.stage, d.cycles * share, max(1.0, d.copies / together) if d.copies > 1 else d.copies)
        for d in demands
    ]
    lonely = on_whole_warps(average, loads, 1) if block.barriers else average
    # What the warps of a block with known crowding wait for on the SM is in their time already.
    queued = block.barriers and block.crowding is None
    each = [time_alone(phases, lonely, block.warps, together, queued) for phases in block.phases]
    alone = sum(map(mul, each, block.weights)) / sum(block.weights)
    if queued:
        chains = [sum(phase.cycles for phase in phases) for phases in block.phases]
        alone = max(alone, loads.path * sum(map(mul, chains, block.weights)) / sum(block.weights))
    # A customer is at least as long at a copy of a resource as the resource serves it.
    alone = max([alone, *(d.cycles * d.copies for d in own)])
    if block.crowding is None:
        return customers / solve_queues(own, customers, alone).throughput, alone
    outside = [d for d in own if d.copies < 1]
    flow = solve_queues(outside, customers, alone * block.crowded(resident))
    busiest = max(d.cycles for d in own)
    return max(customers / flow.throughput, customers * busiest), alone


def on_whole_warps(demands: Sequence[Demand], loads: WarpLoads, blocks: int) -> list[Demand]:
    """Return the demands of `blocks` resident blocks with the copies that are as busy as the busiest one."""
    busy = {copies: loads.sub_cores(blocks, int(copies)) for copies in {d.copies for d in demands} if copies > 1}
    found = []
    for demand in demands:
        copies = busy.get(demand.copies, demand.copies)
        found.append(replace(demand, cycles=demand.cycles * demand.copies / copies, copies=copies))
    return found


def time_alone(
    phases: Sequence[Phase], demands: Sequence[Demand], warps: int, together: int, queued: bool = False
) -> float:
    """Return the cycles of `together` warps (one, or all `warps` of a block) that are alone and wait at barriers.

    If they are `queued`, they are the customers of a closed network in each phase: on the SM, they wait for each other
    as its blocks do. A phase has a share of the demands: of a kind of unit that of the instructions which need it, of
    the sub-cores otherwise that of all its instructions, and behind them that of its accesses.
    """
    gaps = sum(phase.gaps for phase in phases)
    accesses = sum(phase.accesses for phase in phases)
    units: dict[str, float] = {}
    for phase in phases:
        for name, cycles in phase.units:
            units[name] = units.get(name, 0.0) + cycles
    # Where it is known which phases have products, their cycles include the demand.
    included = (MATRIX_UNITS, MATRIX_FACTORS) if any(phase.products for phase in phases) else ()
    left = [demand for demand in demands if demand.name not in included]
    total = 0.0
    for phase, times in Counter(phases).items():
        shares = {name: cycles / units[name] for name, cycles in phase.units if units[name]}
        instructions = phase.gaps / gaps if gaps else 0.0
        behind = phase.accesses / accesses if accesses else 0.0
        own = [
            replace(
                demand,
                cycles=demand.cycles / warps * shares.get(demand.name, instructions)
                if demand.stage in LOCAL_STAGES
                else demand.cycles / warps * behind,
            )
            for demand in left
        ]
        busiest = max((demand.cycles * min(1.0, demand.copies) for demand in own), default=0.0) * together
        if queued and not phase.products:
            inside = [demand for demand in own if demand.copies >= 1]
            alone = max([phase.cycles - phase.waits, *(demand.cycles * demand.copies for demand in inside)])
            waiting = together / solve_queues(inside, together, alone).throughput if alone else 0.0
            # Warps that a barrier has released together also wait together, and leave the units to nobody.
            busiest = max(busiest, waiting + phase.waits)
        total += times * max(phase.cycles, busiest)
    return total
