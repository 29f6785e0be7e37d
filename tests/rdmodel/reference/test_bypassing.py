"""Test the policies of the reference machine against results derived by hand, and its invariants under policies.

Unless a test says otherwise, there are, as in test_machine.py, one scheduler, one place in the load/store queue and two
sets of two ways. Data arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1
at t + 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
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
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING, WRITE
from rdmodel.trace import Op
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
from tests.support.random_machines import random_blocks, random_gpu, random_policies

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
    outcome = simulated([block, block], DWTCS(period=10, confirm=1), sms=2)
    assert issued(outcome) == [(0, 0), (1, 1), (11, 0), (20, 1), (22, 0)]
    assert issued(outcome, sm=1) == [(0, 0), (1, 1), (11, 0), (12, 1), (22, 0)]
    assert outcome.limits == 2


def test_dwt_cs_gives_the_lowest_sm_a_tie():
    # In cycles 5 to 9 nobody executes anything. There is no second round, though a scheduler has three warps.
    block = [chain(0, 2), chain(1, 3), []]
    outcome = simulated([block, block], DWTCS(period=5, confirm=1), sms=2)
    assert outcome.limits == 1
    assert issued(outcome, sm=1) == [(0, 0), (1, 1), (11, 0), (23, 1)]


def test_dwt_cs_tries_larger_limits_where_the_last_sm_wins():
    # One SM, three warps. Watching until 9, limit 1 until 19, limit 2 until 29, which wins. Warp 0 loads at 0, 11, 22
    # and ends at 33; warp 1 at 1, 20, 31; warp 2 at 2 and, as the second one, at 34.
    outcome = simulated([[chain(0, 2, 4), chain(1, 3, 5), chain(6, 7)]], DWTCS(period=10, confirm=1))
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
    outcome = simulated([[chain(0, 2, 4, 6)]], DWTCS(period=5, confirm=confirm))
    assert outcome.limits == limit


@pytest.mark.parametrize(("mpki", "limit"), [(31.25, None), (31, 1)])
def test_dwt_cs_compares_with_misses_per_thousand_thread_instructions(mpki, limit):
    # One miss in 32 instructions is 31.25 in 1000, in cycles 0 to 9, 10 to 19 and 20 to 29.
    assert simulated([[chain(0, 2, 4)]], DWTCS(period=10, confirm=1, mpki=mpki)).limits == limit


def test_dwt_cs_counts_what_happens_up_to_the_last_cycle_of_a_period():
    # The miss at 1 is in the first of the periods of 2. The block ends at 11, when a second period of 6 is over, but
    # not one of 7.
    ends = [simulated([[chain(0)]], DWTCS(period=n, confirm=1)).limits for n in (2, 6, 7)]
    assert ends == [1, 1, None]


def test_periods_end_while_blocks_are_resident_only():
    # The load is on its way at 59, the end of the first period. At 119, the end of the second, stores still leave
    # the queue, 17 cycles each, but the block has ended.
    program = [load(0), store(*range(1, 9), needs=1)]
    gpu = machine(crossbar={"width": 8})
    outcome = one_warp(*program, gpu=gpu, policies=[DWTCS(period=60, confirm=1)], memory=None)
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


# Admission: bypass-all.


def test_nothing_hits_where_all_loads_bypass():
    outcome = one_warp(load(0), load(0, needs=1), policies=[BypassAll()])
    assert accessed(outcome) == [(1, 0, BYPASSED), (12, 0, BYPASSED)]
    assert (outcome.cycles, logged(outcome, "fill")) == (23, [])
    assert counted(outcome, "bypassed", "transactions", "read_messages", "compulsory") == (2, 2, 2, 0)


def test_reads_that_bypass_merge_in_the_l2_and_are_answered_one_by_one():
    outcome = one_warp(load(0, 0), load(0, needs=1), policies=[BypassAll()], memory=None)
    assert [what for *_, what in logged(outcome, "slice")] == [MISS, PENDING, HIT]
    assert counted(outcome, "read_messages", "bypassed") == (3, 3)


def test_a_load_that_bypasses_waits_for_room_in_the_miss_queue():
    # As with stores: of line 0 at 1 the port is busy until 18, line 1 waits in the queue of one. The load tries from
    # 3 to 18.
    gpu = machine(l1={"miss_queue": 1}, crossbar={"width": 8})
    outcome = one_warp(store(0, 1), load(2), gpu=gpu, policies=[BypassAll()], memory=None)
    assert accessed(outcome) == [(1, 0, WRITE), (2, 1, WRITE), (19, 2, BYPASSED)]
    assert counted(outcome, "fail_miss_queue") == (16,)


def test_local_stores_use_the_l1_that_all_loads_bypass():
    gpu = machine(sets=1, ways=1)
    outcome = one_warp(store(0, 1, local=True), load(1), gpu=gpu, policies=[BypassAll()])
    assert outcomes(outcome) == [WRITE, WRITE, BYPASSED]
    assert counted(outcome, "intra_warp", "write_messages") == (1, 1)


# Admission: bypass-on-stall.


def test_a_load_bypasses_a_set_of_reserved_ways():
    # Lines 0, 2 and 4 share a set of two ways. Line 4 comes at 13 and is not in the L1 then, which has never seen it.
    outcome = one_warp(load(0, 2, 4), load(4, needs=1), policies=[BypassOnStall()])
    assert accessed(outcome) == [(1, 0, MISS), (2, 2, MISS), (3, 4, BYPASSED), (14, 4, MISS)]
    assert counted(outcome, "fail_line_alloc", "compulsory", "bypassed") == (0, 3, 1)


@pytest.mark.parametrize("limit", ["mshrs", "mshr_per_warp"])
@pytest.mark.parametrize(("on", "last"), [("associativity", (11, 1, MISS)), ("all", (2, 1, BYPASSED))])
def test_what_a_load_does_without_an_mshr_depends(on, last, limit):
    outcome = one_warp(load(0, 1), gpu=machine(l1={limit: 1}), policies=[BypassOnStall(on=on)])
    assert accessed(outcome)[-1] == last
    assert counted(outcome, "fail_mshr_entry") == (0 if on == "all" else 9,)


@pytest.mark.parametrize(("on", "last"), [("associativity", (11, 5, HIT)), ("all", (2, 5, BYPASSED))])
def test_what_a_load_does_at_a_full_mshr_depends(on, last):
    gpu = machine(l1={"mshr_merge": 1})
    outcome = simulated([[[load(5)], [load(5)]]], BypassOnStall(on=on), gpu=gpu)
    assert accessed(outcome)[-1] == last


def test_a_full_miss_queue_stops_a_load_that_may_bypass_every_stall():
    gpu = machine(l1={"miss_queue": 1}, crossbar={"width": 8})
    outcome = one_warp(store(0, 1), load(2), gpu=gpu, policies=[BypassOnStall(on="all")], memory=None)
    assert accessed(outcome)[-1] == (19, 2, MISS)
    assert counted(outcome, "fail_miss_queue") == (16,)


# Admission: pd.


def test_a_miss_that_would_displace_a_protected_line_bypasses():
    # One set. Loads seen by the set before each access, and last uses: 0 at 0, 1 at 1. Line 2 (2 seen): 0 is protected
    # for 3. Line 3 (3 seen) displaces 0. Line 1 hits (4 seen). Line 0 (5 seen): 3, last used at 3, is protected; at 6
    # it is not. The shadow of two lines saw 0, 1, 3, 1: not line 0.
    gpu = machine(sets=1)
    outcome = one_warp(*chain(0, 1, 2, 3, 1, 0, 0), gpu=gpu, policies=[PD(distance=3)])
    assert outcomes(outcome) == [MISS, MISS, BYPASSED, MISS, HIT, BYPASSED, MISS]
    assert counted(outcome, "compulsory", "capacity", "associativity", "intra_warp") == (3, 1, 0, 2)


def test_every_set_counts_its_own_loads():
    # Line 1 is of the other set: line 4 (2 seen in set 0) finds line 0 protected for 3.
    outcome = one_warp(*chain(0, 2, 1, 3, 4), policies=[PD(distance=3)])
    assert outcomes(outcome) == [MISS, MISS, MISS, MISS, BYPASSED]


def test_local_stores_displace_protected_lines():
    # The store displaces line 0; line 1 is then protected.
    gpu = machine(sets=1)
    outcome = one_warp(*chain(0, 1), store(2, needs=1, local=True), load(0), gpu=gpu, policies=[PD(distance=3)])
    assert outcomes(outcome) == [MISS, MISS, WRITE, BYPASSED]


def test_protection_is_asked_for_when_a_way_is_there():
    # All ways of the set are reserved until line 0 comes at 11, with two loads seen since its last use at 0.
    for distance, what in ((2, MISS), (3, BYPASSED)):
        outcome = one_warp(load(0, 2, 4), policies=[PD(distance=distance)])
        assert accessed(outcome)[-1] == (11, 4, what)
        assert counted(outcome, "fail_line_alloc") == (8,)


def test_protection_comes_before_mshrs_and_the_queue():
    # Line 4 waits for nothing, though there is no MSHR until line 1 comes at 35.
    gpu = machine(l1={"mshrs": 1})
    outcome = one_warp(*chain(0, 2), load(1, needs=1), load(4), gpu=gpu, policies=[PD()])
    assert accessed(outcome)[2:] == [(23, 1, MISS), (24, 4, BYPASSED)]


def test_a_line_is_not_filled_where_a_protected_one_would_go():
    # One way, distance 2. Line 0 comes at 11 (1 seen). Line 1 comes at 22 (2 seen): line 0 stays, hits (2 seen).
    # Line 1 misses again (3 seen) and comes at 37 (4 seen).
    gpu = machine(sets=1, ways=1, l1={"allocate": "fill"})
    outcome = one_warp(*chain(0, 1, 0, 1, 1), gpu=gpu, policies=[PD(distance=2)])
    assert outcomes(outcome) == [MISS, MISS, HIT, MISS, HIT]
    assert [(t, line) for t, _, line in logged(outcome, "fill")] == [(11, 0), (22, 1), (37, 1)]
    assert counted(outcome, "intra_warp") == (1,)


def test_a_line_that_a_local_store_wrote_on_its_way_is_filled_all_the_same():
    gpu = machine(sets=1, ways=1, l1={"allocate": "fill"})
    program = [*chain(0, 1), store(1, local=True), load(1, needs=0b10), load(2, needs=1)]
    outcome = one_warp(*program, gpu=gpu, policies=[PD(distance=2)])
    assert outcomes(outcome) == [MISS, MISS, WRITE, HIT, MISS]
    assert counted(outcome, "intra_warp") == (2,)


# Admission: streaming-bypass. One set of two ways; misses take 11 cycles, periods 20.

STREAMING = StreamingBypass(period=20, threshold=0.5)


def streamed(*program, ways=2, **l1):
    return one_warp(*program, gpu=machine(sets=1, ways=ways, l1=l1), policies=[STREAMING])


def test_an_l1_in_which_nothing_hits_closes_and_opens_again():
    # Both loads until 19 miss: closed. Line 2 is not found at 23, which leaves its ghost in the way of line 0; found at
    # 34. One of two is no more than the threshold: open from 40 on, without the ghost, in whose way line 2 comes.
    # Line 1 has been there all the time.
    outcome = streamed(*chain(0, 1, 2, 2, 2, 1))
    assert accessed(outcome) == [
        (1, 0, MISS),
        (12, 1, MISS),
        (23, 2, BYPASSED),
        (34, 2, BYPASSED),
        (45, 2, MISS),
        (56, 1, HIT),
    ]
    assert counted(outcome, "compulsory", "bypassed", "intra_warp", "cross_block") == (3, 2, 0, 0)


def test_a_closed_l1_keeps_the_order_of_use():
    # Line 0 is found at 23, so that the ghost of line 2 takes the way of line 1 at 34. The L1 opens after that, and
    # line 2 takes the way of its ghost.
    outcome = streamed(*chain(0, 1, 0, 2, 0, 2, 0, 1))
    assert outcomes(outcome) == [MISS, MISS, BYPASSED, BYPASSED, HIT, MISS, HIT, MISS]


def test_a_period_without_loads_changes_nothing():
    # Line 1 issues at 11, then 30 other instructions from 12 to 41. It stays closed at 39.
    outcome = streamed(*chain(0, 1), load(1, gap=30))
    assert accessed(outcome)[-1] == (43, 1, BYPASSED)


def test_a_local_store_makes_a_ghost_a_line():
    # Line 2 is a ghost from 23 on, and written at 34. It is found at 35, one of two, and is there when the L1 has
    # opened.
    program = [*chain(0, 1, 2), store(2, needs=1, local=True), load(2), load(2, needs=1)]
    outcome = streamed(*program)
    assert accessed(outcome)[2:] == [(23, 2, BYPASSED), (34, 2, WRITE), (35, 2, BYPASSED), (46, 2, HIT)]
    assert counted(outcome, "intra_warp") == (0,)


def test_a_global_store_drops_a_ghost():
    # Line 2 is not found at 35 either, and the L1 stays closed.
    outcome = streamed(*chain(0, 1, 2), store(2, needs=1), load(2), load(2, needs=1))
    assert accessed(outcome)[2:] == [(23, 2, BYPASSED), (34, 2, WRITE), (35, 2, BYPASSED), (46, 2, BYPASSED)]


def test_a_line_in_flight_is_found_by_a_closed_l1():
    # Line 1 misses at 18 and comes at 28; it is found on its way at 22 and 27, and there at 36. The L1 opens.
    program = [load(0), load(1, gap=16), load(1, gap=3), load(1, gap=4), load(1, gap=8), load(1, gap=8)]
    for allocate in ("miss", "fill"):
        outcome = streamed(*program, allocate=allocate)
        assert accessed(outcome) == [
            (1, 0, MISS),
            (18, 1, MISS),
            (22, 1, BYPASSED),
            (27, 1, BYPASSED),
            (36, 1, BYPASSED),
            (45, 1, HIT),
        ]


def test_a_line_that_comes_displaces_ghosts_without_counting():
    # allocate="fill", one way. Line 1 misses at 18 and comes at 28. Line 2 leaves a ghost at 22 in the way of line 0;
    # line 1 displaces that; nothing was displaced by a warp.
    outcome = streamed(load(0), load(1, gap=16), load(2, gap=3), ways=1, allocate="fill")
    assert outcomes(outcome) == [MISS, MISS, BYPASSED]
    assert counted(outcome, "intra_warp", "cross_warp_intra_block", "cross_block") == (0, 0, 0)


def test_a_ghost_finds_no_way_where_all_are_reserved():
    # One way, reserved for line 1 from 18 to 27. Line 2 finds itself neither at 22 nor at 26.
    outcome = streamed(load(0), load(1, gap=16), load(2, gap=3), load(2, gap=3), load(3, gap=20), ways=1)
    assert accessed(outcome)[2:] == [(22, 2, BYPASSED), (26, 2, BYPASSED), (47, 3, BYPASSED)]
    assert counted(outcome, "fail_line_alloc") == (0,)


def test_a_ghost_writes_back_what_it_displaces_behind_its_own_read():
    # Line 1 is dirty when the L1 has closed at 199; the read of line 2 fills the queue of one, the write-back follows.
    program = [*chain(0, 1), store(1, needs=1, local=True), load(2, gap=250)]
    gpu = machine(sets=1, ways=1, l1={"miss_queue": 1})
    outcome = one_warp(*program, gpu=gpu, policies=[StreamingBypass(period=200)], memory=None)
    assert [line for _, _, line, _ in logged(outcome, "slice")] == [0, 1, 2, 1]
    assert counted(outcome, "read_messages", "write_messages", "bypassed", "intra_warp") == (3, 1, 1, 1)


def test_every_sm_opens_and_closes_its_own_l1():
    # SM 1 hits in one of its two loads.
    outcome = simulated([[chain(0, 1, 2)], [chain(0, 0, 0, 1)]], STREAMING, sms=2)
    assert counted(outcome, "bypassed") == (1,)
    assert counted(outcome, "bypassed", sm=1) == (0,)


# Reordering: mrpb.


@pytest.mark.parametrize("latency", [0, 1, 5])
def test_a_load_waits_in_the_buffer(latency):
    # It enters at 1 and accesses the L1 `latency` cycles later, and not before the next one.
    outcome = one_warp(load(0), policies=[MRPB(latency=latency)])
    at = 1 + max(latency, 1)
    assert accessed(outcome) == [(at, 0, MISS)]
    assert outcome.cycles == at + 11


def test_one_load_enters_and_one_leaves_in_every_cycle():
    # The instruction leaves the unit when its last transaction enters, at 3: the next one issues at 3.
    outcome = one_warp(load(0, 1, 2), load(3), policies=[MRPB()])
    assert issued(outcome) == [(0, 0), (3, 0)]
    assert accessed(outcome) == [(6, 0, MISS), (7, 1, MISS), (8, 2, MISS), (9, 3, MISS)]


STUCK = machine(sets=8, ways=1)
"""Lines 0 and 8 share a way, so that line 8 stops the buffer until line 0 comes, if it may not bypass."""


@pytest.mark.parametrize(
    ("drain", "lines"),
    [
        ("fixed", [4, 1, 2, 3, 5, 6]),
        ("round-robin", [5, 4, 1, 6, 2, 3]),
        ("longest", [1, 2, 5, 4, 3, 6]),
        ("greedy-fixed", [1, 2, 3, 4, 5, 6]),
        ("greedy-round-robin", [1, 2, 3, 5, 6, 4]),
        ("greedy-longest", [1, 2, 3, 5, 6, 4]),
    ],
)
def test_the_buffer_drains_as_told(drain, lines):
    # Warp 1 is first with its load at 1, which enters from 2 to 6: line 0 misses at 7 and comes at 17, line 8 is stuck
    # from 8 to 16. Meanwhile line 4 enters at 7, 5 and 6 at 8 and 9. From 18 on, one line is drained in each cycle:
    # from queues 0 to 2 with 4; 1, 2, 3; 5, 6, queue 1 being the last that was drained.
    block = [[load(4, gap=1)], [load(0, 8, 1, 2, 3)], [load(5, 6, gap=1)]]
    outcome = simulated([block], MRPB(drain=drain, bypass=None), gpu=STUCK)
    first = [(7, 0, MISS), (17, 8, MISS)]
    assert accessed(outcome) == first + [(18 + i, line, MISS) for i, line in enumerate(lines)]
    assert counted(outcome, "fail_line_alloc") == (9,)


def test_the_longest_greedily_drained_queue_is_left_for_the_longest():
    # As above, but queue 2 has one line, queue 0 two: 0, 2 in a circle after 1; the longest is 0.
    block = [[load(4, 5, gap=1)], [load(0, 8, 1)], [load(6, gap=1)]]
    orders = {}
    for drain in ("greedy-round-robin", "greedy-longest"):
        outcome = simulated([block], MRPB(drain=drain, bypass=None), gpu=STUCK)
        orders[drain] = [line for _, line, _ in accessed(outcome)]
    assert orders == {"greedy-round-robin": [0, 8, 1, 6, 4, 5], "greedy-longest": [0, 8, 1, 4, 5, 6]}


@pytest.mark.parametrize(("drain", "then"), [("greedy-fixed", [(16, 3), (17, 2)]), ("fixed", [(15, 2), (16, 3)])])
def test_a_greedy_drain_waits_for_a_young_head(drain, then):
    # Lines 0 and 8 enter at 1 and 2; 0 misses at 4 and comes at 14, when 8 is served. Line 2 of warp 1 enters at 3.
    # Warp 0 executes ten others, and its line 3 enters at 13: not before 16.
    block = [[load(0, 8), load(3, gap=10)], [load(2)]]
    outcome = simulated([block], MRPB(drain=drain, latency=3, bypass=None), gpu=STUCK)
    assert [(t, line) for t, line, _ in accessed(outcome)] == [(4, 0), (14, 8), *then]


@pytest.mark.parametrize(
    ("flush", "then"),
    [(True, [(13, 1), (14, 4), (15, 2), (16, 3)]), (False, [(13, 4), (14, 1), (15, 2), (16, 3)])],
)
def test_a_full_queue_is_flushed_until_it_has_room(flush, then):
    # Line 0 enters at 1 and misses at 2, 8 and 4 enter at 2 and 3, 8 is stuck from 3 to 11. Lines 1 and 2 of warp 1
    # fill its queue at 4 and 5; 3 waits. At 13 it is either flushed or waits for queue 0.
    policy = MRPB(flush=flush, latency=0, entries=2, bypass=None)
    outcome = simulated([[[load(0, 8, 4)], [load(1, 2, 3)]]], policy, gpu=STUCK)
    assert [(t, line) for t, line, _ in accessed(outcome)] == [(2, 0), (12, 8), *then]
    assert counted(outcome, "fail_line_alloc") == (9,)


@pytest.mark.parametrize(
    ("flush", "then"),
    [(True, [(13, 1, MISS), (14, 4, MISS), (15, 2, WRITE)]), (False, [(13, 4, MISS), (14, 1, MISS), (15, 2, WRITE)])],
)
@pytest.mark.parametrize("local", [False, True])
def test_a_store_waits_until_its_queue_is_empty_and_the_l1_free(flush, then, local):
    # As above; the store is behind line 1 in the unit from 4 on.
    block = [[load(0, 8, 4)], [load(1), store(2, local=local)]]
    outcome = simulated([block], MRPB(flush=flush, latency=0, bypass=None), gpu=STUCK)
    assert accessed(outcome) == [(2, 0, MISS), (12, 8, MISS), *then]


def test_a_store_does_not_try_beside_a_load_that_is_stuck():
    # The store of warp 1 has an empty queue; line 8 is stuck from 3 to 11. One failure per cycle.
    outcome = simulated([[[load(0, 8)], [store(2)]]], MRPB(latency=0, bypass=None), gpu=STUCK)
    assert accessed(outcome) == [(2, 0, MISS), (12, 8, MISS), (13, 2, WRITE)]
    assert counted(outcome, "fail_line_alloc", "fail_miss_queue") == (9, 0)


def test_a_store_of_another_warp_goes_past_loads_that_are_too_young():
    # Line 0 enters at 1 and is old enough at 6. The store of warp 1 is in the unit from 1 on.
    outcome = simulated([[[load(0)], [store(2)]]], MRPB())
    assert accessed(outcome) == [(2, 2, WRITE), (6, 0, MISS)]


@pytest.mark.parametrize(
    ("signature", "drain", "lines"),
    [
        ("warp", "fixed", [1, 2, 3]),
        ("warp-in-block", "fixed", [1, 3, 2]),
        ("warp", "round-robin", [1, 2, 3]),
        ("block", "round-robin", [1, 3, 2]),
    ],
)
def test_the_signature_chooses_the_queue(signature, drain, lines):
    # The last warp is first: lines 0 and 8 enter at 4 and 5, 8 is stuck until 15. Lines 1, 2, 3 of slots 0, 1, 2 enter
    # from 6 to 8.
    blocks = [[[load(1, gap=1)], [load(2, gap=1)]], [[load(3, gap=1)], [load(0, 8)]]]
    policy = MRPB(signature=signature, drain=drain, latency=0, bypass=None)
    outcome = simulated(blocks, policy, gpu=STUCK, slots=2)
    wanted = [(5, 0), (15, 8), *enumerate(lines, start=16)]
    assert [(t, line) for t, line, _ in accessed(outcome)] == wanted


@pytest.mark.parametrize(("bypass", "full_set", "no_mshr"), [("associativity", 3, 12), ("all", 3, 3), (None, 12, 12)])
def test_the_buffer_bypasses_stalls(bypass, full_set, no_mshr):
    policy = MRPB(latency=0, bypass=bypass)
    outcome = one_warp(load(0, 8), gpu=STUCK, policies=[policy])
    assert accessed(outcome)[1] == (full_set, 8, BYPASSED if full_set == 3 else MISS)
    outcome = one_warp(load(0, 1), gpu=machine(l1={"mshrs": 1}), policies=[policy])
    assert accessed(outcome)[1] == (no_mshr, 1, BYPASSED if no_mshr == 3 else MISS)


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
CONSERVED = settings(max_examples=150, deadline=None)


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


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(IDLE), MEMORIES)
def test_policies_that_never_act_change_nothing(seed, policies, memory):
    random = np.random.default_rng(seed)
    # No stall on ways and no line replaced in sets of so many of them, and no fill that asks for protection.
    gpu = random_gpu(random, l1={"allocate": "miss", "sets": 1, "ways": 40, "index": Linear()})
    blocks = random_blocks(random, 4, 3)
    shape = {"gpu": gpu, "slots": 2, "sms": 2, "memory": memory}
    assert simulated(blocks, *policies, **shape) == simulated(blocks, **shape)


@settings(max_examples=60, deadline=None)
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
