"""Blocks that keep their slots until their stores are acknowledged, in both machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import simulate
from rdmodel.policies import CCA, CCWS, DAWS, DWTCS, DYNCTA, OWL, PCAL, SWL, BypassOnStall, LazyCTA
from rdmodel.trace import Op
from tests.support.builders import make_trace
from tests.support.engine_checks import MEMORIES, SEEDS, check
from tests.support.examples import examples
from tests.support.random_machines import (
    MACHINES,
    Mix,
    mixed,
    random_blocks,
    random_gpu,
    random_policies,
    random_sectored_gpu,
)
from tests.support.scenarios import load, local, machine, store

ACKS = {"core": {"store_acks": True}}


@pytest.mark.parametrize("kind", MACHINES)
@examples(40)
@given(SEEDS, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), MEMORIES)
def test_blocks_wait_for_acknowledgements_alike(kind, seed, sms, slots, warps, memory):
    random = np.random.default_rng(seed)
    gpu = MACHINES[kind](random, **ACKS)
    mix = mixed(gpu, kind, most=8, ops=(Op.LOAD, Op.LOAD, Op.STORE, Op.STORE, Op.ATOMIC, Op.BARRIER), empty=0.1)
    check(random, gpu, random_blocks(random, 7, warps, mix), slots, sms, memory)


@examples(25)
@given(SEEDS, st.integers(1, 2), MEMORIES)
def test_policies_decide_alike_while_blocks_wait_for_acknowledgements(seed, sms, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, **ACKS)
    mix = Mix(most=8, ops=(Op.LOAD, Op.LOAD, Op.STORE), empty=0)
    check(random, gpu, random_blocks(random, 6, 3, mix), 2, sms, memory, random_policies(random))


@pytest.mark.parametrize(
    "policy",
    [
        SWL(warps=1),
        DWTCS(period=40, mpki=1.0, confirm=1, sample=1),
        CCWS(),
        DYNCTA(period=40, idle=5, low=10, high=25),
        LazyCTA(),
        OWL(group=2),
        CCA(period=25),
        DAWS(share=0.2, reuse=0.1, converged=1),
        PCAL(tokens=1),
        BypassOnStall(),
    ],
)
@examples(6, least=2)
@given(SEEDS, MEMORIES)
def test_policies_decide_alike_by_sector_while_blocks_wait_for_acknowledgements(policy, seed, memory):
    random = np.random.default_rng(seed)
    gpu = random_sectored_gpu(random, **ACKS)
    mix = mixed(gpu, "sectors", most=8, ops=(Op.LOAD, Op.LOAD, Op.STORE), empty=0)
    check(random, gpu, random_blocks(random, 6, 3, mix), 2, 2, memory, (policy,))


# ---- one store, by hand


def run(*instructions, blocks=1, acks=True, **options):
    trace = make_trace([[list(instructions)]] * blocks, warps=1)
    return simulate(trace, machine(core={"store_acks": acks}), check=True, **options)


def test_a_block_ends_when_the_acknowledgement_of_its_store_arrives():
    # Issued in cycle 0, served and sent in cycle 1.
    assert run(store(1), memory=100, acks=False).cycles == 2
    assert run(store(1), memory=100).cycles == 102


def test_the_next_block_begins_after_the_acknowledgements_of_the_one_before():
    # It issues in cycle 102.
    assert run(store(1), blocks=2, memory=100).cycles == 204


def test_a_store_takes_as_long_as_the_crossbar_and_the_l2_do():
    read, written = run(load(1)), run(store(1))
    assert 120 < written.cycles < read.cycles
    assert run(store(1), acks=False).cycles == 2


def test_acknowledgements_are_responses_of_8_bytes():
    silent, told = run(store(1), store(2), load(3), acks=False).traffic, run(store(1), store(2), load(3)).traffic
    assert (silent.response_messages, told.response_messages) == (1, 3)
    assert told.response_bytes == silent.response_bytes + 16
    assert (told.request_bytes, told.write_messages) == (silent.request_bytes, silent.write_messages)


def test_stores_that_stay_in_the_l1_and_stores_without_transactions_are_not_waited_for():
    trace = local(make_trace([[[store(1)]]], warps=1))
    assert simulate(trace, machine(core={"store_acks": True}), memory=100).cycles == 2
    assert run(store(1), memory=100, stores=False).cycles == 1
