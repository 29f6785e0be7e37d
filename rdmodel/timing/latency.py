"""Compute the time that a warp needs alone: the latencies of its instructions that do not overlap (docs/time.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.gpu.latency import dram_latency, unloaded_latency
from rdmodel.timing.demands import GUARDED_LOADS_SINCE, LANES, between_directions, copies_of_unit, matrix_rate
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import ALL_NEEDS, Columns, Op, Segment, Space, Trace, Work, locate_block
from rdmodel.trace.columns import slice_warps
from rdmodel.trace.conversion_units import PACKED, UNITS, by_unit, unit_of, unit_of_wide_conversions
from rdmodel.trace.moved import MovedProgram, SharedProgram
from rdmodel.trace.work import ARITHMETIC_CLASSES, MATRIX_TYPES, SHARED_ACCESSES

SAMPLED_WARPS = 4
"""Warps of a block whose instructions are followed one by one."""

ROWS_PER_WARP = 4096
"""Memory instructions of a warp that are followed; the rest is taken to be like them."""

TRIPS = 3
"""Iterations of a loop that are followed; the others are taken to be like the last one."""

WINDOW = 64
"""Bits of `needs`: an instruction waits for all loads that are further back."""

CONSTANT_LATENCY = 8.0
"""Cycles of an operand that hits the constant cache, beyond its issue (inferred)."""

CONSTANT_LOAD_LATENCY = 27.0
"""Cycles of a load that hits the constant cache (Jia et al., arXiv 1804.06826, V100)."""


TIMED_PRODUCT_FLOPS = 2048
"""Operations of the product whose latency sources give: m16n8k8 and, for each quarter of a warp, m8n8k4 of fp16."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Cycles of a load or atomic by space (`load`), of an instruction between two accesses (`gap`), of a barrier."""

    load: tuple[float, ...]
    atomic: float
    gap: float
    barrier: float


class Phase(NamedTuple):
    """Instructions of a warp up to a barrier: cycles, memory instructions, and instructions between these.

    Of these, `products` are matrix products: then the cycles include the time of the units of the sub-core. `units` has
    the demand on each kind of unit, as far as it is known which instructions these are. Of the cycles, all warps of a
    block spend `waits` at the same time on loads that they make after a barrier.
    """

    cycles: float
    accesses: float
    gaps: float
    products: float = 0.0
    units: tuple[tuple[str, float], ...] = ()
    waits: float = 0.0

    def scaled(self, factor: float) -> Phase:
        """Return the phase, executed `factor` times."""
        cycles, accesses, gaps, products = (factor * value for value in self[:4])
        units = tuple((name, factor * demand) for name, demand in self.units)
        return Phase(cycles, accesses, gaps, products, units, factor * self.waits)


def mean_latencies(
    traffic: LaunchTraffic, gpu: GPU, rates: Mapping[str, float], dram_use: float = 0.0
) -> dict[str, float]:
    """Return the cycles of an instruction by class of `Work`; and of an ``atomic``, and a ``barrier``.

    They are those without queues, except that loads wait longer for a DRAM of which the share `dram_use` is used.

    A load takes the time of its slowest transaction: that of a hit in the L1, of a hit in the L2, or of DRAM, in the
    shares that `traffic` has. Loads that follow one another (``load_alone``) never wait for data in flight.

    Added are the cycles for which instructions occupy the units of their sub-core (`unit_cycles`).
    """
    queued = dram_queue_cycles(traffic, gpu, rates, dram_use)
    hit = float(gpu.core.hit_latency)
    behind = unloaded_latency(gpu) + traffic.dram_wait_share * (dram_latency(gpu) + queued)

    def load_from(share: float) -> float:
        return hit + share * max(0.0, behind - hit)

    load, alone = load_from(traffic.missing_share), load_from(traffic.fetching_share)
    each = {
        f"{name}:{shares.pc}": load_from(share)
        for shares in traffic.load_shares
        for name, share in (("load_global", shares.missing), ("load_alone", shares.fetching))
    }
    arithmetic = {name: rates[f"{name}_latency"] for name in ("fp32", "fp16", "fp64", "int", "special", "conversion")}
    capability = compute_capability(gpu)
    return {
        **arithmetic,
        **{name: arithmetic[unit_of(name, capability)] for name in UNITS},
        "conversion_64": arithmetic[unit_of_wide_conversions(rates)],
        PACKED: arithmetic["fp32"],
        "matrix": rates["matrix_latency"],
        "branch": rates["int_latency"],
        "other": rates["int_latency"],
        "shuffle": rates["shared_latency"],
        "load_shared": rates["shared_latency"],
        "atomic_shared": rates["shared_latency"],
        "load_global": load,
        "load_alone": alone,
        "load_again": hit,
        "load_texture": load,
        "load_local": hit,
        "load_constant": CONSTANT_LATENCY,
        "load_constant_guarded": CONSTANT_LATENCY if capability < GUARDED_LOADS_SINCE else CONSTANT_LOAD_LATENCY,
        "load_constant_indexed": CONSTANT_LOAD_LATENCY,
        "atomic": behind,
        "barrier": rates["barrier_latency"],
        **each,
        **bulk_copies(traffic, gpu, rates, queued),
        **unit_cycles(gpu, rates),
    }


