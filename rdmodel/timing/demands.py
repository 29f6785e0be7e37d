"""Compute the demands of a launch: the cycles for which each resource of an SM serves a block (docs/time.md)."""

from __future__ import annotations

from collections.abc import Mapping

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import WARP, Work
from rdmodel.trace.conversion_units import PACKED, by_unit, unit_of_wide_conversions
from rdmodel.trace.work import CONSTANT_ACCESSES, L1_ACCESSES, MATRIX_TYPES, SHARED_ACCESSES

LANES: Mapping[str, int] = {
    **dict.fromkeys(("fp32", "fp64", "int", "special", "conversion", "conversion_64"), WARP),
    "fp16": 2 * WARP,
}
"""Results of an instruction of a warp, by class: one per thread, or two if instructions are packed."""

MATRIX_UNITS = "matrix units"
"""Name of the demand of matrix products."""

BLOCK_STARTS = "block starts"
"""Name of the demand on the unit that gives blocks to SMs, one after the other for the whole GPU."""

DRAM = "DRAM"
"""Name of the demand on the memory of the GPU."""

MATRIX_FACTORS = "matrix factors"
"""Name of the demand on shared memory of products that read their factors there, and of all that it does besides."""

BANK_BYTES = 128
"""Bytes of a pass over the 32 banks of shared memory."""

NEAREST_MATRIX_RATE = {"fp6": "fp8", "fp4": "fp8", "int4": "int8", "binary": "int8"}
"""The rate of matrix products of types that have no table: not more than theirs."""

GUARDED_LOADS_SINCE = (9, 0)
"""Compute capability since which an instruction with a predicate has no operand from constant memory."""

UNIFORM_LOAD_WORDS: Mapping[tuple[int, int], int] = {(9, 0): 2, (10, 0): 4}
"""Words of constant memory that one instruction (ULDC, LDCU) brings into uniform registers, since a compute capability.

Before, words are operands of the instructions that use them. The words are taken to be neighbours.
"""

PACKED_SINGLES = ((10, 0), (10, 3))
"""Compute capabilities whose ``ptxas`` makes one instruction for two numbers of single precision (FFMA2), not two."""

TWO_BANKS_SINCE = (7, 0)
"""Compute capability since which a sub-core has two banks of registers (Jia et al., arXiv 1804.06826)."""

UNITED_BEFORE, UNITED_SINCE = (5, 0), (7, 0)
"""Compute capabilities before and since which shared memory and L1 are one memory with one path for data."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The use of a resource by a block, on average over the blocks of a launch.

    Parameters
    ----------
    name
        Name of the resource.
    stage
        Name of the stage of the machine that the resource belongs to. Work passes the resources of a stage at the same
        time, so that it waits for the busiest one only.
    cycles
        SM cycles for which the block occupies the SM's share of the resource.
    copies
        Number of equal parts of an SM's share, each of which serves a part of the warps: 4 for what the four
        sub-cores of an SM have. Below 1: one resource serves 1 / `copies` SMs.
    """

    name: str
    stage: str
    cycles: float
    copies: float = 1.0


def compute_demands(
    work: Work,
    passes: float,
    traffic: LaunchTraffic,
    gpu: GPU,
    rates: Mapping[str, float],
    blocks: int,
    active_sms: int,
    operand_stalls: float = 0.0,
) -> list[Demand]:
    """Return the demands of an average block.

    Parameters
    ----------
    work
        Work of some blocks of the launch.
    passes
        Passes of the block over the banks of the L1 (`rdmodel.timing.passes`).
    traffic
        LaunchTraffic of the whole grid behind the SMs.
    gpu, rates
        The GPU, and its rates (`rdmodel.presets.rates_of`).
    blocks
        Blocks of the grid.
    active_sms
        Number of SMs that run blocks; they share the L2 and the DRAM.
    operand_stalls
        Cycles for which a multiply-add waits for its operands (`Trace.operand_stalls`).
    """
    one = work.scaled(1)
    return [
        Demand(BLOCK_STARTS, "grid", active_sms / rates["block_starts"], 1 / active_sms),
        *_core_demands(one, gpu, rates, operand_stalls),
        *_l1_demands(one, passes, gpu, rates),
        *_memory_demands(traffic, gpu, rates, blocks, active_sms),
    ]


