"""Estimate the time of a launch: the function `time` (docs/time.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rdmodel import presets
from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.estimation.estimate import estimate
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.gpu.latency import dram_latency, unloaded_latency
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import with_registers
from rdmodel.model.machine_options import complete_options
from rdmodel.timing.clock import clock_share, with_clock_share
from rdmodel.timing.demands import DRAM, MATRIX_UNITS, compute_demands, cycles_of_units
from rdmodel.timing.latency import (
    Phase,
    busy_cycles,
    follow_warps,
    loads_by_space,
    mean_gap,
    mean_latencies,
    without_waits,
)
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.timing.passes import count_passes
from rdmodel.timing.spills import add_spill_traffic, phases_of_spills, with_spills
from rdmodel.timing.traffic import LaunchTraffic, traffic_of
from rdmodel.timing.uneven import WarpLoads, warp_loads
from rdmodel.timing.values import LATENCY, LAUNCH, TimeEstimate
from rdmodel.timing.waves import Block, time_of_grid
from rdmodel.trace import Launch, Trace, Work
from rdmodel.trace.check import check_trace
from rdmodel.trace.conversion_units import by_unit
from rdmodel.trace.counting import work_of_block

Caches = Literal["auto", "estimate", "sample"]

EDGE_SHARE = 0.005
"""Share of the grid above which the blocks of its last row or column are looked at apart."""

Chains = list[tuple[float, Mapping[str, float], float]]
"""The pieces of code of a block (`Trace.chains`)."""

LEAST_USE, USE_ERROR, USE_STEPS = 0.2, 0.02, 4
"""Use of the DRAM below which loads do not wait for it, error of the use, and steps in which it is looked for."""

TIMED_BLOCKS = 3
"""Blocks whose work is counted, unless the caller gives another number."""


def time(
    trace: Trace,
    gpu: str | GPU | None = None,
    *,
    sample: int = TIMED_BLOCKS,
    caches: Caches = "auto",
    work: float | None = 150_000,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> TimeEstimate:
    """Estimate the time of a kernel launch on a GPU, and name the resource that binds it.

    The instructions of some blocks are counted, and the traffic of the caches is estimated from excerpts of the grid.
    The time then follows from the rates of the GPU: it is at least that of each resource, and at least that of a warp
    alone. It takes seconds at most, but for blocks that take longer to make.

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    gpu : str or GPU, optional
        Name of a preset, path of a ``.toml`` file, or a `GPU`; by default `presets.DEFAULT_GPU`.
    sample : int
        Number of blocks whose work is counted, spread evenly over the grid.
    caches : "auto", "estimate" or "sample"
        Source of the traffic. "estimate": `rdmodel.estimate`. "sample": two waves of one SM, and a few blocks with
        their neighbours, where blocks take long to make. "auto": "estimate" for files and loop nests, otherwise
        "sample".
    work : float or None
        Transactions from which the caches are estimated (`rdmodel.estimate`).
    seed : int
        Seed of the model's random numbers.
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all, while the caches are estimated.
    **options
        Options of `rdmodel.estimate`, except `l2`.

    Returns
    -------
    TimeEstimate
        Cycles, milliseconds, and the terms that explain them.

    Raises
    ------
    ConfigError
        If an option is unknown or has a bad value, or the compute capability of the GPU is unknown.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If `trace` is not a `Trace`, or lacks a block.
    """
    check_trace(trace)
    check_int("sample", sample, 1)
    check_choice("caches", caches, Caches)
    if "l2" in options:
        raise ConfigError("l2: not an option of time, which needs the traffic of the L2")
    machine = presets.gpu_or_default(gpu, [])
    presets.rates_of(machine)
    options = complete_options(machine, {"seed": seed, **options})
    trace, registers = with_registers(trace, machine)
    counted = count_sampled_blocks(trace, machine, sample)
    if caches == "auto":
        caches = "sample" if samples_caches(trace) else "estimate"
    if caches == "sample":
        resident = compute_occupancy(trace.launch, fit_to_launch(machine, trace.launch)).blocks
        traffic = sample_traffic(trace, machine, counted.average, resident, options)
    else:
        traffic = traffic_of(estimate(trace, machine, l2=True, work=work, progress=progress, **options))
    found = time_from_counts(trace, machine, traffic, counted)
    return replace(found, launch=trace.number, registers=registers)


def samples_caches(trace: Trace) -> bool:
    """Return whether `time` takes the traffic of the caches from a few blocks, because blocks take long to make."""
    return not trace.stored and trace.shortened(1.0) is None


@dataclass(frozen=True, slots=True)
class CountedBlocks:
    """Some blocks of a launch: the number of each, the number of blocks that it stands for (`weights`), its work.

    `passes` are the passes of each over the banks of the L1 (`rdmodel.timing.passes`). `spills` are the loads and the
    stores of spilled registers (`Trace.spills`), which works and passes include; a thread has these in `spill_frame`
    bytes. A multiply-add waits for its operands for `operand_stalls` cycles (`Trace.operand_stalls`). `loads` tell
    how the warps of each differ (`rdmodel.timing.uneven`).
    """

    blocks: Sequence[int]
    weights: Sequence[float]
    works: Sequence[Work]
    passes: Sequence[float]
    spills: Sequence[tuple[float, float]]
    loads: Sequence[WarpLoads]
    spill_frame: int = 0
    operand_stalls: float = 0.0

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean of a number of each block over the blocks of the launch."""
        return float(np.average(values, weights=self.weights))

    @property
    def average(self) -> Work:
        """The work of an average block of the launch."""
        total = self.works[0].scaled(self.weights[0])
        for work, weight in zip(self.works[1:], self.weights[1:], strict=True):
            total += work.scaled(weight)
        return total.scaled(1)

    @property
    def longest(self) -> float:
        """Instructions of the longest block, relative to the mean of all."""
        issued = [work.issued for work in self.works]
        mean = self.mean(issued)
        return max(issued) / mean if mean else 1.0


