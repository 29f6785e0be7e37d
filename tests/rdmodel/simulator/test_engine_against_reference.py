"""The compiled event-driven machine equals the cycle-by-cycle reference: cycles, every counter, and the whole log.

Random machines and programs first, then those in which one mechanism is at work all the time, then real traces through
the public door. Hypothesis draws the structure and a seed; NumPy makes the machine and the programs from it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracegen
from rdmodel import presets, simulate
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import residency
from rdmodel.policies import DWTCS, BXor, Fermi, Fup, Linear, Masks, PDisp, PMod, Policy, Pric
from rdmodel.reference.machine import MachineBlock, MachineInstruction
from rdmodel.reference.machine import simulate as step_by_step
from rdmodel.reference.machine.record import CHANNEL_COUNTERS, MISS, SLICE_COUNTERS, SM_COUNTERS
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Columns, Op, Trace
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, StoreRule
from tests.rdmodel.trace.test_coalescing import executed, requests
from tests.support.random_machines import Driven, Mix, random_blocks, random_gpu
from tests.support.random_traces import ProgramTrace, column_traces, program_traces, write_out

SEEDS = st.integers(0, 2**32 - 1)
MEMORIES = st.sampled_from([None, None, 0, 1, 7, 60])
LOADS = (Op.LOAD,)
MOSTLY_LOADS = (Op.LOAD, Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE)
PLENTY = {"mshrs": None, "mshr_merge": None, "mshr_per_warp": None, "miss_queue": 64}


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None)


def check(
    random: np.random.Generator,
    gpu: GPU,
    blocks: list[MachineBlock],
    slots: int,
    sms: int = 1,
    memory: int | None = None,
    policies: tuple[Policy, ...] = (),
) -> None:
    """Run both machines; the compiled one is fed in random pieces, and its invariants are looked at on the way."""
    options = SimulationOptions(sms=sms, memory=memory, policies=policies).resolve(gpu)
    warps = max(map(len, blocks), default=1)
    want = step_by_step(blocks, gpu, options, slots, warps, log=True)
    got = Driven(blocks, gpu, options, slots, warps, random=random)
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
    """Return how many cycles lie between misses and their fills, as the log tells."""
    missed: dict[tuple[int, int], int] = {}
    found: Counter[int] = Counter()
    for name, time, where, line, *outcome in log:
        if name == "access" and outcome == [MISS]:
            missed[where, line] = time
        elif name == "fill":
            found[time - missed.pop((where, line))] += 1
    return found


def chosen(counts: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: counts[name] for name in names}


# ---- random machines


@examples(300)
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_random_machines_equal_the_reference_cycle_for_cycle(seed, sms, slots, warps, blocks, memory):
    random = np.random.default_rng(seed)
    check(random, random_gpu(random), random_blocks(random, blocks, warps), slots, sms, memory)


# ---- one mechanism at a time


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(20)
@given(SEEDS, st.integers(1, 2), st.integers(0, 4), MEMORIES)
def test_barriers_that_all_warps_pass_open_alike(allocate, seed, slots, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate})
    mix = Mix(most=6, ops=MOSTLY_LOADS, barriers=barriers)
    check(random, gpu, random_blocks(random, 4, 5, mix), slots, memory=memory)


SHAPES = st.sampled_from([(1, 5, 5), (1, 8, 8), (2, 6, 8), (3, 9, 8)])
"""Schedulers, block slots and warps of a block: 24 to 64 warps for each scheduler."""


@pytest.mark.parametrize("sched", ["lrr", "gto", "two-level", "old"])
@examples(8)
@given(SEEDS, SHAPES, st.sampled_from([1, 3, 8, 64, 100]), MEMORIES)
def test_schedulers_choose_alike_among_many_warps_in_slots_used_again(sched, seed, shape, group, memory):
    random = np.random.default_rng(seed)
    schedulers, slots, warps = shape
    core = {"schedulers": schedulers, "sched": sched, "fetch_group": group, "hit_latency": int(random.integers(30))}
    gpu = random_gpu(random, l1=PLENTY, core={**core, "ldst_queue": int(random.integers(1, 5))})
    mix = Mix(most=7, widest=2, ops=(Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE, Op.BARRIER), needs=(0, 1, 3), gaps=(0, 2))
    check(random, gpu, random_blocks(random, 2 * slots, warps, mix), slots, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(20)
@given(SEEDS, st.integers(1, 2), MEMORIES)
def test_dirty_lines_of_local_stores_are_written_back_alike(allocate, seed, slots, memory):
    random = np.random.default_rng(seed)
    l1 = {"allocate": allocate, "ways": int(random.integers(1, 4)), "sets": 2, "miss_queue": int(random.integers(1, 4))}
    mix = Mix(most=20, pool=tuple(range(14)), ops=(Op.LOAD, Op.STORE, Op.STORE), local=0.8, empty=0)
    check(random, random_gpu(random, l1=l1), random_blocks(random, 4, 3, mix), slots, memory=memory)


@examples(30)
@given(SEEDS, st.sampled_from([(300, 900), (350, 1400), (700, 924), (90, 1000)]), st.integers(1, 2))
def test_clocks_far_apart_keep_step_alike(seed, clocks, sms):
    random = np.random.default_rng(seed)
    own, crossbar, l2, dram = random.choice(clocks, 4).tolist()
    gpu = random_gpu(random, crossbar={"clock": crossbar}, l2={"clock": l2}, dram={"clock": dram}).replace(clock=own)
    mix = Mix(most=5, widest=3, ops=MOSTLY_LOADS)
    check(random, gpu, random_blocks(random, 3, 2, mix), 2, sms)


@examples(25)
@given(SEEDS, st.integers(2, 5), st.integers(1, 2))
def test_sms_that_wait_for_a_full_slice_go_on_alike(seed, sms, slices):
    random = np.random.default_rng(seed)
    l2 = {"queue": int(random.integers(1, 3)), "slices": slices, "clock": int(random.choice([175, 350, 1400]))}
    mix = Mix(most=8, ops=(Op.LOAD, Op.LOAD, Op.STORE), empty=0)
    gpu = random_gpu(random, l1={"mshrs": 8, "miss_queue": 4}, l2=l2)
    check(random, gpu, random_blocks(random, 2 * sms, 2, mix), 1, sms)


INDEXES = [
    (Linear(), 1, 8),
    (Fermi(), 32, 1),
    (Fermi(), 64, 1),
    (BXor(), 8, 2),
    (Pric(), 8, 2),
    (Pric(polynomial=37), 32, 1),
    (Fup(), 4, 2),
    (Fup(feature_bits=40), 8, 1),
    (PMod(), 16, 1),
    (PDisp(), 8, 2),
    (Masks(masks=(3 << 50 | 5, 1 << 40 | 2)), 4, 2),
]


@pytest.mark.parametrize(("index", "sets", "ways"), INDEXES)
@examples(4)
@given(SEEDS, st.sampled_from([10, 34, 56]), MEMORIES)
def test_every_index_function_is_evaluated_alike(index, sets, ways, seed, bits, memory):
    random = np.random.default_rng(seed)
    pool = tuple(random.integers(0, 1 << bits, 3 * sets * ways).tolist())
    gpu = random_gpu(random, l1={"index": index, "sets": sets, "ways": ways, "mshrs": 16})
    mix = Mix(most=25, pool=pool, ops=MOSTLY_LOADS)
    check(random, gpu, random_blocks(random, 3, 2, mix), 2, memory=memory)


@examples(20)
@given(SEEDS, st.sampled_from([150, 400, None]))
def test_loads_beyond_the_reach_of_needs_hold_a_warp_alike(seed, memory):
    random = np.random.default_rng(seed)
    slow = {"latency": 200}
    gpu = random_gpu(random, l1={**PLENTY, "allocate": "fill"}, core={"ldst_queue": 4, "hit_latency": 90}, dram=slow)
    mix = Mix(most=200, widest=1, ops=(Op.LOAD, Op.LOAD, Op.STORE), needs=(0, 0, 0, 2**63, 1 << 40), gaps=(0,))
    check(random, gpu, random_blocks(random, 2, 2, mix), 1, memory=memory)


@examples(20)
@given(SEEDS, st.integers(1, 4), st.sampled_from([8, 32, 64]), MEMORIES)
def test_long_instructions_pass_the_load_store_unit_alike(seed, queue, widest, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"ldst_queue": queue}, l1={"miss_queue": 8})
    mix = Mix(most=6, widest=widest, pool=tuple(range(80)))
    check(random, gpu, random_blocks(random, 3, 2, mix), 2, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(15)
@given(SEEDS, st.integers(1, 3), MEMORIES)
def test_without_limits_on_what_is_in_flight_they_run_alike(allocate, seed, sms, memory):
    random = np.random.default_rng(seed)
    free = {"mshrs": None, "mshr_merge": None}
    gpu = random_gpu(random, l1={**PLENTY, "allocate": allocate}, l2={**free, "queue": 256}, dram={"queue": 64})
    mix = Mix(most=20, needs=(0, 0, 1), pool=tuple(range(100)))
    check(random, gpu, random_blocks(random, 2 * sms, 3, mix), 2, sms, memory)


# ---- real traces, through the public door


def instructions(trace: Trace, line: int, stores: bool) -> list[MachineBlock]:
    """Coalesce a trace by plain loops over every byte of every lane."""
    rule = StoreRule.MACHINE if stores else StoreRule.MACHINE_LOADS
    written = write_out(trace)
    return [
        [
            [
                MachineInstruction(op, bool(flags & LOCAL), needs, gap, lanes, lines, pc, bool(flags & LOOP_EXIT))
                for op, needs, gap, lines, pc, lanes, flags in requests(executed(written[block, warp]), line, rule)
            ]
            for warp in range(trace.launch.block_warps)
        ]
        for block in range(trace.launch.blocks)
    ]


def check_trace(trace: Trace, gpu: GPU, **given: Any) -> Simulation | None:
    """Simulate a trace by both machines; None if it does not access memory."""
    options = SimulationOptions(**given).resolve(gpu)
    blocks = instructions(trace, gpu.l1.line, options.stores)[: options.blocks]
    slots, warps = residency(trace.launch, gpu).blocks, trace.launch.block_warps
    want = step_by_step(blocks, gpu, options, slots, warps)
    if not sum(counts["transactions"] for counts in want.sms):
        with pytest.raises(TraceError, match="access no memory"):
            simulate(trace, gpu, **given)
        return None
    got = simulate(trace, gpu, **given)
    assert got.cycles == want.cycles
    assert [summary(sm) for sm in got.per_sm] == [chosen(counts, SHOWN) for counts in want.sms]
    assert got.to_dict()["contention"] == {name: total(want.sms, name) for name in got.contention.to_dict()}
    assert got.traffic.read_messages == got.traffic.response_messages == total(want.sms, "read_messages")
    assert got.traffic.write_messages == total(want.sms, "write_messages")
    if options.memory is None:
        fails = {f"fail_{name}": count for name, count in got.l2.stalls.items()}
        plain = {**dataclasses.asdict(got.l2), **fails}
        assert chosen(plain, SLICE_COUNTERS) == {name: total(want.slices, name) for name in SLICE_COUNTERS}
        assert chosen(got.dram.to_dict(), CHANNEL_COUNTERS) == {n: total(want.channels, n) for n in CHANNEL_COUNTERS}
    return got


SHOWN = tuple(name for name in SM_COUNTERS if not name.endswith("_messages"))


def summary(sm: Any) -> dict[str, Any]:
    """Return the counters of one SM's result under the reference's names."""
    plain = sm.to_dict()
    fails = {f"fail_{name}": count for name, count in plain["reservation_fails"].items()}
    named = {**plain, **plain["misses"], **plain["contention"], **fails, "thread_instructions": sm.instructions}
    # The reference counts all transactions that are served together, stores included.
    return chosen({**named, "writes": sm.stores, "transactions": sm.transactions + sm.stores}, SHOWN)


def total(counters: list[dict[str, int]], name: str) -> int:
    return sum(counts[name] for counts in counters)


def whole(trace: Trace) -> Trace:
    """Return a trace whose grid is exactly the blocks that it has, with gaps that a reference can walk through."""
    launch = dataclasses.replace(trace.launch, grid=(max(1, len(trace.blocks)), 1, 1), registers=0, shared_memory=0)
    if isinstance(trace, ProgramTrace):
        return ProgramTrace(launch, dict(enumerate(trace.programs.values())))
    if not trace.blocks:
        launch = dataclasses.replace(launch, block=(32, 1, 1))
        return ProgramTrace(launch, {0: []})
    columns: Columns = dataclasses.replace(trace.columns, gap=trace.columns.gap % 5)
    return Trace(launch, columns)


@examples(60)
@given(st.one_of(column_traces(), program_traces()).map(whole), SEEDS, st.integers(1, 3), MEMORIES, st.booleans())
def test_random_traces_equal_the_reference_through_the_public_door(trace, seed, sms, memory, stores):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, line=int(random.choice([32, 128])))
    check_trace(trace, gpu, sms=sms, memory=memory, stores=stores)


KERNELS = {
    "atax.1": {"NX": 64, "NY": 6},
    "gemm": {"NI": 8, "NJ": 32, "NK": 6},
}


@pytest.mark.parametrize("gpu", ["gtx470-16k", "gtx480-khairy", "koo-kepler"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_equal_the_reference_through_the_public_door(name, gpu):
    check_trace(tracegen.kernel(name, **KERNELS[name]), presets.gpu(gpu), sms=2)