def issued_instructions(work: Work, capability: tuple[int, int]) -> float:
    """Return the instructions that need an issue slot: all but operands from constant memory.

    An instruction reads an operand from constant memory without a load if all lanes read the same word. Since 9.0,
    other instructions bring such words into uniform registers.
    """
    count = work.instructions
    constants = sum(count[name] for name in CONSTANT_ACCESSES)
    words = uniform_load_words(capability)
    uniform = count["load_constant"] / words if words else 0.0
    split = 0.0 if capability in PACKED_SINGLES else count[PACKED]
    return work.issued + split - constants + loads_of_constants(work, capability) + uniform + work.constant_replays


def uniform_load_words(capability: tuple[int, int]) -> int:
    """Return the words of constant memory that an instruction brings into uniform registers; 0: they are operands."""
    return max((words for since, words in UNIFORM_LOAD_WORDS.items() if capability >= since), default=0)


def loads_of_constants(work: Work, capability: tuple[int, int]) -> float:
    """Return the loads from constant memory that are instructions: those under predicates only since 9.0."""
    guarded = work.instructions["load_constant_guarded"] if capability >= GUARDED_LOADS_SINCE else 0
    return work.instructions["load_constant_indexed"] + guarded


def _core_demands(work: Work, gpu: GPU, rates: Mapping[str, float], operand_stalls: float) -> list[Demand]:
    capability = compute_capability(gpu)
    count = by_unit(work.instructions, capability)
    stalled = operand_stalls * multiply_adds(work) if has_narrow_ports(gpu, rates) else 0.0
    cycles = {"issue slots": (issued_instructions(work, capability) + stalled) / rates["issue"]}
    cycles |= cycles_of_units(count, rates)
    cycles[MATRIX_UNITS] = sum(
        flops / rate for name, flops in work.matrix_flops.items() if flops and (rate := matrix_rate(name, rates))
    )
    return [Demand(name, "core", value, copies_of_unit(name, gpu, rates)) for name, value in cycles.items()]


def cycles_of_units(count: Mapping[str, float], rates: Mapping[str, float]) -> dict[str, float]:
    """Return the cycles for which instructions occupy each kind of unit of an SM, from their numbers by unit."""
    cycles = {name: count.get(name, 0.0) * lanes / rates[name] for name, lanes in LANES.items()}
    cycles[unit_of_wide_conversions(rates)] += cycles.pop("conversion_64")
    return cycles


def copies_of_unit(name: str, gpu: GPU, rates: Mapping[str, float]) -> int:
    """Return how many equal parts a kind of unit of an SM has: one in each sub-core, or one that all of them share.

    They share the units for double precision if these have fewer lanes than the SM has sub-cores.
    """
    return 1 if name in LANES and rates[name] < gpu.core.schedulers else gpu.core.schedulers


def multiply_adds(work: Work) -> float:
    """Return the multiply-adds of single precision among the instructions of `work`."""
    counts = {name: count for name, count in work.operations.items() if name.startswith("fp32_")}
    total = sum(counts.values())
    return work.instructions["fp32"] * counts["fp32_fma"] / total if total else 0.0


def has_narrow_ports(gpu: GPU, rates: Mapping[str, float]) -> bool:
    """Return whether a sub-core begins a multiply-add per cycle, and reads two operands per cycle at most for it.

    Earlier GPUs with as many units for single precision have four banks of registers, not two.
    """
    return compute_capability(gpu) >= TWO_BANKS_SINCE and rates["fp32"] >= WARP * gpu.core.schedulers