def count_sampled_blocks(trace: Trace, gpu: GPU, sample: int = TIMED_BLOCKS) -> CountedBlocks:
    """Return the work of about `sample` blocks (`choose_blocks`)."""
    l1, capability = gpu.l1, compute_capability(gpu)
    chosen = choose_blocks(trace, sample)
    works, passes, spills, loads = [], [], [], []
    for block in chosen:  # one after the other, since a trace may keep its last block
        work = work_of_block(trace, block, line=l1.line, sector=l1.sector_bytes, request_bytes=l1.request_bytes)
        spills.append(trace.spills(block, capability))
        works.append(with_spills(work, spills[-1], l1.sector_bytes))
        passes.append(count_passes(trace, block) + sum(spills[-1]))
        loads.append(warp_loads(trace, block))
    frame = trace.spill_frame(capability)
    stalls = trace.operand_stalls(capability)
    return CountedBlocks(list(chosen), list(chosen.values()), works, passes, spills, loads, frame, stalls)


def choose_blocks(trace: Trace, sample: int) -> dict[int, float]:
    """Return the blocks to count, each with the number of blocks that it stands for.

    `sample` blocks are spread evenly over the inner part of the grid. The last column of blocks and the last row, whose
    blocks may have less to do, have one of their own if they are more than `EDGE_SHARE` of the grid.
    """
    held = trace.blocks
    assert held is not None
    x, y, z = trace.launch.grid
    edges = trace.launch.blocks * EDGE_SHARE
    inner_x, inner_y = x - (x > 1 and y * z > edges), y - (y > 1 and x * z > edges)
    if len(held) < trace.launch.blocks or (inner_x, inner_y) == (x, y):
        places = _spread(len(held), sample)
        return dict.fromkeys((int(held[place]) for place in places), len(held) / len(places))
    found: dict[int, float] = {}
    for columns, rows in (
        (range(inner_x), range(inner_y)),
        (range(inner_x, x), range(inner_y)),
        (range(x), range(inner_y, y)),
    ):
        n = len(columns) * len(rows) * z
        places = _spread(n, sample if columns.start == 0 and rows.start == 0 else 1) if n else []
        for place in places:
            layer, rest = divmod(place, len(columns) * len(rows))
            row, column = divmod(rest, len(columns))
            block = columns[column] + x * (rows[row] + y * layer)
            found[block] = found.get(block, 0.0) + n / len(places)
    return found


def _spread(n: int, sample: int) -> list[int]:
    """Return up to `sample` of the numbers below `n`, the middles of parts of equal length."""
    inner = np.linspace(0, n, min(sample, n) + 1)
    return sorted({int(place) for place in (inner[:-1] + inner[1:]) / 2})


@dataclass(frozen=True, slots=True)
class LaunchParts:
    """Everything from which the time of a launch follows: `traffic`, and of an average block the rest.

    `phases` has the pieces of some warps (`rdmodel.timing.latency.Phase`), of which each stands for `weights` warps.
    `crowding` is that of `Trace.crowding`, for as many blocks as are resident on an SM. A multiply-add waits for its
    operands for `operand_stalls` cycles. `loads` tell how its warps differ (None: not at all).
    """

    launch: Launch
    traffic: LaunchTraffic
    work: Work
    passes: float
    longest: float
    phases: Sequence[Sequence[Phase]]
    weights: Sequence[float]
    crowding: float | None = None
    operand_stalls: float = 0.0
    loads: WarpLoads | None = None


