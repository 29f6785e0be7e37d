"""Test one SM of the reference machine against results derived by hand: loads, stores, warps and blocks.

Unless a test says otherwise, all clocks are equal, so that crossbar, L2 and DRAM cycles are SM cycles. There is one
scheduler, one place in the load/store queue, and one slice. An instruction without a gap issues at t = 0 and makes its
first access at t = 1. Through the crossbar (32 bytes wide, latency 8), a read that is sent at t is one flit and reaches
the slice at t + 8 + 1. A write of 8 + 128 bytes is 5 flits, and so is a response, which takes 8 + 5 cycles. A row that
the DRAM begins to open at d is precharged first: activate at d + tRP = d + 12, column 12 later, data 12 + 4 after that.
"""

from __future__ import annotations

import pytest

from rdmodel.reference.machine import clocks
from rdmodel.reference.machine.record import HIT, MISS, PENDING, WRITE, WRITE_MISS
from tests.support.machine_programs import barrier, counted, load, logged, machine, store
from tests.support.machine_without_policies import one_warp, simulated

# Time of one load.


def test_a_load_under_ideal_memory_takes_issue_access_and_the_latency():
    # Issue 0, miss at 1 and sent in the same cycle, back at 1 + 10; the warp and its block end in that cycle.
    outcome = one_warp(load(5))
    assert outcome.log == [
        ("begin", -1, 0, 0, 0),
        ("issue", 0, 0, 0, 1),
        ("access", 1, 0, 5, MISS),
        ("fill", 11, 0, 5),
        ("end", 11, 0, 0, 0),
    ]
    assert (outcome.cycles, outcome.slices, outcome.channels) == (12, [], [])
    assert counted(outcome, "transactions", "compulsory", "read_messages", "write_messages") == (1, 1, 1, 0)


@pytest.mark.parametrize("latency", [0, 1])
def test_an_ideal_memory_answers_in_the_next_cycle_at_the_earliest(latency):
    assert one_warp(load(5), memory=latency).cycles == 3


def test_a_load_through_the_whole_memory_side_adds_up():
    # Sent at 1, at the slice 1 + 9 = 10, usable 7 later: 17. Precharge at d = 17 though no row is open, activate at 29,
    # column at 41, data until 41 + 12 + 4 = 57, at the L2 20 later: 77. Response: 77 + 13 = 90.
    outcome = one_warp(load(5), gpu=machine(l2={"latency": 7}, dram={"latency": 20}), memory=None)
    assert logged(outcome, "slice") == [(17, 0, 5, MISS)]
    assert logged(outcome, "dram") == [(41, 0, 5, False)]
    assert logged(outcome, "fill") == [(90, 0, 5)]
    assert outcome.cycles == 91
    assert outcome.channels == [{"reads": 1, "writes": 0, "activations": 1}]


def test_clocks_in_the_ratio_of_three_to_two_round_up_to_whole_cycles():
    # Crossbar and DRAM run 3 cycles in 2 of the SM. Sent at t = 1: X(1) = ceil(1.5) = 2, arrives at x = 2 + 8 + 1 = 11,
    # which is t = ceil(22 / 3) = 8. SM cycle 8 has d = 12 and 13: precharge at 12, activate at 24, column at 36, data
    # until 52, that is t = ceil(104 / 3) = 35. X(35) = ceil(52.5) = 53, arrives at x = 53 + 8 + 5 = 66, t = 44.
    outcome = one_warp(load(5), gpu=machine(crossbar={"clock": 1050}, dram={"clock": 1050}), memory=None)
    assert logged(outcome, "slice") == [(8, 0, 5, MISS)]
    assert logged(outcome, "dram") == [(36, 0, 5, False)]
    assert outcome.cycles == 45


def test_a_domain_knows_its_cycles_in_either_direction():
    faster, slower = clocks.Domain(1050, 700), clocks.Domain(600, 900)
    assert [list(faster.cycles_of(t)) for t in range(4)] == [[0, 1], [2], [3, 4], [5]]
    assert [faster.sm_cycle(d) for d in range(5)] == [0, 1, 2, 2, 3]
    assert [list(slower.cycles_of(t)) for t in range(4)] == [[0], [1], [], [2]]
    assert [slower.sm_cycle(d) for d in range(3)] == [0, 2, 3]