def dram_queue_cycles(traffic: LaunchTraffic, gpu: GPU, rates: Mapping[str, float], use: float) -> float:
    """Return the cycles by which a load from DRAM takes longer if the share `use` of what the DRAM reaches is used.

    The DRAM serves requests of a row together, and changes its direction rarely, so that each waits for others. In
    measurements of five GPUs, which RRZE-HPC/gpu-benches (gpu-stream) has, the time grows with the square of the use.
    """
    names = "dram_queue_latency", "dram_mixed_queue_latency"
    nanoseconds = between_directions(rates[names[0]], rates[names[1]], traffic.dram_written_share)
    return nanoseconds * gpu.clock / 1000 * use**2


def without_waits(latencies: Mapping[str, float]) -> dict[str, float]:
    """Return latencies with which nothing waits for data from global memory."""
    loads = ("load_global", "load_alone", "load_texture")
    return {name: 0.0 if name.partition(":")[0] in loads else cycles for name, cycles in latencies.items()}


def bulk_copies(traffic: LaunchTraffic, gpu: GPU, rates: Mapping[str, float], queued: float = 0.0) -> dict[str, float]:
    """Return the cycles of bulk copies: ``bulk`` from the L2 to the first byte, and ``bulk_byte`` for each byte.

    Shares of the lines wait longer: ``bulk_far_share`` for another partition of the L2 (``bulk_far``), and
    ``bulk_dram_share`` for DRAM (``bulk_dram``).
    """
    return {
        "bulk": unloaded_latency(gpu) + rates["bulk_latency"],
        "bulk_far": 2.0 * gpu.l2.partition_latency if gpu.l2.partitions > 1 else 0.0,
        "bulk_far_share": 1 - 1 / gpu.l2.partitions,
        "bulk_dram": dram_latency(gpu) + queued,
        "bulk_dram_share": traffic.dram_wait_share,
        "bulk_byte": 1 / rates["l2_port_bytes"],
    }


def unit_cycles(gpu: GPU, rates: Mapping[str, float]) -> dict[str, float]:
    """Return the cycles for which an instruction occupies its unit in a sub-core, by class: ``fp32_busy``.

    ``conversion_64_in_fp64`` is 1 where the units for double precision execute conversions from and to 64 bits, else 0.
    For matrix products, ``matrix_fp16_busy`` is for each operation of a product of this type. ``matrix_depth`` is the
    time from the end of the occupation to the last result. The parts of a product enter the tensor core one after the
    other, and each needs the same time in it. So the depth follows from the latency of one product. Products whose sums
    are in half precision have a depth of their own, ``matrix_depth_fp16``: a short one is taken to have the same
    latency, also where it occupies the tensor core for a shorter time.
    """
    found = {f"{name}_busy": busy_cycles({name: 1.0}, gpu, rates) for name in ARITHMETIC_CLASSES if name != "matrix"}
    found["sub_cores"] = float(gpu.core.schedulers)
    found["conversion_64_in_fp64"] = float(unit_of_wide_conversions(rates) == "fp64")
    found |= {f"matrix_{name}_busy": gpu.core.schedulers / matrix_rate(name, rates) for name in MATRIX_TYPES}
    for depth, busy in (("matrix_depth", "matrix_fp16_busy"), ("matrix_depth_fp16", "matrix_fp16_fp16_busy")):
        found[depth] = max(0.0, rates["matrix_latency"] - TIMED_PRODUCT_FLOPS * found[busy])
    return found


def loads_by_space(latencies: Mapping[str, float], gap: float) -> Latencies:
    """Return `latencies` for `follow_warps`, with `gap` cycles from an instruction to the next one."""
    names = {Space.GLOBAL: "load_global", Space.LOCAL: "load_local", Space.CONSTANT: "load_constant"}
    load = tuple(latencies[names.get(space, "load_texture")] for space in Space)
    return Latencies(load=load, atomic=latencies["atomic"], gap=gap, barrier=latencies["barrier"])


def busy_cycles(classes: Mapping[str, float], gpu: GPU, rates: Mapping[str, float]) -> float:
    """Return the cycles for which instructions of a warp occupy its sub-core: one each, or more for few lanes."""
    return sum(
        count * max(1.0, copies_of_unit(name, gpu, rates) * LANES[name] / rates[name]) if name in LANES else count
        for name, count in by_unit(classes, compute_capability(gpu)).items()
    )


def mean_gap(work: Work, latencies: Mapping[str, float], gpu: GPU, rates: Mapping[str, float]) -> float:
    """Return the mean cycles of an instruction that does not access global memory, if each needs the one before."""
    count = {name: work.instructions[name] for name in (*ARITHMETIC_CLASSES, *SHARED_ACCESSES) if name != "barrier"}
    total = sum(count.values())
    if not total:
        return latencies["int"]
    dependent = sum(number * latencies.get(name, latencies["int"]) for name, number in count.items())
    return max(dependent, busy_cycles(count, gpu, rates)) / total


