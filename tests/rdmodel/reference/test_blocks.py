"""Test policies that limit the blocks of an SM on the reference machine against results derived by hand.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import DYNCTA, LazyCTA
from tests.support.machine_programs import chain, issued, load, logged, machine, simulated, store


def begun(outcome):
    """Return (cycle, block) of each start of a block."""
    return [(t, block) for t, _, _, block in logged(outcome, "begin")]


# dyncta


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


# lazy-cta: the number of blocks


def waiting(blocks, gap, first=0):
    """Return blocks of one warp, which executes `gap` other instructions and then loads a line, from `first` on."""
    return [[[load(first + i, gap=gap)]] for i in range(blocks)]


LCS = LazyCTA(group=1)
ALL = LazyCTA(group=1, lcs=False)


@pytest.mark.parametrize(("policy", "later"), [(LCS, [(32, 3), (43, 4)]), (ALL, [(21, 3), (32, 4)])])
def test_lcs_keeps_the_blocks_that_issued_before_the_first_block_ended(policy, later):
    # Block 0 issues at 0 to 10 and ends at 21, block 1 issues at 11 to 21 and ends at 32, block 2 ends at 43. When the
    # first ends, two blocks have 11 instructions each, so two are enough.
    outcome = simulated(waiting(5, gap=10), policy, slots=3, sched="gto")
    assert begun(outcome) == [(-1, 0), (-1, 1), (-1, 2), *later]


@pytest.mark.parametrize(("policy", "later"), [(LCS, 20), (ALL, 15)])
def test_lcs_rounds_the_number_of_blocks_up(policy, later):
    # Three blocks have 5 instructions each when block 0 ends at 15, and block 3 has 1: 16 / 5. Block 1 ends at 20.
    outcome = simulated(waiting(6, gap=4), policy, slots=5, sched="gto")
    assert begun(outcome)[5:] == [(later, 5)]


def test_lcs_divides_by_the_block_with_most_instructions():
    # Block 0 ends at 11 with one instruction; block 1 has 11, and ends at 32. So two blocks stay, not twelve.
    outcome = simulated([[[load(0)]], *waiting(3, gap=20, first=1)], LCS, slots=3, sched="gto")
    assert begun(outcome)[3:] == [(32, 3)]


def test_lcs_spares_no_block_where_blocks_take_turns():
    # Blocks 0, 1 and 2 have 11 instructions each when block 0 ends at 41.
    outcome = simulated(waiting(4, gap=10), LCS, slots=3, sched="lrr")
    assert begun(outcome)[3:] == [(41, 3)]


def test_blocks_without_instructions_do_not_end_the_count():
    outcome = simulated([[[]], *waiting(5, gap=10)], LCS, slots=3, sched="gto")
    assert begun(outcome) == [(-1, 0), (-1, 1), (-1, 2), (-1, 3), (32, 4), (43, 5)]


def test_every_sm_counts_for_itself():
    # The blocks of SM 1 have issued one load each when the first ends at 11, so three stay. SM 0 needs two, and none of
    # its blocks but the first has ended when SM 1 takes the last block at 23.
    blocks = [waiting(1, gap=0 if i % 2 else 10, first=i)[0] for i in range(6)] + waiting(4, gap=0, first=6)
    outcome = simulated(blocks, LCS, slots=3, sms=2, sched="gto", gpu=machine(sets=8))
    assert [(t, sm, block) for t, sm, _, block in logged(outcome, "begin")[6:]] == [
        (11, 1, 6),
        (12, 1, 7),
        (13, 1, 8),
        (23, 1, 9),
    ]


# lazy-cta: groups


def test_bcs_deals_groups_to_the_sms():
    outcome = simulated([[chain(i)] for i in range(6)], LazyCTA(lcs=False), slots=4, sms=2)
    assert logged(outcome, "begin") == [
        (-1, 0, 0, 0),
        (-1, 0, 1, 1),
        (-1, 1, 0, 2),
        (-1, 1, 1, 3),
        (-1, 0, 2, 4),
        (-1, 0, 3, 5),
    ]


@pytest.mark.parametrize("blocks", [3, 4])
@pytest.mark.parametrize("group", [2, 3])
def test_a_group_waits_for_room_for_all_of_it(group, blocks):
    # Block 0 ends at 11 and block 1 at 12. Groups have two blocks, because two fit; the last one may have one.
    outcome = simulated([[chain(i)] for i in range(blocks)], LazyCTA(lcs=False, group=group), slots=2)
    assert begun(outcome) == [(-1, 0), (-1, 1), *((12, block) for block in range(2, blocks))]


def test_a_slot_stays_empty_until_a_group_fits():
    # Slot 2 is free from the start, slot 0 at 11.
    outcome = simulated([[chain(i)] for i in range(4)], LazyCTA(lcs=False), slots=3)
    assert logged(outcome, "begin") == [(-1, 0, 0, 0), (-1, 0, 1, 1), (11, 0, 0, 2), (11, 0, 2, 3)]


def test_a_group_of_blocks_without_instructions_stays_on_its_sm():
    outcome = simulated([[[]], [[]], [chain(0)], [chain(1)]], LazyCTA(), slots=2, sms=2)
    assert [(sm, block) for _, sm, _, block in logged(outcome, "begin")] == [(0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize(("gap", "later"), [(10, 54), (6, 24)])
def test_lcs_keeps_whole_groups(gap, later):
    # With a gap of 10, two blocks are enough: the next group waits until the last of four blocks has ended at 54. With
    # a gap of 6, three have issued 7, 7 and 4 instructions when the first ends at 17. So two groups stay, and the next
    # begins when two slots are free, at 24.
    outcome = simulated(waiting(6, gap), LazyCTA(), slots=4, sched="gto")
    assert begun(outcome)[4:] == [(later, 4), (later, 5)]


# lazy-cta: the warps of a group


def test_baws_lets_the_warps_of_a_group_take_turns():
    outcome = simulated(waiting(4, gap=2), LazyCTA(baws=True), slots=4, sched="gto")
    slots = [slot for _, _, slot, _ in logged(outcome, "issue")]
    assert slots == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]


def test_baws_stays_with_a_group_and_turns_to_the_oldest():
    # The data of blocks 0 and 1 are back at 11 and 12, while blocks 2 and 3 issue in turns up to 43. Then blocks 0 and
    # 1 go before blocks 4 and 5, although these are next in the order of slots.
    blocks = [[chain(0, 6)], [chain(1, 7)], *waiting(2, gap=20, first=2), *waiting(2, gap=0, first=4)]
    outcome = simulated(blocks, LazyCTA(baws=True), slots=6, sched="lrr", gpu=machine(sets=8))
    assert issued(outcome) == [(0, 0), (1, 1), (42, 2), (43, 3), (44, 0), (45, 1), (46, 4), (47, 5)]
