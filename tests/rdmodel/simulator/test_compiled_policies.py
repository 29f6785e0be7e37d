"""Compiled policies of users run alike in the compiled machine and in the cycle-by-cycle reference.

The policies of tests/data/plugins/chaos.c decide by a hash of all events and arguments, so that any difference between
what the two machines report and ask would show.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import simulate
from rdmodel.policies import APCM, CCWS, MRPB, PD, SWL, StreamingBypass
from rdmodel.trace import Op
from tests.support.compiled_policies import compiled
from tests.support.engine_checks import MEMORIES, MOSTLY_LOADS, SEEDS, check
from tests.support.examples import examples
from tests.support.presets import FERMI
from tests.support.random_machines import (
    Mix,
    random_blocks,
    random_gpu,
    random_partitioned_gpu,
    random_policies,
    random_sectored_gpu,
)

SHARES = st.sampled_from([0.0, 0.1, 0.4, 0.9])
CHAOS = st.fixed_dictionaries(
    {"seed": st.integers(0, 9), "period": st.sampled_from([1, 7, 50, 400]), "bypassing": SHARES, "refusing": SHARES}
)
REUSE = Mix(
    most=16, pool=tuple(range(16)), ops=(*MOSTLY_LOADS, Op.ATOMIC), needs=(0, 1, 3), local=0.5, empty=0.1, barriers=1
)
MACHINES = st.sampled_from([random_gpu, random_sectored_gpu, random_partitioned_gpu])


def admission(options):
    return compiled("chaos.c")(**options)


def throttling(options):
    return compiled("chaos_throttling.c")(**options)


def blocks_for(random, gpu, count, warps):
    sectors = gpu.l1.sectors
    mix = REUSE if sectors == 1 else Mix(sectors=sectors, most=16, pool=tuple(range(16)), widest=4, ops=MOSTLY_LOADS)
    return random_blocks(random, count, warps, mix)


@pytest.mark.parametrize("make", [admission, throttling])
@examples(60)
@given(MACHINES, SEEDS, CHAOS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), MEMORIES)
def test_both_machines_report_the_same_events_and_ask_the_same_questions(
    make, draw, seed, options, sms, slots, warps, memory
):
    random = np.random.default_rng(seed)
    gpu = draw(random)
    check(random, gpu, blocks_for(random, gpu, 2 * sms + 1, warps), slots, sms, memory, (make(options),))


@examples(60)
@given(MACHINES, SEEDS, CHAOS, CHAOS, st.integers(1, 3), MEMORIES)
def test_two_compiled_policies_keep_data_of_their_own(draw, seed, one, other, sms, memory):
    random = np.random.default_rng(seed)
    gpu = draw(random)
    policies = (admission(one), throttling(other))
    check(random, gpu, blocks_for(random, gpu, 2 * sms, 4), 2, sms, memory, policies)


BUILT_IN_ADMISSION = st.sampled_from(
    [PD(distance=4), APCM(tags=4), StreamingBypass(period=40, threshold=0.3), StreamingBypass(period=7, threshold=0.0)]
)


@examples(50)
@given(MACHINES, SEEDS, CHAOS, BUILT_IN_ADMISSION, MEMORIES)
def test_a_compiled_policy_that_throttles_joins_one_of_the_package_that_admits(draw, seed, options, built_in, memory):
    random = np.random.default_rng(seed)
    gpu = draw(random)
    check(random, gpu, blocks_for(random, gpu, 4, 4), 2, 2, memory, (built_in, throttling(options)))


@examples(50)
@given(MACHINES, SEEDS, CHAOS, st.sampled_from([SWL(warps=1), CCWS(base=4)]), st.booleans(), MEMORIES)
def test_a_compiled_policy_that_admits_joins_those_of_the_package(draw, seed, options, built_in, reorders, memory):
    random = np.random.default_rng(seed)
    gpu = draw(random)
    reordering = tuple(policy for policy in random_policies(random) if isinstance(policy, MRPB)) if reorders else ()
    check(random, gpu, blocks_for(random, gpu, 4, 4), 2, 2, memory, (built_in, admission(options), *reordering))


def test_a_policy_with_least_recent_replacement_changes_nothing():
    trace = tracegen.kernel("gemm", NI=64, NJ=64, NK=64)
    plain = simulate(trace, FERMI, sms=2)
    mine = simulate(trace, FERMI, sms=2, policies=[compiled("lru.c")()])
    assert (mine.cycles, mine.hits, mine.miss_rate) == (plain.cycles, plain.hits, plain.miss_rate)


@pytest.mark.parametrize("limit", [1, 3])
def test_the_static_limit_as_a_compiled_policy_equals_that_of_the_package(limit):
    trace = tracegen.kernel("gemm", NI=64, NJ=64, NK=64)
    ours = simulate(trace, FERMI, sms=2, policies=[SWL(warps=limit)])
    mine = simulate(trace, FERMI, sms=2, policies=[compiled("oldest.c")(warps=limit)])
    assert (mine.cycles, mine.hits, mine.warp_instructions) == (ours.cycles, ours.hits, ours.warp_instructions)