def time_from_counts(trace: Trace, gpu: GPU, traffic: LaunchTraffic, counted: CountedBlocks) -> TimeEstimate:
    """Return the time of a launch from the traffic of its whole grid, and the work of some blocks."""
    return settle(lambda use: parts_of(trace, gpu, traffic, counted, use), gpu)


def settle(parts: Callable[[float], LaunchParts], gpu: GPU) -> TimeEstimate:
    """Return the time of a launch, whose `parts` depend on the share of the DRAM that is used.

    Loads wait for a DRAM that is used, whose use depends on how long they wait. So the use is that of the time which
    follows from it: it lies between that with the wait for the use of an idle DRAM, and the latter.
    """
    found = time_from_parts(parts(0.0), gpu)
    most = use = dram_use(found)
    least = 0.0
    for _ in range(USE_STEPS):
        if use < LEAST_USE or most - least < USE_ERROR or not found.traffic.dram_wait_share:
            break
        found = time_from_parts(parts(use), gpu)
        then = dram_use(found)
        least, most = (max(least, then), use) if then < use else (use, min(most, then))
        use = (least + most) / 2
    return found


def dram_use(found: TimeEstimate) -> float:
    """Return the share of the time of the blocks of a launch for which the DRAM is used."""
    blocks = found.cycles - found.terms[LAUNCH]
    return found.terms[DRAM] / blocks if blocks else 0.0


class CountedLaunch:
    """A launch whose times follow from several estimates of its traffic: its work is counted for the first of them."""

    def __init__(self, trace: Trace, gpu: GPU) -> None:
        self.trace, self._gpu = trace, gpu

    @cached_property
    def _counted(self) -> CountedBlocks:
        return count_sampled_blocks(self.trace, self._gpu)

    def time(self, traffic: LaunchTraffic) -> TimeEstimate:
        """Return the time of the launch with this traffic of its whole grid."""
        return time_from_counts(self.trace, self._gpu, traffic, self._counted)


def parts_of(trace: Trace, gpu: GPU, traffic: LaunchTraffic, counted: CountedBlocks, use: float = 0.0) -> LaunchParts:
    """Return the parts from which the time of a launch follows, if the share `use` of the DRAM is used."""
    rates, _ = presets.rates_of(gpu)
    passes = counted.mean(counted.passes)
    latencies = mean_latencies(traffic, gpu, rates, use)
    chains, crowding = _chains(trace, counted, latencies, gpu)
    together = _waits_at_barriers(trace.launch, counted.average) and crowding is None
    released = _chains(trace, counted, without_waits(latencies), gpu)[0] if together else chains
    phases, weights = _phases(trace, counted, chains, released, latencies, gpu, rates)
    accesses = [counted.mean(numbers) for numbers in zip(*counted.spills, strict=True)]
    traffic = add_spill_traffic(traffic, trace.launch, gpu, accesses, counted.spill_frame)
    return LaunchParts(
        trace.launch, traffic, counted.average, passes, counted.longest, phases, weights, crowding,
        counted.operand_stalls, WarpLoads.mean(counted.loads, counted.weights),
    )  # fmt: skip


