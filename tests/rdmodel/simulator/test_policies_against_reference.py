"""With cache-management policies, too, the compiled machine equals the cycle-by-cycle reference: log, cycles, counters.

Random policies on random machines first, then each policy where it is at work all the time, then real traces through
the public door. As in test_simulator_reference.py, hypothesis draws the structure and a seed.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import presets
from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.policies import (
    ABYP,
    APCM,
    CCA,
    CCWS,
    DAWS,
    DWTCS,
    DYNCTA,
    MRPB,
    OWL,
    PCAL,
    PD,
    PDP,
    SWL,
    BypassAll,
    BypassOnStall,
    GCache,
    LatencyLimit,
    LazyCTA,
    Linear,
    Policy,
    StreamingBypass,
)
from rdmodel.reference.machine import MachineBlock
from rdmodel.trace import Op
from tests.support.engine_checks import MEMORIES, MOSTLY_LOADS, PLENTY, SEEDS, SHAPES, check_trace, whole
from tests.support.engine_checks import check as check_machines
from tests.support.examples import examples
from tests.support.random_machines import Mix, random_blocks, random_gpu, random_policies
from tests.support.random_traces import column_traces, program_traces

STALLS = st.sampled_from(["associativity", "all"])
ALLOCATE = st.sampled_from(["miss", "fill"])
SIGNATURES = ["warp", "block", "warp-in-block"]
DRAINS = ["fixed", "round-robin", "longest", "greedy-fixed", "greedy-round-robin", "greedy-longest"]
LOADS_AND_STORES = Mix(most=16, ops=(Op.LOAD, Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE), local=0.6, empty=0)
REUSE = Mix(most=16, pool=tuple(range(12)), ops=MOSTLY_LOADS, needs=(0, 1, 3), local=0.5, empty=0)

SCORES = st.builds(
    lambda base, throttle, sets, ways: CCWS(base=base, throttle=throttle, entries=sets * ways, ways=ways),
    st.sampled_from([1, 4, 20, 100]),
    st.sampled_from([1, 8, 60]),
    st.integers(1, 3),
    st.integers(1, 3),
)
COUNTERS = st.integers(1, 4).flatmap(
    lambda most: st.builds(ABYP, entries=st.sampled_from([1, 2, 7]), most=st.just(most), threshold=st.integers(1, most))
)
PATTERNS = st.builds(
    APCM,
    mode=st.sampled_from(["both", "both", "bypass", "protect"]),
    tags=st.sampled_from([1, 2, 4, 32]),
    loads=st.sampled_from([1, 3, 16]),
    most=st.sampled_from([2, 3, 15]),
)
FEW_BLOCKS = st.builds(
    lambda period, idle, bounds: DYNCTA(period=period, idle=idle, low=min(bounds), high=max(bounds)),
    st.integers(1, 80),
    st.sampled_from([0, 1, 5, 20, 100]),
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
LATENCIES = st.builds(
    lambda period, bounds, lost, step: LatencyLimit(
        period=period, high=max(bounds), low=min(bounds), lost=lost, step=step
    ),
    st.integers(1, 80),
    st.tuples(st.sampled_from([1.0, 1.1, 1.5, 3.0]), st.sampled_from([1.0, 1.2, 2.0])),
    st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    st.integers(1, 3),
)
HOT_LINES = st.builds(GCache, period=st.integers(5, 400), sharers=st.integers(1, 3), heat=st.sampled_from([1, 2, 3, 8]))
DISTANCES = st.builds(PDP, period=st.integers(1, 120), most=st.sampled_from([1, 2, 8, 40]), every=st.integers(1, 3))
GROUPS_OF_BLOCKS = st.builds(LazyCTA, lcs=st.booleans(), group=st.sampled_from([1, 2, 2, 3, 9]), baws=st.booleans())
ORDERED_GROUPS = st.builds(OWL, group=st.sampled_from([1, 2, 3, 5, 99]), locality=st.booleans(), blp=st.booleans())
GROUPS = st.builds(CCA, period=st.integers(1, 80), gain=st.sampled_from([0.0, 0.1, 0.5]))
FOOTPRINTS = st.builds(
    DAWS,
    share=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
    reuse=st.sampled_from([0.0, 0.05, 0.2, 0.5]),
    converged=st.integers(1, 4),
    loads=st.sampled_from([1, 2, 4, 64]),
)
THROTTLING = st.one_of(
    SCORES,
    FEW_BLOCKS,
    LATENCIES,
    GROUPS_OF_BLOCKS,
    ORDERED_GROUPS,
    GROUPS,
    FOOTPRINTS,
    st.builds(SWL, warps=st.integers(1, 5)),
    st.builds(
        lambda tokens, extra: PCAL(tokens=tokens, extra=extra + (not tokens)), st.integers(0, 3), st.integers(0, 3)
    ),
    st.builds(
        DWTCS,
        period=st.integers(1, 120),
        mpki=st.sampled_from([0.0, 5.0, 20.0]),
        confirm=st.integers(1, 2),
        sample=st.integers(1, 3),
        limit=st.sampled_from([None, None, None, 1, 3, 99]),
    ),
)
THRASHING_MPKIS = st.sampled_from([None, 0.0, 40.0, 150.0, 400.0, 1000.0])
ADMISSION = st.one_of(
    st.just(BypassAll()),
    st.builds(BypassOnStall, on=STALLS),
    st.builds(
        StreamingBypass,
        period=st.integers(1, 120),
        threshold=st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
        caches=st.sampled_from(["both", "l1", "l2"]),
        mpki=THRASHING_MPKIS,
    ),
    COUNTERS,
    PATTERNS,
    st.builds(PD, distance=st.integers(1, 16)),
    DISTANCES,
    HOT_LINES,
)
BUFFERS = st.builds(
    MRPB,
    signature=st.sampled_from(SIGNATURES),
    drain=st.sampled_from(DRAINS),
    flush=st.booleans(),
    entries=st.sampled_from([1, 2, 3, 8, None]),
    latency=st.integers(0, 6),
    bypass=st.one_of(st.none(), STALLS),
)


def check(
    random: np.random.Generator,
    gpu: GPU,
    blocks: list[MachineBlock],
    slots: int,
    *policies: Policy,
    sms: int = 1,
    memory: int | None = None,
) -> None:
    """Run both machines under policies."""
    check_machines(random, gpu, blocks, slots, sms, memory, policies)


# ---- all together


@examples(120)
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_random_policies_on_random_machines_equal_the_reference(seed, sms, slots, warps, blocks, memory):
    random = np.random.default_rng(seed)
    gpu, policies = random_gpu(random, core={"alu_latency": int(random.choice([1, 1, 6]))}), random_policies(random)
    check(random, gpu, random_blocks(random, blocks, warps), slots, *policies, sms=sms, memory=memory)


PAIRS = {
    "throttling and admission": (THROTTLING, ADMISSION),
    "throttling and reordering": (THROTTLING, BUFFERS),
    "admission and reordering": (ADMISSION, BUFFERS),
    "all three": (THROTTLING, ADMISSION, BUFFERS),
}


@pytest.mark.parametrize("kinds", PAIRS)
@examples(15)
@given(SEEDS, st.data(), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), MEMORIES)
def test_policies_of_different_kinds_work_together_alike(kinds, seed, data, sms, slots, barriers, memory):
    random = np.random.default_rng(seed)
    policies = data.draw(st.tuples(*PAIRS[kinds]))
    mix = Mix(most=9, pool=tuple(range(20)), ops=MOSTLY_LOADS, needs=(0, 1, 3), barriers=barriers)
    check(random, random_gpu(random), random_blocks(random, 2 * sms, 4, mix), slots, *policies, sms=sms, memory=memory)


# ---- throttling


@examples(15)
@given(SEEDS, SHAPES, THROTTLING, MEMORIES)
def test_the_same_of_many_warps_in_slots_used_again_are_active(seed, shape, policy, memory):
    random = np.random.default_rng(seed)
    schedulers, slots, warps = shape
    gpu = random_gpu(random, l1=PLENTY, core={"schedulers": schedulers, "ldst_queue": int(random.integers(1, 5))})
    mix = Mix(most=6, widest=2, ops=(Op.LOAD, Op.LOAD, Op.STORE, Op.BARRIER), needs=(0, 1, 3), gaps=(0, 2))
    check(random, gpu, random_blocks(random, 2 * slots, warps, mix), slots, policy, memory=memory)


@examples(25)
@given(SEEDS, THROTTLING, st.integers(1, 3), st.integers(1, 5), st.sampled_from([0.0, 0.9]), MEMORIES)
def test_warps_at_barriers_leave_their_ranks_to_others_alike(seed, policy, slots, barriers, empty, memory):
    random = np.random.default_rng(seed)
    mix = Mix(most=5, ops=MOSTLY_LOADS, barriers=barriers, needs=(0, 1), empty=empty)
    gpu = random_gpu(random, core={"ldst_queue": int(random.integers(1, 4))})
    check(random, gpu, random_blocks(random, 4, 5, mix), slots, policy, memory=memory)


@examples(25)
@given(SEEDS, st.integers(0, 2), st.integers(1, 3), ALLOCATE, MEMORIES)
def test_warps_without_tokens_hit_and_bypass_alike(seed, tokens, extra, allocate, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate, "ways": 2, "sets": 2}, core={"ldst_queue": 4})
    policy = PCAL(tokens=tokens, extra=extra)
    check(random, gpu, random_blocks(random, 4, 4, REUSE), 2, policy, memory=memory)


SAMPLINGS = st.builds(
    DWTCS,
    period=st.integers(1, 40),
    mpki=st.sampled_from([0.0, 2.0, 10.0, 25.0]),
    confirm=st.integers(1, 3),
    sample=st.integers(1, 3),
)


@examples(40)
@given(SEEDS, SAMPLINGS, st.integers(1, 4), st.integers(1, 8), st.integers(1, 2), MEMORIES)
def test_cores_sampling_finds_the_same_limit_at_the_same_time(seed, policy, sms, warps, slots, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"schedulers": int(random.integers(1, 3))})
    mix = Mix(most=14, ops=MOSTLY_LOADS, needs=(0, 1, 1), gaps=(0, 0, 3, 12))
    check(random, gpu, random_blocks(random, 3 * sms, warps, mix), slots, policy, sms=sms, memory=memory)


@examples(60)
@given(SEEDS, FEW_BLOCKS, st.integers(1, 3), st.integers(1, 6), st.integers(0, 2), MEMORIES)
def test_sms_have_and_run_the_same_number_of_blocks(seed, policy, sms, slots, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"alu_latency": int(random.choice([1, 1, 3, 9]))})
    mix = Mix(most=12, ops=MOSTLY_LOADS, needs=(0, 1, 1), gaps=(0, 0, 3, 12), barriers=barriers)
    check(random, gpu, random_blocks(random, 5 * sms, 3, mix), slots, policy, sms=sms, memory=memory)


@examples(60)
@given(SEEDS, LATENCIES, st.integers(1, 3), st.integers(1, 8), st.integers(0, 2), MEMORIES)
def test_warps_follow_the_latency_of_the_crossbar_alike(seed, policy, sms, warps, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"schedulers": int(random.integers(1, 3)), "store_acks": bool(random.integers(2))})
    mix = Mix(most=14, pool=tuple(range(12)), ops=MOSTLY_LOADS, needs=(0, 1, 1), gaps=(0, 0, 3), barriers=barriers)
    check(random, gpu, random_blocks(random, 3 * sms, warps, mix), 2, policy, sms=sms, memory=memory)


SCHEDULERS = st.sampled_from(get_args(CoreSched))


@examples(160)
@given(SEEDS, GROUPS_OF_BLOCKS, SCHEDULERS, st.integers(1, 3), st.integers(1, 6), st.integers(0, 2), MEMORIES)
def test_groups_of_blocks_begin_and_issue_alike(seed, policy, sched, sms, slots, barriers, memory):
    random = np.random.default_rng(seed)
    core = {"sched": sched, "schedulers": int(random.integers(1, 3)), "alu_latency": int(random.choice([1, 1, 5]))}
    mix = Mix(most=12, ops=MOSTLY_LOADS, needs=(0, 1, 1), gaps=(0, 0, 3, 12), barriers=barriers)
    blocks = random_blocks(random, 6 * sms, 3, mix)
    check(random, random_gpu(random, core=core), blocks, slots, policy, sms=sms, memory=memory)


@examples(80)
@given(SEEDS, ORDERED_GROUPS, SCHEDULERS, st.integers(1, 4), st.integers(1, 6), st.integers(0, 2), MEMORIES)
def test_groups_of_blocks_go_first_alike(seed, policy, sched, sms, slots, barriers, memory):
    random = np.random.default_rng(seed)
    core = {"sched": sched, "schedulers": int(random.integers(1, 3)), "alu_latency": int(random.choice([1, 1, 5]))}
    mix = Mix(most=12, ops=MOSTLY_LOADS, needs=(0, 1, 1), gaps=(0, 0, 3, 12), barriers=barriers)
    blocks = random_blocks(random, 6 * sms, 3, mix)
    check(random, random_gpu(random, core=core), blocks, slots, policy, sms=sms, memory=memory)


@examples(60)
@given(SEEDS, GROUPS, SHAPES, st.integers(1, 3), ALLOCATE, MEMORIES)
def test_sms_search_for_the_same_groups_of_warps(seed, policy, shape, sms, allocate, memory):
    random = np.random.default_rng(seed)
    schedulers, slots, warps = shape
    gpu = random_gpu(random, core={"schedulers": schedulers}, l1={"allocate": allocate})
    mix = Mix(most=8, pool=tuple(range(30)), ops=MOSTLY_LOADS, needs=(0, 1, 3), gaps=(0, 0, 3))
    check(random, gpu, random_blocks(random, (slots + 1) * sms, warps, mix), slots, policy, sms=sms, memory=memory)


@examples(60)
@given(SEEDS, FOOTPRINTS, SHAPES, st.integers(1, 2), st.integers(1, 12), st.integers(0, 2), MEMORIES)
def test_loops_and_what_warps_use_again_in_them_are_predicted_alike(seed, policy, shape, sms, pcs, barriers, memory):
    random = np.random.default_rng(seed)
    schedulers, slots, warps = shape
    core = {"schedulers": schedulers, "ldst_queue": 2, "alu_latency": int(random.choice([1, 5]))}
    gpu = random_gpu(random, core=core, l1={"ways": 4, "sets": 2, "mshrs": 8, "mshr_merge": 4, "mshr_per_warp": None})
    mix = Mix(most=20, widest=5, pool=tuple(range(9)), ops=MOSTLY_LOADS, needs=(0, 1), barriers=barriers, pcs=pcs)
    blocks = random_blocks(random, (slots + 1) * sms, warps, mix)
    check(random, gpu, blocks, slots, policy, sms=sms, memory=memory)


# ---- admission


TIGHT = {"mshrs": 1, "mshr_merge": 1, "miss_queue": 1, "mshr_per_warp": 1, "ways": 1}


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(18)
@given(SEEDS, st.one_of(st.just(BypassAll()), st.builds(BypassOnStall, on=STALLS)), st.sets(st.sampled_from([*TIGHT])))
def test_loads_that_lack_something_bypass_alike(allocate, seed, policy, tight):
    random = np.random.default_rng(seed)
    limits = {**PLENTY, "ways": 3, **{name: TIGHT[name] for name in tight}}
    gpu = random_gpu(random, l1={"allocate": allocate, **limits, "sets": 2}, core={"ldst_queue": 3})
    blocks = random_blocks(random, 4, 3, LOADS_AND_STORES)
    check(random, gpu, blocks, 2, policy, memory=None if random.random() < 0.7 else 20)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(20)
@given(
    SEEDS,
    st.integers(3, 90),
    st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]),
    THRASHING_MPKIS,
    st.integers(1, 2),
    MEMORIES,
)
def test_l1s_close_and_open_alike(allocate, seed, period, threshold, mpki, sms, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate, "ways": int(random.integers(1, 5)), "sets": 2})
    mix = Mix(most=30, widest=4, pool=tuple(range(int(random.integers(6, 20)))), ops=MOSTLY_LOADS, local=0.5, empty=0)
    blocks = random_blocks(random, 3 * sms, 3, mix)
    policy = StreamingBypass(period=period, threshold=threshold, mpki=mpki)
    check(random, gpu, blocks, 2, policy, sms=sms, memory=memory)


@pytest.mark.parametrize("counts", ["set", "cache"])
@pytest.mark.parametrize("since", ["use", "allocation"])
@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(25)
@given(SEEDS, st.integers(1, 24), st.integers(1, 4), MEMORIES)
def test_the_same_lines_are_protected(allocate, since, counts, seed, distance, ways, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate, "ways": ways, "sets": 2, "mshrs": 4})
    mix = Mix(most=30, widest=3, pool=tuple(range(14)), ops=MOSTLY_LOADS, local=0.5, empty=0, needs=(0, 1))
    check(
        random,
        gpu,
        random_blocks(random, 3, 3, mix),
        2,
        PD(distance=distance, counts=counts, since=since),
        memory=memory,
    )


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(40)
@given(SEEDS, DISTANCES, st.integers(1, 4), st.integers(1, 2), MEMORIES)
def test_distances_follow_sampled_reuses_alike(allocate, seed, policy, ways, sms, memory):
    random = np.random.default_rng(seed)
    l1 = {"allocate": allocate, "ways": ways, "sets": int(random.choice([1, 2, 4])), "index": Linear(), "mshrs": 4}
    gpu = random_gpu(random, l1=l1)
    mix = Mix(most=40, widest=3, pool=tuple(range(14)), ops=MOSTLY_LOADS, local=0.4, empty=0, needs=(0, 1))
    check(random, gpu, random_blocks(random, 3 * sms, 3, mix), 2, policy, sms=sms, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(50)
@given(SEEDS, HOT_LINES, st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, None, None, 9]))
def test_lines_that_an_l1_has_lost_stay_alike(allocate, seed, policy, ways, sms, memory):
    random = np.random.default_rng(seed)
    l1 = {"allocate": allocate, "ways": ways, "sets": 2, "mshrs": 4}
    gpu = random_gpu(random, l1=l1, l2={"ways": 4, "size": 4 * 128 * int(random.choice([1, 8]))})
    mix = Mix(most=40, widest=3, pool=tuple(range(14)), ops=MOSTLY_LOADS, local=0.4, empty=0, needs=(0, 1))
    check(random, gpu, random_blocks(random, 2 * sms, 3, mix), 2, policy, sms=sms, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(25)
@given(SEEDS, PATTERNS, st.integers(1, 4), st.integers(1, 3), MEMORIES)
def test_loads_are_told_apart_and_their_lines_protected_alike(allocate, seed, policy, ways, slots, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate, "ways": ways, "sets": 2, "mshrs": 6})
    mix = Mix(most=30, widest=3, pool=tuple(range(14)), ops=MOSTLY_LOADS, local=0.2, empty=0, pcs=4, exits=0.3)
    check(random, gpu, random_blocks(random, 3, 3, mix), slots, policy, memory=memory)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@examples(20)
@given(SEEDS, COUNTERS, st.integers(1, 4), MEMORIES)
def test_loads_whose_lines_go_unused_stop_bringing_them_alike(allocate, seed, policy, ways, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"allocate": allocate, "ways": ways, "sets": 2, "mshrs": 4})
    mix = Mix(most=30, widest=3, pool=tuple(range(16)), ops=MOSTLY_LOADS, local=0.3, empty=0, pcs=5)
    check(random, gpu, random_blocks(random, 3, 3, mix), 2, policy, memory=memory)


@examples(25)
@given(SEEDS, SCORES, st.integers(1, 4), st.integers(0, 2), MEMORIES)
def test_warps_that_lose_lines_go_first_alike(seed, policy, ways, barriers, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, l1={"ways": ways, "sets": 2, "mshrs": 4})
    mix = Mix(most=30, widest=3, pool=tuple(range(12)), ops=MOSTLY_LOADS, local=0.3, empty=0, barriers=barriers)
    check(random, gpu, random_blocks(random, 4, 4, mix), 2, policy, memory=memory)


@examples(25)
@given(SEEDS, st.integers(3, 90), st.sampled_from([0.1, 0.5, 0.9]), st.integers(1, 3))
def test_slices_close_and_open_alike(seed, period, threshold, sms):
    random = np.random.default_rng(seed)
    mix = Mix(most=30, widest=4, pool=tuple(range(int(random.integers(6, 30)))), ops=MOSTLY_LOADS, empty=0)
    policy = StreamingBypass(period=period, threshold=threshold, caches="l2")
    check(random, random_gpu(random), random_blocks(random, 3 * sms, 3, mix), 2, policy, sms=sms)


# ---- reordering


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize("signature", SIGNATURES)
@examples(6, least=2)
@given(SEEDS, st.booleans(), st.sampled_from([1, 1, 2, 4, None]), st.sampled_from([0, 0, 1, 5, 30]), MEMORIES)
def test_buffers_give_and_take_alike(signature, drain, seed, flush, entries, latency, memory):
    random = np.random.default_rng(seed)
    bypass = (None, None, "associativity", "all")[random.integers(4)]
    policy = MRPB(signature=signature, drain=drain, flush=flush, entries=entries, latency=latency, bypass=bypass)
    mix = (LOADS_AND_STORES, REUSE)[random.integers(2)]
    gpu = random_gpu(random, core={"ldst_queue": int(random.integers(1, 5))})
    check(random, gpu, random_blocks(random, 3, 4, mix), 2, policy, memory=memory)


@examples(12)
@given(SEEDS, BUFFERS, st.integers(0, 4), st.sampled_from([0, 1, 90]), MEMORIES)
def test_buffers_before_slow_l1s_hold_many_warps_alike(seed, policy, barriers, hit_latency, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"ldst_queue": 8, "hit_latency": hit_latency}, l1={"miss_queue": 1})
    mix = Mix(most=6, widest=12, pool=tuple(range(40)), ops=LOADS_AND_STORES.ops, needs=(0, 0, 1), barriers=barriers)
    check(random, gpu, random_blocks(random, 4, 8, mix), 2, policy, memory=memory)


# ---- real traces, through the public door


@examples(25)
@given(st.one_of(column_traces(), program_traces()).map(whole), SEEDS, st.integers(1, 3), MEMORIES, st.booleans())
def test_random_traces_equal_the_reference_through_the_public_door(trace, seed, sms, memory, stores):
    random = np.random.default_rng(seed)
    gpu, policies = random_gpu(random, line=int(random.choice([32, 128]))), random_policies(random)
    check_trace(trace, gpu, sms=sms, memory=memory, stores=stores, policies=policies)


TEXTS = [
    "swl:warps=2",
    "pcal:tokens=1,extra=2",
    "dwt-cs:period=500,confirm=1",
    "bypass-all",
    "bypass-on-stall",
    "streaming-bypass:period=300,threshold=0.3",
    "streaming-bypass:period=300,threshold=0.3,caches=l2",
    "pd",
    "ccws",
    "dyncta:period=200,low=20,high=60",
    "latency-limit:period=100,high=1.5,low=1.2,lost=0",
    "pdp:period=200,most=32,every=2",
    "lazy-cta",
    "owl:group=2",
    "cca:period=100",
    "daws:share=0.3",
    "g-cache:period=500,heat=2",
    "abyp:threshold=2",
    "apcm",
    "mrpb",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_kernel_equals_the_reference_through_the_public_door(text):
    check_trace(tracegen.kernel("atax.1", NX=64, NY=6), presets.gpu("gtx480-khairy"), sms=2, policies=[text])