# Hits and merges.


@pytest.mark.parametrize(("hit_latency", "cycles"), [(3, 16), (0, 13)])
def test_a_hit_returns_after_the_hit_latency(hit_latency, cycles):
    # The first load is back at 11, in S1, so that the second issues at 11, hits at 12 and ends at 12 + hit_latency.
    outcome = one_warp(load(5), load(5, needs=1), gpu=machine(core={"hit_latency": hit_latency}))
    assert logged(outcome, "access") == [(1, 0, 5, MISS), (12, 0, 5, HIT)]
    assert outcome.cycles == cycles


def test_a_load_of_a_line_in_flight_merges_and_returns_with_a_later_fill():
    # Warp 1 issues at 1, when the first load has left the LD/ST queue.
    outcome = simulated([[[load(5)], [load(5)]]])
    assert logged(outcome, "issue") == [(0, 0, 0, 1), (1, 0, 1, 1)]
    assert logged(outcome, "access") == [(1, 0, 5, MISS), (2, 0, 5, PENDING)]
    assert (outcome.cycles, *counted(outcome, "pending_hits", "read_messages")) == (12, 1, 1)


@pytest.mark.parametrize(
    ("accessed", "what", "ends"), [(8, PENDING, 11), (9, PENDING, 12), (10, PENDING, 13), (11, HIT, 14)]
)
def test_a_load_that_merges_just_before_the_fill_is_no_faster_than_a_hit(accessed, what, ends):
    # The line is there at 11. Warp 1 issues what is before its load from 1 on. Merged or not, data take 3 cycles.
    outcome = simulated([[[load(5)], [load(5, gap=accessed - 2)]]])
    assert logged(outcome, "access") == [(1, 0, 5, MISS), (accessed, 0, 5, what)]
    assert outcome.cycles == ends + 1


@pytest.mark.parametrize(
    ("accessed", "lines", "kinds", "ends"),
    [
        (5, (5, 7), [PENDING, PENDING], 12),
        (5, (7, 5), [PENDING, PENDING], 12),
        (9, (5, 7), [PENDING, PENDING], 13),
        (10, (5, 7), [PENDING, PENDING], 14),
        (10, (7, 5), [PENDING, HIT], 14),
    ],
)
def test_a_load_is_complete_with_the_last_of_its_fills_and_of_its_hits(accessed, lines, kinds, ends):
    # Line 5 is there at 11, line 7 at 12. Warp 1 makes its second access one cycle after the first; data of that are
    # there 3 cycles later, whether it merged or hit.
    outcome = simulated([[[load(5, 7)], [load(*lines, gap=accessed - 2)]]])
    assert [(t, what) for t, _, _, what in logged(outcome, "access")[2:]] == [
        (accessed, kinds[0]),
        (accessed + 1, kinds[1]),
    ]
    assert outcome.cycles == ends + 1


@pytest.mark.parametrize(("mshrs", "sent", "what"), [(1, 11, PENDING), (2, 2, HIT)])
def test_an_mshr_more_does_not_slow_a_warp_by_making_a_merge_a_hit(mshrs, sent, what):
    # Line 0 is there at 11, for which the last load waits: it accesses line 1 at 12. With one MSHR line 1 missed at
    # 11, and is in flight until 21; with two it missed at 2, and has just come. Data are there at 12 + 20 = 32.
    gpu = machine(core={"hit_latency": 20}, l1={"mshrs": mshrs})
    outcome = one_warp(load(0), load(1), load(1, needs=0b10), gpu=gpu)
    assert logged(outcome, "access") == [(1, 0, 0, MISS), (sent, 0, 1, MISS), (12, 0, 1, what)]
    assert outcome.cycles == 33


def test_a_merge_makes_the_line_recently_used():
    # Line 0 is merged into at 3, so that line 4 displaces line 2 (at 13; line 2 came at 12).
    outcome = one_warp(load(0, 2), load(0), load(4, needs=0b11), load(0))
    assert logged(outcome, "access")[2:] == [(3, 0, 0, PENDING), (13, 0, 4, MISS), (14, 0, 0, HIT)]


