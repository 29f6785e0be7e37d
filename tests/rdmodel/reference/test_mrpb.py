"""Test reordering by `mrpb` on the reference machine against results derived by hand.

Unless a test says otherwise, there are one scheduler, one place in the load/store queue and two sets of two ways. Data
arrive 10 cycles after the access, hits after 3. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import MRPB
from rdmodel.reference.machine.record import BYPASSED, MISS, WRITE
from tests.support.machine_programs import accessed, counted, issued, load, machine, one_warp, simulated, store


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
"""Lines 0 and 8 share a way, so that line 8 stops its queue until line 0 comes, if it may not bypass."""


@pytest.mark.parametrize(
    ("drain", "early", "lines"),
    [
        ("fixed", [(12, 4)], [1, 2, 3, 5, 6]),
        ("round-robin", [(12, 4)], [5, 1, 6, 2, 3]),
        ("longest", [], [1, 2, 5, 4, 3, 6]),
        ("greedy-fixed", [], [1, 2, 3, 4, 5, 6]),
        ("greedy-round-robin", [], [1, 2, 3, 5, 6, 4]),
        ("greedy-longest", [], [1, 2, 3, 5, 6, 4]),
    ],
)
def test_the_buffer_drains_as_told(drain, early, lines):
    # Warp 1 is first with its load at 1, which enters from 2 to 6: line 0 misses at 7 and comes at 17, line 8 fails
    # from 8 to 16. Line 4 enters at 7, 5 and 6 at 8 and 9. Queue 0 is ready at 12, and goes before 1 if not greedy and
    # not by length. Then line 8 fails again, also before queue 2: that comes after 1, and in turn after 0 and 1. From
    # 18 on, one line is drained in each cycle.
    block = [[load(4, gap=1)], [load(0, 8, 1, 2, 3)], [load(5, 6, gap=1)]]
    outcome = simulated([block], MRPB(drain=drain, bypass=None), gpu=STUCK)
    wanted = [(7, 0), *early, (17, 8), *enumerate(lines, start=18)]
    assert accessed(outcome) == [(t, line, MISS) for t, line in wanted]
    assert counted(outcome, "fail_line_alloc") == (9 - len(early),)


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
    [
        (True, [(7, 1), (12, 8), (13, 4), (14, 2), (15, 3)]),
        (False, [(12, 8), (13, 4), (14, 1), (15, 2), (16, 3)]),
    ],
)
def test_a_full_queue_is_flushed_until_it_has_room(flush, then):
    # Line 0 enters at 1 and misses at 2, 8 and 4 enter at 2 and 3, 8 fails from 3 to 11. Lines 1 and 2 of warp 1 fill
    # its queue at 4 and 5; 3 waits at 6. The queue is either flushed at 7, or waits for queue 0.
    policy = MRPB(flush=flush, latency=0, entries=2, bypass=None)
    outcome = simulated([[[load(0, 8, 4)], [load(1, 2, 3)]]], policy, gpu=STUCK)
    assert [(t, line) for t, line, _ in accessed(outcome)] == [(2, 0), *then]
    assert counted(outcome, "fail_line_alloc") == (9 - flush,)


@pytest.mark.parametrize(
    ("flush", "then"),
    [(True, [(6, 1), (12, 8), (13, 4), (14, 2)]), (False, [(12, 8), (13, 4), (14, 1), (15, 2)])],
)
@pytest.mark.parametrize("local", [False, True])
def test_a_store_waits_until_its_queue_is_empty_and_the_l1_free(flush, then, local):
    # As above; the store is behind line 1 in the unit from 4 on, and asks for a flush at 5.
    block = [[load(0, 8, 4)], [load(1), store(2, local=local)]]
    outcome = simulated([block], MRPB(flush=flush, latency=0, bypass=None), gpu=STUCK)
    assert accessed(outcome) == [(t, line, WRITE if line == 2 else MISS) for t, line in [(2, 0), *then]]


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
    ("signature", "drain", "wanted"),
    [
        ("warp", "fixed", [(7, 1), (8, 2), (9, 3), (15, 8)]),
        ("warp-in-block", "fixed", [(7, 1), (9, 3), (15, 8), (16, 2)]),
        ("warp", "round-robin", [(7, 1), (8, 2), (9, 3), (15, 8)]),
        ("block", "round-robin", [(7, 1), (15, 8), (16, 2), (17, 3)]),
    ],
)
def test_the_signature_chooses_the_queue(signature, drain, wanted):
    # The last warp is first: lines 0 and 8 enter at 4 and 5, 8 fails until 15, and holds up lines behind it in its
    # queue, or after it in turn. Lines 1, 2, 3 of slots 0, 1, 2 enter from 6 to 8.
    blocks = [[[load(1, gap=1)], [load(2, gap=1)]], [[load(3, gap=1)], [load(0, 8)]]]
    policy = MRPB(signature=signature, drain=drain, latency=0, bypass=None)
    outcome = simulated(blocks, policy, gpu=STUCK, slots=2)
    assert [(t, line) for t, line, _ in accessed(outcome)] == [(5, 0), *wanted]


@pytest.mark.parametrize(("bypass", "full_set", "no_mshr"), [("associativity", 3, 12), ("all", 3, 3), (None, 12, 12)])
def test_the_buffer_bypasses_stalls(bypass, full_set, no_mshr):
    policy = MRPB(latency=0, bypass=bypass)
    outcome = one_warp(load(0, 8), gpu=STUCK, policies=[policy])
    assert accessed(outcome)[1] == (full_set, 8, BYPASSED if full_set == 3 else MISS)
    outcome = one_warp(load(0, 1), gpu=machine(l1={"mshrs": 1}), policies=[policy])
    assert accessed(outcome)[1] == (no_mshr, 1, BYPASSED if no_mshr == 3 else MISS)
