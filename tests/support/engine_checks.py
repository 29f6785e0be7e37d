"""Compare the compiled simulator with its cycle-by-cycle reference: log, cycles and every counter."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import zip_longest
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rdmodel import simulate
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.policies import DWTCS, Policy
from rdmodel.reference.machine import MachineBlock, MachineInstruction, MachineResult
from rdmodel.reference.machine import simulate as step_by_step
from rdmodel.reference.machine import simulate_in_turn as many_step_by_step
from rdmodel.reference.machine.record import CHANNEL_COUNTERS, MISS, SLICE_COUNTERS, SM_COUNTERS
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.options import IN_PLACE, SimulationOptions, has_sector_masks, packet_bytes
from rdmodel.trace import Columns, Op, Trace
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, StoreRule
from tests.support.plain_coalescing import Row, executed, remains, requests, sector_masks
from tests.support.random_machines import Driven
from tests.support.random_traces import ProgramTrace, write_out

SEEDS = st.integers(0, 2**32 - 1)
MEMORIES = st.sampled_from([None, None, 0, 1, 7, 60])
MOSTLY_LOADS = (Op.LOAD, Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE)
PLENTY = {"mshrs": None, "mshr_merge": None, "mshr_per_warp": None, "miss_queue": 64}


def check(
    random: np.random.Generator,
    gpu: GPU,
    blocks: list[MachineBlock],
    slots: int,
    sms: int = 1,
    memory: int | None = None,
    policies: tuple[Policy, ...] = (),
) -> None:
    """Run both machines and compare them; the compiled one gets random pieces, and its invariants are checked."""
    check_launches(random, gpu, [blocks], slots, sms, memory, policies)


def check_launches(
    random: np.random.Generator,
    gpu: GPU,
    launches: list[list[MachineBlock]],
    slots: int,
    sms: int = 1,
    memory: int | None = None,
    policies: tuple[Policy, ...] = (),
) -> None:
    """Run launches one after another in both machines, each on the L2 that the one before left, and compare them."""
    options = SimulationOptions(sms=sms, memory=memory, policies=policies).resolve(gpu)
    warps = max((len(block) for blocks in launches for block in blocks), default=1)
    expected = many_step_by_step(launches, gpu, options, slots, warps, log=True)
    got = None
    for blocks, want in zip(launches, expected, strict=True):
        got = Driven(blocks, gpu, options, slots, warps, random=random, previous=got)
        compare_runs(got, want, policies)


def compare_runs(got: Driven, want: MachineResult, policies: tuple[Policy, ...]) -> None:
    """Compare log, cycles and counters of a run of the compiled machine with those of the reference."""
    for place, (mine, right) in enumerate(zip_longest(got.log(), want.log)):
        assert mine == right, f"entry {place} of the log"
    assert got.cycles == want.cycles
    for i, counts in enumerate(want.sms):
        assert chosen(got.sm_counters(i), SM_COUNTERS) == counts, f"SM {i}"
    for i, counts in enumerate(want.slices):
        assert chosen(got.slice_counters(i), SLICE_COUNTERS) == counts, f"slice {i}"
        assert chosen(got.channel_counters(i), CHANNEL_COUNTERS) == want.channels[i], f"channel {i}"
    assert len(want.slices) == got.slices
    assert latencies(got.machine.miss_latencies()) == latencies_of(want.log)
    if any(isinstance(policy, DWTCS) for policy in policies):
        assert got.machine.limit == (-1 if want.limits is None else want.limits)


def latencies(counts: list[int]) -> dict[int, int]:
    return {cycles: count for cycles, count in enumerate(counts) if count}


def latencies_of(log: list[tuple[Any, ...]]) -> Counter[int]:
    """Return the number of fills by the cycles between the miss and the fill, from the log."""
    missed: dict[tuple[Any, ...], int] = {}
    found: Counter[int] = Counter()
    for name, time, where, line, *rest in log:
        if name == "access" and rest[0] == MISS:
            missed[where, line, *rest[1:]] = time
        elif name == "fill":
            found[time - missed.pop((where, line, *rest))] += 1
    return found


def chosen(counts: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: counts[name] for name in names}


SHAPES = st.sampled_from([(1, 5, 5), (1, 8, 8), (2, 6, 8), (3, 9, 8)])
"""Schedulers, block slots and warps per block: 24 to 64 warps for each scheduler."""


def instructions(trace: Trace, gpu: GPU, stores: bool) -> list[MachineBlock]:
    """Coalesce a trace by plain loops over every byte of every lane."""
    rule = StoreRule.MACHINE if stores else StoreRule.MACHINE_LOADS
    written = write_out(trace)
    blocks, warps = range(trace.launch.blocks), range(trace.launch.block_warps)
    piece = gpu.l1.sector_bytes if gpu.l1.stores in IN_PLACE else 32 if gpu.crossbar.packets == "coalesced" else None
    return [
        [instructions_of_warp(executed(written[block, warp]), gpu.l1, rule, piece) for warp in warps]
        for block in blocks
    ]


def instructions_of_warp(
    rows: list[Row], l1: CacheConfig, rule: StoreRule, piece: int | None
) -> list[MachineInstruction]:
    """Coalesce the rows of a warp, with masks of pieces of `piece` bytes; None: without masks."""
    kept = [row for row in rows if remains(row, rule) is not None]
    result = []
    for row, request in zip(kept, requests(rows, l1.line, rule, l1.request_bytes), strict=True):
        op, needs, gap, lines, pc, lanes, flags = request
        asked: tuple[int, ...] = ()
        full: tuple[int, ...] = ()
        if lines and piece is not None:
            asked, full = zip(*sector_masks(row, l1.line, piece, l1.request_bytes), strict=True)
        details = (bool(flags & LOCAL), needs, gap, lanes, lines, pc, bool(flags & LOOP_EXIT))
        result.append(MachineInstruction(op, *details, asked, full, row.get("cache_op", 0)))
    return result


def check_trace(trace: Trace, gpu: GPU, **given: Any) -> Simulation:
    """Simulate a trace by both machines and compare them."""
    options = SimulationOptions(**given).resolve(gpu)
    blocks = instructions(trace, gpu, options.stores)[: options.blocks]
    # No SM has more slots than there are blocks.
    slots = min(compute_occupancy(trace.launch, gpu).blocks, len(blocks))
    warps = trace.launch.block_warps
    want = step_by_step(blocks, gpu, options, slots, warps)
    got = simulate(trace, gpu, **given)
    assert got.cycles == want.cycles
    shown = SHOWN_WITH_SECTORS if has_sector_masks(gpu) else SHOWN
    assert [chosen(summary(sm), shown) for sm in got.per_sm] == [chosen(counts, shown) for counts in want.sms]
    if has_sector_masks(gpu) or gpu.crossbar.packets == "coalesced":
        sectors = {name: total(want.sms, f"{name}_sectors") for name in ("read", "write")}
        headers = 8 * got.traffic.response_messages
        assert got.traffic.response_bytes == headers + packet_bytes(gpu) * sectors["read"]
        headers = 8 * (got.traffic.read_messages + got.traffic.write_messages)
        assert got.traffic.request_bytes == headers + packet_bytes(gpu) * sectors["write"]
    assert got.to_dict()["contention"] == {name: total(want.sms, name) for name in got.contention.to_dict()}
    assert got.traffic.read_messages == total(want.sms, "read_messages")
    acknowledgements = total(want.sms, "acknowledgements")
    assert got.traffic.response_messages == got.traffic.read_messages + acknowledgements
    assert got.traffic.write_messages == total(want.sms, "write_messages")
    if options.memory is None:
        fails = {f"fail_{name}": count for name, count in got.l2.stalls.items()}
        plain = {**dataclasses.asdict(got.l2), **fails}
        assert chosen(plain, SLICE_COUNTERS) == {name: total(want.slices, name) for name in SLICE_COUNTERS}
        assert chosen(got.dram.to_dict(), CHANNEL_COUNTERS) == {n: total(want.channels, n) for n in CHANNEL_COUNTERS}
    return got


SENT = ("read_messages", "write_messages", "acknowledgements", "read_sectors", "write_sectors")
SHOWN_WITH_SECTORS = tuple(name for name in SM_COUNTERS if name not in SENT)
SHOWN = SHOWN_WITH_SECTORS[: SM_COUNTERS.index("read_messages")]


def summary(sm: Any) -> dict[str, Any]:
    """Return the counters of one SM's result under the reference's names."""
    plain = sm.to_dict()
    fails = {f"fail_{name}": count for name, count in plain["reservation_fails"].items()}
    named = {**plain, **plain["misses"], **plain["contention"], **fails, "thread_instructions": sm.instructions}
    stores = {f"store_{name}": count for name, count in plain["store_lookups"].items() if name != "transactions"}
    # The reference counts all transactions that are served together, stores included.
    return {**named, **stores, "writes": sm.stores, "transactions": sm.transactions + sm.stores}


def total(counters: list[dict[str, int]], name: str) -> int:
    return sum(counts[name] for counts in counters)


def whole(trace: Trace) -> Trace:
    """Return the trace with a grid of exactly its blocks, and with gaps that are short enough for the reference."""
    launch = dataclasses.replace(trace.launch, grid=(max(1, len(trace.blocks)), 1, 1), registers=0, shared_memory=0)
    if isinstance(trace, ProgramTrace):
        return ProgramTrace(launch, dict(enumerate(trace.programs.values())))
    if not trace.blocks:
        launch = dataclasses.replace(launch, block=(32, 1, 1))
        return ProgramTrace(launch, {0: []})
    columns: Columns = dataclasses.replace(trace.columns, gap=trace.columns.gap % 5)
    return Trace(launch, columns)