def test_a_needed_load_is_waited_for_by_its_bit_and_beyond_64_always():
    # The load (number 0) is back at 1 + 1000. Instruction 2 needs the one two before it only; in the second program
    # instructions 1 to 64 do not look back, but the 65th is more than 64 after the load.
    outcome = one_warp(load(5), store(), store(needs=0b10), memory=1000)
    assert [t for t, *_ in logged(outcome, "issue")] == [0, 1, 1001]
    outcome = one_warp(load(5), *[store()] * 65, memory=1000)
    assert [t for t, *_ in logged(outcome, "issue")] == [*range(65), 1001]


# Reservation failures, one per cycle.


def test_a_full_merge_list_stops_the_queue_until_the_fill():
    # Tries at 2 to 10 fail; at 11 the line is there, and the hit returns at 14.
    outcome = simulated([[[load(5)], [load(5)]]], machine(l1={"mshr_merge": 1}))
    assert logged(outcome, "access") == [(1, 0, 5, MISS), (11, 0, 5, HIT)]
    assert (outcome.cycles, *counted(outcome, "fail_mshr_merge")) == (15, 9)


@pytest.mark.parametrize("limit", ["mshrs", "mshr_per_warp"])
def test_a_missing_mshr_stops_the_queue_until_one_is_free(limit):
    # The second line tries from 2 on and finds the MSHR free at 11; it is back at 21.
    outcome = one_warp(load(0, 1), gpu=machine(l1={limit: 1}))
    assert (outcome.cycles, *counted(outcome, "fail_mshr_entry")) == (22, 9)


def test_the_limit_of_mshrs_per_warp_does_not_bind_other_warps():
    outcome = simulated([[[load(0)], [load(1)]]], machine(l1={"mshr_per_warp": 1}))
    assert (outcome.cycles, *counted(outcome, "fail_mshr_entry")) == (13, 0)


def test_a_set_of_reserved_ways_stops_the_queue_and_then_loses_its_oldest_line():
    # Lines 0, 2, 4 share a set of two ways. Line 4 tries from 3 to 10; at 11 line 0 is valid, and evicted at once.
    outcome = one_warp(load(0, 2, 4))
    assert logged(outcome, "access")[-1] == (11, 0, 4, MISS)
    assert (outcome.cycles, *counted(outcome, "fail_line_alloc", "intra_warp")) == (22, 8, 1)


def test_allocation_on_fill_needs_no_way_at_the_miss():
    # The fills come at 11, 12, 13; the third evicts line 0, the least recently used.
    outcome = one_warp(load(0, 2, 4), load(2, 0, needs=1), gpu=machine(l1={"allocate": "fill"}))
    assert [t for t, *_ in logged(outcome, "fill")] == [11, 12, 13, 25]
    assert logged(outcome, "access")[3:] == [(14, 0, 2, HIT), (15, 0, 0, MISS)]
    assert counted(outcome, "fail_line_alloc", "intra_warp", "associativity") == (0, 2, 1)


def test_a_full_miss_queue_stops_stores():
    # A crossbar of 8 bytes takes 17 cycles for a write. Line 0 is sent at 1, so the port is free at 18 again. Line 1
    # waits in the queue of one; line 2 tries at 3 to 18, since line 1 is sent at the end of 18.
    outcome = one_warp(store(0, 1, 2), gpu=machine(l1={"miss_queue": 1}, crossbar={"width": 8}), memory=None)
    assert logged(outcome, "access") == [(1, 0, 0, WRITE), (2, 0, 1, WRITE), (19, 0, 2, WRITE)]
    assert (outcome.cycles, *counted(outcome, "fail_miss_queue", "write_messages")) == (20, 16, 3)


# Stores.


