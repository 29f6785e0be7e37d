"""The compiled event-driven machine equals the cycle-by-cycle reference: cycles, every counter, and the whole log.

Random machines and programs first, then those in which one mechanism is at work all the time, then real traces through
the public door. Hypothesis draws the structure and a seed; NumPy makes the machine and the programs from it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import presets
from rdmodel.policies import BXor, Fermi, Fup, Linear, Masks, PDisp, PMod, Pric
from rdmodel.trace import Op
from tests.support.engine_checks import (
    MEMORIES,
    MOSTLY_LOADS,
    PLENTY,
    SEEDS,
    SHAPES,
    check,
    check_trace,
    whole,
)
from tests.support.examples import examples
from tests.support.random_machines import Mix, random_blocks, random_gpu
from tests.support.random_traces import column_traces, program_traces

LOADS = (Op.LOAD,)


# ---- random machines


@examples(300)
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_random_machines_equal_the_reference_cycle_for_cycle(seed, sms, slots, warps, blocks, memory):
    random = np.random.default_rng(seed)
    check(random, random_gpu(random), random_blocks(random, blocks, warps), slots, sms, memory)


@examples(40)
@given(SEEDS, st.integers(1, 3), st.integers(0, 4), MEMORIES)
def test_kernels_without_loads_equal_the_reference(seed, sms, blocks, memory):
    random = np.random.default_rng(seed)
    mix = Mix(most=8, ops=(Op.STORE, Op.STORE, Op.ATOMIC), barriers=1)
    check(random, random_gpu(random), random_blocks(random, blocks, 3, mix), 2, sms, memory)


# ---- one mechanism at a time


@pytest.mark.parametrize("latency", [2, 5, 24])
@examples(30)
@given(SEEDS, st.integers(1, 2), st.integers(1, 6), st.integers(0, 2), MEMORIES)
def test_warps_rest_after_non_memory_instructions_alike(latency, seed, slots, warps, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"alu_latency": latency})
    mix = Mix(most=8, ops=MOSTLY_LOADS, gaps=(0, 1, 3, 10), barriers=barriers)
    check(random, gpu, random_blocks(random, 4, warps, mix), slots, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(20)
@given(SEEDS, st.integers(1, 2), st.integers(0, 4), MEMORIES)
def test_barriers_that_all_warps_pass_open_alike(allocate, seed, slots, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate})
    mix = Mix(most=6, ops=MOSTLY_LOADS, barriers=barriers)
    check(random, gpu, random_blocks(random, 4, 5, mix), slots, memory=memory)


@pytest.mark.parametrize("sched", ["lrr", "gto", "two-level", "old", "gty"])
@examples(8, least=3)
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
@examples(4, least=2)
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


@pytest.mark.parametrize(("sms", "slices"), [(63, 2), (70, 65)])
@examples(4, least=1)
@given(SEEDS)
def test_as_many_sms_and_slices_as_large_gpus_have_run_alike(sms, slices, seed):
    # The cycles in which they wake are kept in several words of bits.
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l2={"slices": slices}, dram={"latency": 80, "queue": 8, "clock": 1500})
    mix = Mix(most=3, needs=(0, 0, 1), pool=tuple(range(400)), ops=MOSTLY_LOADS)
    check(random, gpu, random_blocks(random, sms + 8, 1, mix), 1, sms)


@pytest.mark.parametrize("slots", [63, 64, 90])
@examples(8)
@given(SEEDS, st.booleans())
def test_more_slots_than_a_mask_has_bits_are_settled_alike(slots, seed, barriers):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"schedulers": 2})
    mix = Mix(most=3, needs=(0, 1), pool=tuple(range(50)), ops=MOSTLY_LOADS, barriers=int(barriers))
    check(random, gpu, random_blocks(random, slots + 10, 1, mix), slots, 1)


# ---- real traces, through the public door


@examples(60)
@given(st.one_of(column_traces(), program_traces()).map(whole), SEEDS, st.integers(1, 3), MEMORIES, st.booleans())
def test_random_traces_equal_the_reference_through_the_public_door(trace, seed, sms, memory, stores):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, line=int(random.choice([32, 128])))
    check_trace(trace, gpu, sms=sms, memory=memory, stores=stores)


@examples(40)
@given(program_traces().map(whole), SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(200, 2500))
def test_a_dram_whose_commands_are_given_ahead_equals_the_reference(trace, seed, sms, queue, clock):
    # The record of what happens is not kept here: with it, commands are given one cycle at a time.
    random = np.random.default_rng(seed)
    gpu = random_gpu(
        random, l2={"slices": 2, "latency": int(random.integers(0, 60))}, dram={"queue": queue, "clock": clock}
    )
    check_trace(trace, gpu, sms=sms)


@examples(60)
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_stalls_that_are_foreseen_last_as_long_as_others(seed, mshrs, miss_queue, queue):
    random = np.random.default_rng(seed)
    gpu = random_gpu(
        random, l1={"mshrs": mshrs, "miss_queue": miss_queue}, l2={"slices": 1, "mshrs": mshrs}, dram={"queue": queue}
    )
    mix = Mix(most=8, needs=(0, 0, 1), pool=tuple(range(300)), ops=MOSTLY_LOADS)
    check(random, gpu, random_blocks(random, 6, 3, mix), 2, 2)


KERNELS = {
    "atax.1": {"NX": 64, "NY": 6},
    "gemm": {"NI": 8, "NJ": 32, "NK": 6},
}


@pytest.mark.parametrize("gpu", ["gtx470-16k", "gtx480-khairy", "koo-kepler"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_equal_the_reference_through_the_public_door(name, gpu):
    check_trace(tracegen.kernel(name, **KERNELS[name]), presets.gpu(gpu), sms=2)
