"""Test policies that limit the blocks of an SM on the reference machine against results derived by hand: `dyncta`.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import DYNCTA
from tests.support.machine_programs import chain, issued, load, logged, machine, simulated, store


def begun(outcome):
    """Return (cycle, block) of each start of a block."""
    return [(t, block) for t, _, _, block in logged(outcome, "begin")]


def test_dyncta_begins_with_half_of_the_blocks():
    # Blocks 0 and 1 end at 11 and 12, and leave their slots to blocks 2 and 3.
    outcome = simulated([[chain(i)] for i in range(4)], DYNCTA(), slots=4)
    assert issued(outcome) == [(0, 0), (1, 1), (12, 0), (13, 1)]


def test_dyncta_begins_with_one_block_where_one_fits():
    outcome = simulated([[chain(0)], [chain(1)]], DYNCTA(), slots=1)
    assert issued(outcome) == [(0, 0), (12, 0)]


WAITING = {"period": 10, "idle": 100, "low": 0, "high": 5}
"""Options that lower the limit if all warps await memory in more than 5 of 10 cycles, and that never raise it."""


def test_dyncta_pauses_the_youngest_block_while_warps_wait():
    # In cycles 2 to 9 both warps wait. With a limit of 1, block 1 loads only after block 0 has ended at 22; blocks 2
    # and 3 follow one after the other.
    outcome = simulated([[chain(0, 4)], [chain(1, 5)], [chain(2)], [chain(3)]], DYNCTA(**WAITING), slots=4)
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (23, 1), (35, 0), (47, 0)]


def test_a_paused_block_stores():
    # The store of block 1 needs its load, which is complete at 12; its next load waits until block 0 has ended at 22.
    block = [load(1), store(6, needs=1), load(5)]
    outcome = simulated([[chain(0, 4)], [block]], DYNCTA(**WAITING), slots=4)
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (12, 1), (23, 1)]


@pytest.mark.parametrize(("high", "second"), [(8, 12), (7, 23)])
def test_dyncta_counts_the_cycles_in_which_every_warp_waits(high, second):
    # The same eight cycles; if they are too many, block 1 waits for the end of block 0.
    outcome = simulated([[chain(0, 4)], [chain(1, 5)]], DYNCTA(**{**WAITING, "high": high}), slots=4)
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (second, 1)]


@pytest.mark.parametrize(("idle", "begin"), [(7, 9), (8, 29)])
def test_dyncta_adds_a_block_where_the_sm_is_idle(idle, begin):
    # Instructions issue at 0, 6, 12, 18, 24 and 30. The warp rests in 8 of cycles 0 to 9 and of 10 to 19, and in 9 of
    # cycles 20 to 29.
    gpu = machine(core={"alu_latency": 6})
    blocks = [[[load(0, gap=5)]], [[load(1)]]]
    outcome = simulated(blocks, DYNCTA(period=10, idle=idle, low=0, high=100), gpu=gpu, slots=2)
    assert begun(outcome) == [(-1, 0), (begin, 1)]


@pytest.mark.parametrize(("low", "begin"), [(10, 9), (9, 11)])
def test_dyncta_adds_a_block_where_warps_seldom_wait(low, begin):
    # The warp waits in cycles 1 to 9. Where that is not too few, block 1 begins when block 0 ends.
    outcome = simulated([[chain(0)], [chain(1)]], DYNCTA(period=10, idle=100, low=low, high=100), slots=2)
    assert begun(outcome) == [(-1, 0), (begin, 1)]


def test_a_warp_that_lacks_room_in_the_load_store_unit_waits_for_memory():
    # The first load keeps the unit busy in cycles 1 to 12. If that counted as idle, block 1 would begin at 9.
    wide = load(*range(12))
    policy = DYNCTA(period=10, idle=8, low=9, high=100)
    outcome = simulated([[[wide, load(12)]], [[load(13)]]], policy, gpu=machine(sets=4, ways=4), slots=2)
    assert begun(outcome)[1][0] > 9


def test_every_sm_has_its_own_limit():
    # SM 0 has a block that waits, SM 1 one that always issues; block 2 goes to SM 1 when the period ends.
    blocks = [[[load(0)]], [[load(1, gap=40)]], [[load(2)]]]
    outcome = simulated(blocks, DYNCTA(period=10, idle=100, low=5, high=100), slots=2, sms=2)
    assert [entry[1:] for entry in logged(outcome, "begin")] == [(0, 0, 0), (1, 0, 1), (1, 1, 2)]