def test_a_global_store_evicts_a_valid_line_and_leaves_one_in_flight():
    # Valid at 11, invalidated at 12, missed again at 13; the shadow of four lines still knows it.
    outcome = one_warp(load(0), store(0, needs=1), load(0))
    assert logged(outcome, "access") == [(1, 0, 0, MISS), (12, 0, 0, WRITE), (13, 0, 0, MISS)]
    assert counted(outcome, "writes", "compulsory", "associativity", "intra_warp") == (1, 1, 1, 0)
    outcome = one_warp(load(0), store(0), load(0, needs=0b10))
    assert logged(outcome, "access") == [(1, 0, 0, MISS), (2, 0, 0, WRITE), (12, 0, 0, HIT)]


@pytest.mark.parametrize("other", [load(1), store(1, local=True)])
def test_the_way_of_a_line_in_flight_stays_reserved_after_a_store(other):
    # One way: line 1 tries from 3 to 10.
    outcome = one_warp(load(0), store(0), other, gpu=machine(sets=1, ways=1))
    assert logged(outcome, "access")[-1][0] == 11
    assert counted(outcome, "fail_line_alloc") == (8,)


def test_a_local_store_allocates_and_its_line_is_written_back_before_the_read_that_displaces_it():
    # One way. The store fetches nothing; the load's write-back (5 flits, sent at 2, port free at 7, at the slice at 15)
    # goes before its read (sent at 7, whose flit follows in the slice's port), though the queue has room for one only.
    gpu = machine(sets=1, ways=1, l1={"miss_queue": 1})
    outcome = one_warp(store(0, local=True), load(1), gpu=gpu, memory=None)
    assert logged(outcome, "access") == [(1, 0, 0, WRITE), (2, 0, 1, MISS)]
    assert logged(outcome, "slice") == [(15, 0, 0, WRITE_MISS), (16, 0, 1, MISS)]
    assert counted(outcome, "read_messages", "write_messages", "intra_warp") == (1, 1, 1)


def test_a_local_store_waits_for_room_for_the_write_back_of_its_victim():
    # Write-backs of 17 cycles: line 0's is sent at 2 (port free at 19), line 1's waits from 3 to 19; line 3 tries
    # at 4 to 19.
    gpu = machine(sets=1, ways=1, l1={"miss_queue": 1}, crossbar={"width": 8})
    outcome = one_warp(store(0, 1, 2, 3, local=True), gpu=gpu, memory=None)
    assert (outcome.cycles, *counted(outcome, "fail_miss_queue", "write_messages", "intra_warp")) == (21, 16, 3, 3)


def test_a_local_store_needs_no_room_for_a_clean_victim():
    # Line 8 is sent at once, line 9 waits for the port for 17 cycles and fills the queue of one.
    gpu = machine(sets=1, ways=1, l1={"miss_queue": 1}, crossbar={"width": 8})
    outcome = one_warp(load(0), store(8, 9, needs=1), store(1, local=True), gpu=gpu, memory=None)
    assert counted(outcome, "fail_miss_queue", "intra_warp", "write_messages") == (0, 1, 2)


@pytest.mark.parametrize("allocate", ["miss", "fill"])
def test_a_local_store_to_a_line_in_flight_makes_it_dirty(allocate):
    gpu = machine(sets=1, ways=1, l1={"allocate": allocate})
    outcome = one_warp(load(0), store(0, local=True), load(1, needs=0b10), gpu=gpu)
    assert counted(outcome, "writes", "write_messages", "read_messages") == (1, 1, 2)


def test_a_local_store_finds_no_way_in_a_set_of_reserved_ones():
    # Both ways of the set are reserved from 2 to 10; the store evicts line 0, valid at 11.
    outcome = one_warp(load(0, 2), store(4, local=True))
    assert logged(outcome, "access")[-1] == (11, 0, 4, WRITE)
    assert counted(outcome, "fail_line_alloc", "intra_warp", "write_messages") == (8, 1, 0)


# What a miss is.


def test_a_miss_is_compulsory_once_and_then_told_by_the_shadow():
    # Two sets of one way, one load after the other. 0 and 2 displace each other: the second 0 is still among the last
    # two lines. Then 1 and 3 go by, and 2 is not any more.
    chain = [load(line, needs=1) for line in (0, 2, 0, 1, 3, 2)]
    outcome = one_warp(*chain, gpu=machine(sets=2, ways=1))
    assert counted(outcome, "compulsory", "associativity", "capacity", "hits") == (4, 1, 1, 0)