def follow_warps(trace: Trace, blocks: Sequence[int], latencies: Latencies) -> Iterator[list[list[Phase]]]:
    """Yield for each block the phases of some of its warps, as if each were alone on its SM."""
    warps = trace.launch.block_warps
    chosen = sorted({int(warp) for warp in np.linspace(0, warps - 1, min(warps, SAMPLED_WARPS))})
    followed: dict[SharedProgram, list[list[Phase]]] = {}
    for block in blocks:
        source, first = locate_block(trace, block)
        if isinstance(source, Columns):
            yield [_follow_columns(slice_warps(source, first + w, first + w + 1), latencies) for w in chosen]
        elif isinstance(source, MovedProgram) and source.is_whole:
            # Blocks that differ in their addresses only need the same time.
            if source.shared not in followed:
                followed[source.shared] = _follow_program(source.shared.segments, chosen, latencies)
            yield followed[source.shared]
        else:
            yield _follow_program(source, chosen, latencies)


class _Warp:
    """The clock of a warp that is alone: it waits for the loads that it needs."""

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies
        self._ready: list[float] = []
        self._oldest = 0.0  # when the loads that have left the window are there
        self.now, self.phases = 0.0, [[0.0, 0.0, 0.0]]

    def run(self, op: int, space: int, gap: int, needs: int) -> None:
        """Execute the instructions before an access, wait for the loads that it needs, and start it."""
        latencies, phase = self._latencies, self.phases[-1]
        begun = self.now
        self.now += gap * latencies.gap
        phase[2] += gap
        if op == Op.BARRIER:
            self.now = max([self.now, self._oldest, *self._ready]) + latencies.barrier
            phase[0] += self.now - begun
            self.phases.append([0.0, 0.0, 0.0])
            return
        if needs == ALL_NEEDS:
            self.now = max([self.now, self._oldest, *self._ready])
        elif needs:
            waited = [self._ready[-1 - bit] for bit in _bits(needs) if bit < len(self._ready)]
            self.now = max([self.now, self._oldest, *waited])
        self.now += 1.0
        wait = latencies.load[space] if op == Op.LOAD else latencies.atomic if op == Op.ATOMIC else 0.0
        self._ready.append(self.now + wait if wait else 0.0)
        if len(self._ready) > WINDOW:
            self._oldest = max(self._oldest, self._ready.pop(0))
        phase[0] += self.now - begun
        phase[1] += 1

    def skip(self, factor: float, phases: int, before: Sequence[float]) -> None:
        """Let what was run since `before`, at `phases`, happen another `factor` times."""
        for at in range(phases, len(self.phases)):
            self.phases[at] = [value * (1 + factor) for value in self.phases[at]]
        last = self.phases[phases - 1]
        for place, value in enumerate(before):
            last[place] += (last[place] - value) * factor

    def finish(self, scale: float = 1.0) -> list[Phase]:
        """Wait for all loads, and return the phases, each `scale` times as long."""
        end = max([self.now, self._oldest, *self._ready])
        self.phases[-1][0] += end - self.now
        return [Phase(cycles, accesses, gaps).scaled(scale) for cycles, accesses, gaps in self.phases]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _follow_columns(columns: Columns, latencies: Latencies) -> list[Phase]:
    warp, rows = _Warp(latencies), len(columns)
    followed = min(rows, ROWS_PER_WARP)
    parts = (columns.op, columns.space, columns.gap, columns.needs)
    for op, space, gap, needs in zip(*(part[:followed].tolist() for part in parts), strict=True):
        warp.run(op, space, gap, needs)
    return warp.finish(rows / followed if followed else 1.0)


def _follow_program(program: Sequence[Segment], warps: Sequence[int], latencies: Latencies) -> list[list[Phase]]:
    """Return the phases of some warps; those that execute the same instructions with the same needs share a list."""
    followed: dict[tuple[bytes, ...], list[Phase]] = {}
    phases = []
    for warp in warps:
        places = [np.flatnonzero(segment.mask[warp]) for segment in program]
        needs = [segment.needs[warp, at] for segment, at in zip(program, places, strict=True)]
        key = *(at.tobytes() for at in places), *(each.tobytes() for each in needs)
        if key not in followed:
            followed[key] = _follow_warp(program, places, needs, latencies)
        phases.append(followed[key])
    return phases


def _follow_warp(
    program: Sequence[Segment],
    places: Sequence[NDArray[np.intp]],
    needs: Sequence[NDArray[np.uint64]],
    latencies: Latencies,
) -> list[Phase]:
    """Return the phases of a warp that executes the instructions at `places` of each segment, which have `needs`."""
    warp = _Warp(latencies)
    for segment, at, of_each in zip(program, places, needs, strict=True):
        parts = (segment.op[at], segment.space[at], segment.gap[at], of_each)
        rows = list(zip(*(part.tolist() for part in parts), strict=True))
        followed = min(segment.trips, TRIPS)
        for trip in range(followed):
            phases, before = len(warp.phases), list(warp.phases[-1])
            for row in rows:
                warp.run(*row)
            if trip == followed - 1 and rows:
                warp.skip(segment.trips - followed, phases, before)
    return warp.finish()