def matrix_rate(name: str, rates: Mapping[str, float]) -> float:
    """Return the rate of matrix products of a type; where there is no unit for it, that of multiply-adds.

    Sums in half precision have the rate of other sums, unless they have one of their own.
    """
    assert name in MATRIX_TYPES
    name = NEAREST_MATRIX_RATE.get(name, name)
    factors = name.partition("_")[0]
    return rates[f"matrix_{name}"] or rates[f"matrix_{factors}"] or 2 * rates.get(factors, rates["fp32"])


def _l1_demands(work: Work, passes: float, gpu: GPU, rates: Mapping[str, float]) -> list[Demand]:
    sector = gpu.l1.sector_bytes
    shared = sum(work.shared_wavefronts.values()) / rates["shared_wavefronts"]
    requests = sum(work.requests.values()) + sum(work.instructions[name] for name in SHARED_ACCESSES)
    bytes_moved = sum(work.sectors[name] for name in L1_ACCESSES) * sector
    own = max(passes / rates["shared_wavefronts"], bytes_moved / rates["l1_bytes"])
    capability = compute_capability(gpu)
    united = capability < UNITED_BEFORE or capability >= UNITED_SINCE
    demands = {
        "load/store requests": (requests + work.instructions["shuffle"]) / rates["requests"],
        "L1 lookups": sum(work.tag_lookups.values()) / gpu.l1.tags_per_step,
        "L1 wavefronts": own + (shared if united else 0.0),
        "constant loads": (loads_of_constants(work, capability) + work.constant_replays) / rates["constant_loads"],
    }
    if not united:
        demands["shared wavefronts"] = shared
    found = [Demand(name, "L1", value) for name, value in demands.items()]
    if not work.matrix_bytes:
        return found
    factors = work.matrix_bytes / BANK_BYTES / rates["shared_wavefronts"]
    # A product reads its factors while the tensor core computes: it waits for the busier of the two, in one stage.
    return [Demand(MATRIX_FACTORS, "core", demands["L1 wavefronts"] + factors), *found]


def _memory_demands(
    traffic: LaunchTraffic, gpu: GPU, rates: Mapping[str, float], blocks: int, active_sms: int
) -> list[Demand]:
    port = max(traffic.l2_read_bytes, traffic.l2_write_bytes) / rates["l2_port_bytes"] / blocks
    l2_share = l2_bytes_per_cycle(gpu, rates) / active_sms
    dram_share = dram_bytes_per_cycle(gpu, rates, traffic.dram_written_share) / active_sms
    return [
        Demand("L2 port", "port", port),
        Demand("L2", "L2", traffic.l2_bytes / blocks / l2_share, 1 / active_sms),
        Demand(DRAM, "DRAM", traffic.dram_bytes / blocks / dram_share, 1 / active_sms),
    ]


def l2_bytes_per_cycle(gpu: GPU, rates: Mapping[str, float]) -> float:
    """Return the bytes that all slices of the L2 move per cycle of the SMs."""
    return gpu.l2.slices * rates["l2_slice_bytes"] * rates["l2_efficiency"] * gpu.l2.clock / gpu.clock


def dram_bytes_per_cycle(gpu: GPU, rates: Mapping[str, float], written: float = 0.0) -> float:
    """Return the bytes that the DRAM moves per cycle of the SMs, if a share `written` of them is written.

    They are a share of the peak, and less where reads and writes are mixed (`between_directions`).
    """
    efficiency = between_directions(rates["dram_efficiency"], rates["dram_mixed_efficiency"], written)
    return gpu.l2.slices * gpu.dram.width * efficiency * gpu.dram.clock / gpu.clock


def between_directions(alone: float, mixed: float, written: float) -> float:
    """Return a number of the DRAM if a share `written` of its bytes is written.

    It is `alone` for a kernel that only reads or only writes, and `mixed` for one that does both alike. The bus turns
    around the more often, the more equal the two are: the difference is proportional to the product of their shares.
    """
    return alone + (mixed - alone) * 4 * written * (1 - written)