def test_an_eviction_is_told_by_who_brought_the_line():
    # One line. Warp 0 displaces its own line, warp 1 later warp 0's, the next block warp 1's.
    blocks = [[[load(0), load(1, needs=1)], [load(2, gap=40)]], [[load(3)], []]]
    outcome = simulated(blocks, machine(sets=1, ways=1))
    assert counted(outcome, "intra_warp", "cross_warp_intra_block", "cross_block") == (1, 1, 1)


def test_instructions_count_by_the_lanes_of_what_they_precede():
    outcome = one_warp(load(0, gap=2, lanes=7), barrier(gap=1))
    assert counted(outcome, "warp_instructions", "thread_instructions") == (5, 3 * 7 + 2 * 32)
    assert [kind for *_, kind in logged(outcome, "issue")] == [0, 0, 1, 0, 2]


# Barriers and schedulers.


def test_a_barrier_holds_a_warp_until_the_last_one_came():
    # Warp 1 issues five others at 1 to 5 and its barrier at 6, with which it ends; warp 0 issues again at 7.
    outcome = simulated([[[barrier(), load(0)], [barrier(gap=5)]]])
    assert logged(outcome, "issue")[0] == (0, 0, 0, 2)
    assert logged(outcome, "issue")[-2:] == [(6, 0, 1, 2), (7, 0, 0, 1)]
    assert outcome.cycles == 19


def test_a_barrier_waits_for_the_loads_that_it_needs():
    # Without needs, the barrier issues in the cycle after the load; with them, in the first cycle after its data.
    free, held = (one_warp(load(0), barrier(needs=needs), load(4)) for needs in (0, 1))
    assert [time for time, *_ in logged(free, "issue")] == [0, 1, 2]
    arrival = logged(held, "fill")[0][0]
    assert [time for time, *_ in logged(held, "issue")] == [0, arrival, arrival + 1]


def test_a_warp_that_ends_releases_those_that_wait():
    # Warp 1 never comes to the barrier: it ends at 6, which releases and ends warp 0 in the same cycle.
    outcome = simulated([[[barrier()], [store(gap=5)]]])
    assert logged(outcome, "end") == [(6, 0, 0, 0)]


THREES = [[[store(gap=2)] for _ in range(3)]]
BLOCKED = [[[load(0), store(needs=1)], [store(gap=5)]]]


