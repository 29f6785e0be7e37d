"""Test admission policies on the reference machine against results derived by hand: bypassing and protection.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import PD, BypassAll, BypassOnStall, StreamingBypass
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING, WRITE
from tests.support.machine_programs import (
    accessed,
    chain,
    counted,
    load,
    logged,
    machine,
    one_warp,
    outcomes,
    simulated,
    store,
)

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


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # When line 4 comes, line 0 has seen two loads since its last use, with that; when line 6 comes, three.
        ({}, [MISS, MISS, HIT, HIT, BYPASSED, MISS]),
        # When line 4 comes, line 0 has seen four loads since it was allocated, and line 2 three.
        ({"since": "allocation"}, [MISS, MISS, HIT, HIT, MISS, MISS]),
    ],
)
def test_protection_lasts_from_the_last_use_or_from_the_allocation(options, wanted):
    gpu = machine(sets=1)
    outcome = one_warp(*chain(0, 2, 0, 2, 4, 6), gpu=gpu, policies=[PD(distance=3, **options)])
    assert outcomes(outcome) == wanted


def test_the_loads_of_all_sets_may_count_together():
    # Line 1 is of the other set. If its loads count, too, line 0 has seen five before line 4, and is replaced.
    outcome = one_warp(*chain(0, 2, 1, 1, 4), policies=[PD(distance=4, counts="cache")])
    assert outcomes(outcome) == [MISS, MISS, MISS, HIT, MISS]
    outcome = one_warp(*chain(0, 2, 1, 1, 4), policies=[PD(distance=4)])
    assert outcomes(outcome) == [MISS, MISS, MISS, HIT, BYPASSED]


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