def resident_blocks(launch: Launch, gpu: GPU) -> int:
    """Return the blocks of a launch that are on an SM at a time, if all SMs have as many."""
    return min(compute_occupancy(launch, fit_to_launch(gpu, launch)).blocks, -(-launch.blocks // gpu.sms))


def time_from_parts(parts: LaunchParts, gpu: GPU) -> TimeEstimate:
    """Return the time of a launch from its parts.

    If tensor cores are often busy, it is the time at the lower clock that the GPU then has.
    """
    found = _time_at_clock(parts, gpu)
    rates, _ = presets.rates_of(gpu)
    used = found.terms[MATRIX_UNITS] / found.cycles if found.cycles else 0.0
    slower = with_clock_share(gpu, clock_share(used, rates))
    return found if slower is gpu else _time_at_clock(parts, slower)


def _time_at_clock(parts: LaunchParts, gpu: GPU) -> TimeEstimate:
    rates, _ = presets.rates_of(gpu)
    launch, work, traffic = parts.launch, parts.work, parts.traffic
    occupancy = compute_occupancy(launch, fit_to_launch(gpu, launch))
    resident = resident_blocks(launch, gpu)
    block = Block(
        warps=launch.block_warps,
        phases=parts.phases,
        weights=parts.weights,
        demands=lambda active: compute_demands(
            work, parts.passes, traffic, gpu, rates, launch.blocks, active, parts.operand_stalls
        ),
        barriers=_waits_at_barriers(launch, work),
        resident=resident,
        crowding=parts.crowding,
        loads=parts.loads,
        dram_latency=unloaded_latency(gpu) + dram_latency(gpu),
    )
    found = time_of_grid(block, launch.blocks, gpu.sms, resident, parts.longest)
    active = min(gpu.sms, launch.blocks)
    terms = {d.name: d.cycles * launch.blocks / active for d in block.demands(active)}
    beside = rates["launch_latency"] * gpu.clock
    cycles = found.cycles + beside
    return TimeEstimate(
        kernel=launch.kernel,
        gpu=gpu.name,
        cycles=cycles,
        clock=gpu.clock,
        terms={**terms, LATENCY: found.latency, LAUNCH: beside},
        resident_blocks=resident,
        resident_warps=resident * launch.block_warps,
        max_warps=gpu.max_warps,
        limiter=occupancy.limiter if resident == occupancy.blocks else "grid",
        waves=found.waves,
        tail_share=found.tail / cycles if cycles else 0.0,
        work=work,
        traffic=traffic,
    )


def _waits_at_barriers(launch: Launch, work: Work) -> bool:
    """Return whether the warps of a block wait for each other."""
    return work.instructions["barrier"] > 0 and launch.block_warps > 1


def _chains(
    trace: Trace, counted: CountedBlocks, latencies: Mapping[str, float], gpu: GPU
) -> tuple[list[Chains | None], float | None]:
    """Return the chains of the counted blocks, and the mean of their crowding, as far as the trace knows them."""
    waits = _waits_at_barriers(trace.launch, counted.average)
    together = -(-trace.launch.block_warps // gpu.core.schedulers) if waits else 1
    resident = resident_blocks(trace.launch, gpu)
    chains, crowding = [], []
    for block in counted.blocks:  # one after the other, since a trace may keep its last block
        chains.append(trace.chains(block, latencies, together))
        crowding.append(trace.crowding(block, latencies, resident))
    known = [each for each in crowding if each is not None]
    return chains, counted.mean(known) if len(known) == len(crowding) else None


def _phases(
    trace: Trace,
    counted: CountedBlocks,
    chains: Sequence[Chains | None],
    released: Sequence[Chains | None],
    latencies: Mapping[str, float],
    gpu: GPU,
    rates: Mapping[str, float],
) -> tuple[list[list[Phase]], list[float]]:
    """Return the phases of sampled warps and their weights, from chains of instructions, or else from `needs`.

    The chains that are `released` are those of code that waits for no loads.
    """
    average = counted.average
    most = (1 + average.instructions["barrier"] / max(1.0, average.warps)) * latencies["load_alone"]
    gaps = loads_by_space(latencies, mean_gap(average, latencies, gpu, rates))
    found: list[list[Phase]] = []
    weights: list[float] = []
    alone = follow_warps(trace, [block for block, own in zip(counted.blocks, chains, strict=True) if own is None], gaps)
    warps, latency = trace.launch.block_warps, latencies["load_local"]
    for own, free, weight, spills in zip(chains, released, counted.weights, counted.spills, strict=True):
        if own is None or free is None:
            followed = next(alone)
        else:
            waits = [chain[0] - other[0] for chain, other in zip(own, free, strict=True)]
            followed = [
                [
                    _phase(*chain, gpu, rates, wait if wait <= most else 0.0)
                    for chain, wait in zip(own, waits, strict=True)
                ]
            ]
        spilled = phases_of_spills(spills, warps, latency)
        followed = [[*phases, *spilled] for phases in followed]
        found += followed
        weights += [weight / len(followed)] * len(followed)
    if any(phase.gaps or phase.accesses for phases in found for phase in phases):
        return found, weights
    issued = average.issued / max(1, average.warps)
    return [[Phase(issued * gaps.gap, 0.0, issued)]], [1.0]


def _phase(
    cycles: float,
    classes: Mapping[str, float],
    accesses: float,
    gpu: GPU,
    rates: Mapping[str, float],
    waits: float,
) -> Phase:
    products = classes.get("matrix", 0.0)
    alone = cycles if products else max(cycles, busy_cycles(classes, gpu, rates) + accesses)
    units = cycles_of_units(by_unit(classes, compute_capability(gpu)), rates)
    return Phase(alone, accesses, sum(classes.values()), products, tuple(units.items()), max(0.0, min(waits, alone)))