@pytest.mark.parametrize(
    ("sched", "blocks", "slots_issued"),
    [
        ("lrr", THREES, [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        ("gto", THREES, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        ("old", THREES, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        ("gty", THREES, [2, 2, 2, 1, 1, 1, 0, 0, 0]),
        ("two-level", THREES, [0, 1, 0, 1, 0, 1, 2, 2, 2]),  # groups (0, 1) and (2)
        # Warp 0 waits for its load in cycle 1 only.
        ("lrr", BLOCKED, [0, 1, 0, 1, 1, 1, 1, 1]),
        ("gto", BLOCKED, [0, 1, 1, 1, 1, 1, 1, 0]),
        ("old", BLOCKED, [0, 1, 0, 1, 1, 1, 1, 1]),
        ("gty", BLOCKED, [1, 1, 1, 1, 1, 1, 0, 0]),
    ],
)
def test_a_scheduler_chooses_by_its_policy(sched, blocks, slots_issued):
    outcome = simulated(blocks, machine(core={"fetch_group": 2}), sched=sched, memory=1)
    assert [slot for _, _, slot, _ in logged(outcome, "issue")] == slots_issued


def test_two_level_scheduling_stays_in_the_group_to_which_it_went():
    # Warps 0 and 1 wait for their loads until 11 and 12, but 2 and 3 have 20 instructions from t = 2 on.
    block = [[load(line), store(needs=1)] for line in (0, 1)] + [[store(gap=9)] for _ in range(2)]
    outcome = simulated([block], machine(core={"fetch_group": 2}), sched="two-level")
    assert [slot for _, _, slot, _ in logged(outcome, "issue")] == [0, 1] + [2, 3] * 10 + [0, 1]


@pytest.mark.parametrize("sched", ["old", "gto"])
def test_oldest_means_by_beginning_and_not_by_slot(sched):
    # Block 0 ends at 0, and block 2 takes its slot 0; block 1 in slot 1 is then older, and no warp is the
    # one that issued last.
    blocks = [[[store()]], [[load(0), store(gap=3, needs=1)]], [[store(gap=3)]]]
    outcome = simulated(blocks, slots=2, sched=sched, memory=1)
    assert logged(outcome, "begin")[-1] == (0, 0, 0, 2)
    # Block 1: load at 1, others at 2, 3, 4 (they wait for nothing), store at 5; only then block 2.
    assert [slot for _, _, slot, _ in logged(outcome, "issue")] == [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]


def test_schedulers_take_turns_to_be_first():
    # Slots 0 and 2 belong to scheduler 0, slot 1 to scheduler 1. One place in the LD/ST queue: scheduler 0 takes
    # it at 0 and at 2, scheduler 1 at 1.
    outcome = simulated([[[store(line)] for line in range(3)]], machine(core={"schedulers": 2}))
    assert [(t, slot) for t, _, slot, _ in logged(outcome, "issue")] == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("sched", ["lrr", "gto", "two-level", "old", "gty"])
@pytest.mark.parametrize("schedulers", [2, 3, 4])
def test_schedulers_share_a_busy_unit_evenly(schedulers, sched):
    # One place, two transactions an instruction: what issues at t accesses at t + 1 and t + 2, and there is room again
    # in every other cycle. It is for the scheduler behind the one that had it before, whatever t is.
    gpu = machine(core={"schedulers": schedulers})
    outcome = simulated([[[store(0, 1)] * 3 for _ in range(schedulers)]], gpu, sched=sched)
    expected = [(2 * i, i % schedulers) for i in range(3 * schedulers)]
    assert [(t, slot) for t, _, slot, _ in logged(outcome, "issue")] == expected


def test_what_does_not_enter_the_unit_does_not_move_the_turn_of_schedulers():
    # Scheduler 0 has slot 0, which issues two others at 0 and 1 and opens the barrier at 2. At 3 both want the one
    # place: nothing was in the unit before, so scheduler 0 still begins, though it was the last that issued.
    gpu = machine(core={"schedulers": 2})
    outcome = simulated([[[barrier(gap=2), store(0)], [barrier(), store(1)]]], gpu)
    assert logged(outcome, "issue")[-2:] == [(3, 0, 0, 1), (4, 0, 1, 1)]
    outcome = simulated([[[store(), barrier(gap=2), store(0)], [barrier(), store(1)]]], gpu)
    assert logged(outcome, "issue")[-2:] == [(4, 0, 0, 1), (5, 0, 1, 1)]


# Dispatch.


def test_blocks_begin_in_rounds_and_then_where_a_slot_is_free_first():
    # Block 1 issues at 0, 1, 2 and ends at 2: block 4 follows it there and issues from 3 on.
    blocks = [[[store(gap=gap)]] for gap in (20, 2, 20, 20, 0)]
    outcome = simulated(blocks, machine(core={"schedulers": 2}), slots=2, sms=2)
    assert logged(outcome, "begin") == [(-1, 0, 0, 0), (-1, 1, 0, 1), (-1, 0, 1, 2), (-1, 1, 1, 3), (2, 1, 0, 4)]
    assert (3, 1, 0, 1) in logged(outcome, "issue")
    assert [sm["blocks"] for sm in outcome.sms] == [2, 3]


def test_a_block_without_instructions_gives_way_at_once():
    outcome = simulated([[[]], [[store()]], [[]], [[store()]]])
    assert logged(outcome, "begin") == [(-1, 0, 0, 0), (-1, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 3)]
    assert logged(outcome, "end") == [(-1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (1, 0, 0, 3)]
    assert outcome.cycles == 2


@pytest.mark.parametrize("blocks", [[], [[]], [[[], []]]])
def test_a_grid_without_instructions_takes_no_time(blocks):
    assert simulated(blocks, memory=None).cycles == 0
