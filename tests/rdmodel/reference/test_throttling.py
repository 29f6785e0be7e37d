"""Test throttling policies on the reference machine against results derived by hand: `swl`, `pcal`, `dwt-cs`.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import DWTCS, PCAL, SWL
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING
from tests.support.machine_programs import (
    accessed,
    barrier,
    chain,
    counted,
    issued,
    load,
    logged,
    machine,
    one_warp,
    outcomes,
    simulated,
    store,
)

# Throttling: swl.


def test_swl_lets_the_oldest_warps_load_until_they_end():
    # Warp 0 loads at 0 and 11 and ends at 22; only then warp 1 is the oldest.
    outcome = simulated([[chain(0, 2), chain(1)]], SWL(warps=1))
    assert issued(outcome) == [(0, 0), (11, 0), (23, 1)]
    assert (outcome.cycles, outcome.limits) == (35, None)


def test_swl_counts_the_warps_of_every_scheduler():
    gpu = machine(core={"schedulers": 2, "ldst_queue": 2})
    outcome = simulated([[chain(0), chain(1), chain(2), chain(3)]], SWL(warps=1), gpu=gpu)
    # Line 0 is back at 11, line 1 at 12.
    assert issued(outcome) == [(0, 0), (0, 1), (12, 2), (13, 3)]


def test_swl_stops_loads_with_transactions_only():
    # Warp 1 executes another instruction, a store, and a load that makes no transactions; its load of line 2 waits
    # until warp 0 has ended at 11.
    outcome = simulated([[[load(0)], [store(1, gap=1), load(), load(2)]]], SWL(warps=1), sched="old")
    assert [(t, slot) for t, _, slot, _ in logged(outcome, "issue")] == [(0, 0), (1, 1), (2, 1), (3, 1), (12, 1)]


def test_a_warp_at_a_barrier_leaves_its_rank_to_the_next():
    # Warp 0 waits at the barrier from 0 until warp 1 comes at 2.
    outcome = simulated([[[barrier(), load(0)], [load(1), barrier()]]], SWL(warps=1))
    assert issued(outcome) == [(1, 1), (3, 0)]


def test_the_rank_goes_by_age_and_not_by_slot():
    # Block 0 ends at 0 and leaves slot 0 to block 2, whose warp is younger than that of block 1 in slot 1. That one
    # loads at 1 and ends at 12.
    outcome = simulated([[[store()]], [chain(0)], [chain(1)]], SWL(warps=1), slots=2)
    assert issued(outcome) == [(0, 0), (1, 1), (13, 0)]


# Throttling: pcal.


def test_pcal_lets_extra_warps_hit_and_merge_but_not_miss():
    # Warp 0 misses at 1 and, line 0 being back at 11, at 12; it ends at 22. Warp 1 has no token: line 0 is in flight at
    # 2, line 2 bypasses at 3 and is back at 13; then line 0 hits, and line 2 bypasses again until 25. Warp 2 waits
    # until warp 0 has ended, and is the second one then.
    block = [chain(0, 3), [load(0), load(2), load(0, 2, needs=0b11)], chain(1)]
    outcome = simulated([block], PCAL(tokens=1, extra=1), sched="old")
    assert accessed(outcome) == [
        (1, 0, MISS),
        (2, 0, PENDING),
        (3, 2, BYPASSED),
        (12, 3, MISS),
        (14, 0, HIT),
        (15, 2, BYPASSED),
        (24, 1, BYPASSED),
    ]
    assert [(t, line) for t, _, line in logged(outcome, "fill")] == [(11, 0), (22, 3)]
    assert counted(outcome, "bypassed", "compulsory", "read_messages", "transactions") == (3, 2, 5, 7)
    assert outcome.cycles == 35


def test_pcal_marks_a_load_when_it_issues():
    # Warp 0 ends at 2, and warp 1 is the oldest at 3; but its load issued at 1.
    outcome = simulated([[[store(gap=1)], [load(0, 2), load(1)]]], PCAL(tokens=1, extra=1))
    assert issued(outcome) == [(1, 1), (2, 0), (3, 1)]
    assert outcomes(outcome) == [BYPASSED, BYPASSED, MISS]


# Throttling: dwt-cs.


def test_dwt_cs_samples_limits_and_lets_the_best_sm_win():
    # Cycles 0 to 9: two loads and two misses on each SM, 1000 * 4 / 128 misses per 1000 instructions. 10 to 19: SM 0
    # with one warp issues one load, SM 1 with two warps two. SM 1 is the last, but a scheduler has no more than two
    # warps: so 2 it is, and warp 1 of SM 0 issues again at 20.
    block = [chain(0, 2, 4), chain(1, 3)]
    outcome = simulated([block, block], DWTCS(period=10, confirm=1, sample=1), sms=2)
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (20, 1), (22, 0)]
    assert issued(outcome, sm=1) == [(0, 0), (1, 1), (11, 0), (12, 1), (22, 0)]
    assert outcome.limits == 2


def test_dwt_cs_gives_the_lowest_sm_a_tie():
    # In cycles 5 to 9 nobody executes anything. There is no second round, though a scheduler has three warps.
    block = [chain(0, 2), chain(1, 3), []]
    outcome = simulated([block, block], DWTCS(period=5, confirm=1, sample=1), sms=2)
    assert outcome.limits == 1
    assert issued(outcome, sm=1) == [(0, 0), (1, 1), (11, 0), (23, 1)]


def test_dwt_cs_tries_larger_limits_where_the_last_sm_wins():
    # One SM, three warps. Watching until 9, limit 1 until 19, limit 2 until 29, which wins. Warp 0 loads at 0, 11, 22
    # and ends at 33; warp 1 at 1, 20, 31; warp 2 at 2 and, as the second one, at 34.
    outcome = simulated([[chain(0, 2, 4), chain(1, 3, 5), chain(6, 7)]], DWTCS(period=10, confirm=1, sample=1))
    assert issued(outcome) == [(0, 0), (1, 1), (2, 2), (11, 0), (20, 1), (22, 0), (31, 1), (34, 2)]
    assert outcome.limits == 2


def test_dwt_cs_sums_over_all_periods_of_a_sample():
    # Both miss in cycle 1. SM 0 executes three in cycles 5 to 9, SM 1, whose second load waits until 11, four in
    # 10 to 14.
    blocks = [[[load(0), store(gap=6)], []], [[*chain(0, 1), store(gap=8)], []]]
    one, two = (simulated(blocks, DWTCS(period=5, confirm=1, sample=n), sms=2).limits for n in (1, 2))
    assert (one, two) == (1, 2)


@pytest.mark.parametrize(("confirm", "limit"), [(1, 1), (2, None)])
def test_dwt_cs_wants_too_many_misses_in_several_periods_in_a_row(confirm, limit):
    # The loads of 0, 11, 22 and 33 miss in cycles 0 to 4, 10 to 14, 20 to 24 and 30 to 34, between which there are
    # periods in which nothing executes.
    outcome = simulated([[chain(0, 2, 4, 6)]], DWTCS(period=5, confirm=confirm, sample=1))
    assert outcome.limits == limit


@pytest.mark.parametrize(("mpki", "limit"), [(31.25, None), (31, 1)])
def test_dwt_cs_compares_with_misses_per_thousand_thread_instructions(mpki, limit):
    # One miss in 32 instructions is 31.25 in 1000, in cycles 0 to 9, 10 to 19 and 20 to 29.
    assert simulated([[chain(0, 2, 4)]], DWTCS(period=10, confirm=1, sample=1, mpki=mpki)).limits == limit


def test_dwt_cs_counts_what_happens_up_to_the_last_cycle_of_a_period():
    # The miss at 1 is in the first of the periods of 2. The block ends at 11, when a second period of 6 is over, but
    # not one of 7.
    ends = [simulated([[chain(0)]], DWTCS(period=n, confirm=1, sample=1)).limits for n in (2, 6, 7)]
    assert ends == [1, 1, None]


def test_periods_end_while_blocks_are_resident_only():
    # The load is on its way at 59, the end of the first period. At 119, the end of the second, stores still leave
    # the queue, 17 cycles each, but the block has ended.
    program = [load(0), store(*range(1, 9), needs=1)]
    gpu = machine(crossbar={"width": 8})
    outcome = one_warp(*program, gpu=gpu, policies=[DWTCS(period=60, confirm=1, sample=1)], memory=None)
    assert 60 < outcome.cycles < 119 < logged(outcome, "slice")[-1][0]
    assert outcome.limits is None


def test_dwt_cs_that_knows_a_limit_does_not_sample():
    # Two loads and two misses on each SM until 9, and as soon as that is too many, one warp loads: warp 0 at 11 and 22,
    # which ends at 33, then warp 1.
    block = [chain(0, 2, 4), chain(1, 3)]
    outcome = simulated([block, block], DWTCS(period=10, confirm=1, limit=1), sms=2)
    for sm in range(2):
        assert issued(outcome, sm) == [(0, 0), (1, 1), (11, 0), (22, 0), (34, 1)]
    assert outcome.limits == 1


def test_dwt_cs_waits_until_it_needs_the_limit_that_it_knows():
    # One warp from 20 on: warp 1, whose data are there at 23, issues again when warp 0 has ended at 33.
    block = [chain(0, 2, 4), chain(1, 3, 5)]
    outcome = simulated([block], DWTCS(period=10, confirm=2, limit=1))
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (12, 1), (22, 0), (34, 1)]
    outcome = simulated([block], DWTCS(period=10, mpki=1e9, limit=1))
    assert issued(outcome)[-2:] == [(22, 0), (23, 1)]
    assert outcome.limits is None


def test_dwt_cs_knows_no_limit_beyond_the_warps_of_a_scheduler():
    assert simulated([[chain(0, 2), chain(1, 3)]], DWTCS(period=10, confirm=1, limit=9)).limits == 2
