"""With lines that are fetched by sector, too, the compiled machine equals the reference: log, cycles, counters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import presets
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.policies import (
    CCA,
    CCWS,
    DAWS,
    DWTCS,
    DYNCTA,
    OWL,
    PCAL,
    PDP,
    SWL,
    BypassAll,
    BypassOnStall,
    LatencyLimit,
    LazyCTA,
)
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
from tests.support.random_machines import Mix, random_blocks, random_sectored_gpu
from tests.support.random_traces import column_traces, program_traces


def mixed(gpu, **fields):
    return Mix(sectors=gpu.l1.sectors, **fields)


@examples(300)
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_random_sectored_machines_equal_the_reference_cycle_for_cycle(seed, sms, slots, warps, blocks, memory):
    random = np.random.default_rng(seed)
    gpu = random_sectored_gpu(random)
    check(random, gpu, random_blocks(random, blocks, warps, mixed(gpu)), slots, sms, memory)


@pytest.mark.parametrize("stores", ["update", "through"])
@examples(30)
@given(SEEDS, st.integers(1, 3), st.sampled_from([1, 4]), MEMORIES)
def test_stores_write_in_place_alike(stores, seed, slots, tags, memory):
    random = np.random.default_rng(seed)
    l1 = {"stores": stores, "tags_per_step": tags, "ways": 2, "sets": 2, "mshrs": 4}
    gpu = random_sectored_gpu(random, l1=l1)
    mix = mixed(gpu, most=20, pool=tuple(range(9)), ops=(Op.LOAD, Op.LOAD, Op.STORE, Op.STORE, Op.ATOMIC), empty=0)
    check(random, gpu, random_blocks(random, 4, 3, mix), slots, memory=memory)


@examples(40)
@given(SEEDS, st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from(["linear", "hash"]))
def test_slices_that_are_too_small_fetch_and_write_back_alike(seed, sms, fetch, index):
    random = np.random.default_rng(seed)
    l2 = {"ways": 2, "size": 512, "fetch": 32 * fetch, "sector": 32, "index": index, "slices": 3, "mshrs": 3}
    gpu = random_sectored_gpu(random, l1={"sector": 32, "sets": 2, "ways": 1, "mshrs": 8}, l2=l2)
    mix = mixed(gpu, most=20, pool=tuple(range(30)), ops=(Op.LOAD, Op.LOAD, Op.STORE), empty=0, needs=(0, 0, 1))
    check(random, gpu, random_blocks(random, 2 * sms, 3, mix), 2, sms)


@examples(30)
@given(SEEDS, SHAPES, MEMORIES, st.integers(1, 4))
def test_many_warps_with_plenty_in_flight_run_alike(seed, shape, memory, tags):
    random = np.random.default_rng(seed)
    schedulers, slots, warps = shape
    core = {"schedulers": schedulers, "ldst_queue": int(random.integers(1, 9)), "alu_latency": tags}
    gpu = random_sectored_gpu(random, l1={**PLENTY, "tags_per_step": tags}, core=core)
    mix = mixed(gpu, most=7, widest=4, ops=MOSTLY_LOADS, needs=(0, 1, 3), gaps=(0, 2))
    check(random, gpu, random_blocks(random, 2 * slots, warps, mix), slots, memory=memory)


THROTTLING_AND_BYPASS = [
    (SWL(warps=1),),
    (DWTCS(period=40, mpki=1.0, confirm=1, sample=1),),
    (CCWS(base=5, throttle=8, entries=4, ways=2),),
    (PCAL(tokens=1, extra=1),),
    (DYNCTA(period=40, idle=5, low=10, high=25),),
    (LatencyLimit(period=20, high=1.2, low=1.1, lost=0.0),),
    (PDP(period=30, most=12, every=2), LatencyLimit(period=20, high=1.5, low=1.0, lost=0.2, step=2)),
    (LazyCTA(),),
    (LazyCTA(group=1, baws=True),),
    (OWL(group=2),),
    (OWL(group=1, locality=False),),
    (CCA(period=25),),
    (DAWS(share=0.2, reuse=0.1, converged=1),),
    (BypassAll(),),
    (BypassOnStall(on="associativity"),),
    (BypassOnStall(on="all"),),
    (CCWS(base=20, throttle=8, entries=4, ways=2), BypassOnStall(on="all")),
    (PCAL(tokens=0, extra=2), BypassOnStall(on="associativity")),
]


@pytest.mark.parametrize("policies", THROTTLING_AND_BYPASS, ids=str)
@examples(25, least=3)
@given(SEEDS, st.integers(1, 2), st.integers(2, 5), MEMORIES)
def test_policies_that_know_sectors_decide_alike(policies, seed, sms, warps, memory):
    random = np.random.default_rng(seed)
    gpu = random_sectored_gpu(random)
    mix = mixed(gpu, most=16, pool=tuple(range(12)), ops=MOSTLY_LOADS, needs=(0, 1, 3), empty=0)
    check(random, gpu, random_blocks(random, 2 * sms, warps, mix), 2, sms, memory, policies)


# ---- real traces, through the public door


@examples(60)
@given(st.one_of(column_traces(), program_traces()).map(whole), SEEDS, st.integers(1, 3), MEMORIES, st.booleans())
def test_random_traces_equal_the_reference_by_sector_through_the_public_door(trace, seed, sms, memory, stores):
    random = np.random.default_rng(seed)
    l1 = {"request_bytes": int(random.choice([32, 128]))}
    gpu = random_sectored_gpu(random, l1=l1)
    check_trace(trace, gpu, sms=sms, memory=memory, stores=stores)


@pytest.mark.parametrize("name", ["v100", "p100", "rtx3070", "titan-x-pascal"])
def test_presets_with_sectors_equal_the_reference_through_the_public_door(name):
    trace = tracegen.kernel("gemm", NI=8, NJ=32, NK=6)
    check_trace(trace, fit_to_launch(presets.gpu(name), trace.launch), sms=2)
