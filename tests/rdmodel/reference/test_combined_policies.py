"""Test policies together on the reference machine: by hand, and by invariants of random programs.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.policies import (
    ABYP,
    APCM,
    CCWS,
    DWTCS,
    MRPB,
    PCAL,
    PD,
    SWL,
    BypassAll,
    BypassOnStall,
    Linear,
    StreamingBypass,
)
from rdmodel.reference.machine import run as machine_run
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, WRITE
from rdmodel.trace import Op
from tests.support.examples import examples
from tests.support.machine_programs import accessed, chain, load, logged, simulated, store
from tests.support.random_machines import random_blocks, random_gpu, random_policies

# Policies together.


def test_throttling_admission_and_reordering_act_together():
    # Only warp 0 loads. Its lines enter the buffer at 1 and 2 and bypass at 6 and 7; back at 17 it ends, and warp 1
    # issues at 18.
    outcome = simulated([[[load(0, 1)], [load(2)]]], SWL(warps=1), BypassAll(), MRPB())
    assert accessed(outcome) == [(6, 0, BYPASSED), (7, 1, BYPASSED), (24, 2, BYPASSED)]


def test_loads_without_a_token_that_bypass_have_not_found_their_line():
    # The warps take turns with other instructions until 13, when warp 1 loads. Line 2 is the only one of cycles 20 to
    # 39: the L1 is closed, so that line 0 does not hit any more.
    block = [[load(0), store(gap=99)], [load(0, gap=6), *chain(1, 2, 0)]]
    outcome = simulated([block], PCAL(tokens=1, extra=1), StreamingBypass(period=20, threshold=0.9))
    others = [(18, 1, BYPASSED), (29, 2, BYPASSED), (40, 0, BYPASSED)]
    assert accessed(outcome) == [(1, 0, MISS), (14, 0, HIT), *others]


# Any program.

SEEDS = st.integers(0, 2**32 - 1)
MEMORIES = st.sampled_from([None, None, 0, 1, 7, 60])
CONSERVED = examples(75)


@pytest.fixture(autouse=True, scope="module")
def short_idle_limit():
    """Lower `MAX_IDLE_CYCLES`: in these tests, only a machine at a standstill has so many cycles without an event."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine_run, "MAX_IDLE_CYCLES", 5000)
        yield


@CONSERVED
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_every_program_ends_under_every_policy_with_all_transactions_counted(seed, sms, slots, warps, blocks, memory):
    # The end of a run asserts that all queues are empty and that what was counted adds up.
    random = np.random.default_rng(seed)
    gpu, programs, policies = random_gpu(random), random_blocks(random, blocks, warps), random_policies(random)
    outcome = simulated(programs, *policies, gpu=gpu, slots=slots, sms=sms, memory=memory)
    assert sum(sm["blocks"] for sm in outcome.sms) == blocks
    accesses = logged(outcome, "access")
    misses = sorted((where, line) for _, where, line, what in accesses if what == MISS)
    assert sorted((where, line) for _, where, line in logged(outcome, "fill")) == misses
    loads = sum(len(one.lines) for block in programs for warp in block for one in warp if one.op == Op.LOAD)
    assert sum(what != WRITE for *_, what in accesses) == loads
    assert sum(what == BYPASSED for *_, what in accesses) == sum(sm["bypassed"] for sm in outcome.sms)


IDLE = [
    (SWL(warps=99),),
    (PCAL(tokens=99, extra=0),),
    (DWTCS(period=20, mpki=1e9),),
    (BypassOnStall(),),
    (StreamingBypass(period=20, threshold=1.0),),
    (PD(distance=1),),
    (CCWS(),),
    (ABYP(),),
    (APCM(mode="protect"),),
]


@examples(30)
@given(SEEDS, st.sampled_from(IDLE), MEMORIES)
def test_policies_that_never_act_change_nothing(seed, policies, memory):
    random = np.random.default_rng(seed)
    # No stall on ways and no line replaced in sets of so many of them, and no fill that asks for protection.
    gpu = random_gpu(random, l1={"allocate": "miss", "sets": 1, "ways": 40, "index": Linear()})
    blocks = random_blocks(random, 4, 3)
    shape = {"gpu": gpu, "slots": 2, "sms": 2, "memory": memory}
    assert simulated(blocks, *policies, **shape) == simulated(blocks, **shape)


@examples(30)
@given(SEEDS, MEMORIES)
def test_warps_never_overtake_themselves_in_the_buffer(seed, memory):
    # Lines that no two instructions share tell what was accessed when.
    random = np.random.default_rng(seed)
    blocks = random_blocks(random, 3, 3)
    fresh = iter(range(10**6))
    blocks = [
        [[one._replace(lines=tuple(next(fresh) for _ in one.lines)) for one in warp] for warp in b] for b in blocks
    ]
    reordering = tuple(policy for policy in random_policies(random) if isinstance(policy, MRPB)) or (MRPB(),)
    outcome = simulated(blocks, *reordering, gpu=random_gpu(random), slots=2, memory=memory)
    order = {line: place for place, (_, _, line, _) in enumerate(logged(outcome, "access"))}
    for warp in (warp for block in blocks for warp in block):
        places = [order[line] for one in warp for line in one.lines]
        assert places == sorted(places)
