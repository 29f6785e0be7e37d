"""Test the reference machine against results derived by hand, and its invariants on random programs.

Unless a test says otherwise, all clocks are equal, so that crossbar, L2 and DRAM cycles are SM cycles. There is one
scheduler, one place in the load/store queue, and one slice. An instruction without a gap issues at t = 0 and makes its
first access at t = 1. Through the crossbar (32 bytes wide, latency 8), a read that is sent at t is one flit and reaches
the slice at t + 8 + 1. A write of 8 + 128 bytes is 5 flits, and so is a response, which takes 8 + 5 cycles. A row that
the DRAM begins to open at d is precharged first: activate at d + tRP = d + 12, column 12 later, data 12 + 4 after that.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import SimulationError
from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import Instruction, hardware, run
from rdmodel.reference.machine import MachineInstruction, clocks, simulate
from rdmodel.reference.machine import run as machine_run
from rdmodel.reference.machine.record import HIT, MISS, PENDING, WRITE, WRITE_HIT, WRITE_MISS
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.machine_programs import barrier, counted, load, logged, machine, store


def simulated(blocks, gpu=None, *, slots=1, sms=1, sched=None, memory=10):
    gpu = gpu or machine()
    options = SimulationOptions(sms=sms, sched=sched, memory=memory).resolve(gpu)
    return simulate(blocks, gpu, options, slots, max(map(len, blocks), default=1), log=True)


def one_warp(*instructions, gpu=None, memory=10):
    return simulated([[list(instructions)]], gpu, memory=memory)


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
        ("two-level", THREES, [0, 1, 0, 1, 0, 1, 2, 2, 2]),  # groups (0, 1) and (2)
        # Warp 0 waits for its load in cycle 1 only.
        ("lrr", BLOCKED, [0, 1, 0, 1, 1, 1, 1, 1]),
        ("gto", BLOCKED, [0, 1, 1, 1, 1, 1, 1, 0]),
        ("old", BLOCKED, [0, 1, 0, 1, 1, 1, 1, 1]),
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


@pytest.mark.parametrize("sched", ["lrr", "gto", "two-level", "old"])
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


# Crossbar and L2.


def test_sms_wait_in_order_for_a_slice_whose_input_is_full():
    # Room for one message: SM 0 sends at 1 and is served at 10; SM 1 sends then, is served at 19, then SM 2 at 28.
    outcome = simulated([[[load(line)]] for line in (4, 5, 6)], machine(l2={"queue": 1}), sms=3, memory=None)
    assert logged(outcome, "slice") == [(10, 0, 4, MISS), (19, 0, 5, MISS), (28, 0, 6, MISS)]


def test_a_line_goes_to_the_slice_of_its_remainder():
    # Two SMs to two slices: nobody waits for anybody.
    outcome = simulated([[[load(line)]] for line in (4, 5)], machine(l2={"slices": 2}), sms=2, memory=None)
    assert logged(outcome, "slice") == [(10, 0, 4, MISS), (10, 1, 5, MISS)]


def test_a_read_of_a_written_line_hits_in_the_l2():
    # The write leaves at 1 and keeps the port until 6, and is there at 14. The read leaves at 6 and follows it at 15;
    # the answer takes 13 more.
    outcome = one_warp(store(0), load(0), memory=None)
    assert logged(outcome, "slice") == [(14, 0, 0, WRITE_MISS), (15, 0, 0, HIT)]
    assert (outcome.cycles, outcome.channels[0]["reads"]) == (29, 0)


def test_reads_of_two_sms_merge_in_the_l2_and_share_its_response_port():
    # SM 1's flit follows SM 0's: 11. Data at 10 + 12 + 12 + 12 + 4 = 50; the responses leave at 50 and 55.
    outcome = simulated([[[load(0)]], [[load(0)]]], sms=2, memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (11, 0, 0, PENDING)]
    assert logged(outcome, "fill") == [(63, 0, 0), (68, 1, 0)]


def test_messages_of_several_sms_follow_each_other_into_a_slice():
    # Both leave at 1; the port is busy with the first one until 14.
    outcome = simulated([[[store(0)]], [[store(1)]]], sms=2, memory=None)
    assert logged(outcome, "slice") == [(14, 0, 0, WRITE_MISS), (19, 0, 1, WRITE_MISS)]


def test_responses_of_several_slices_follow_each_other_into_an_sm():
    # At the slices at 10 and 11, from DRAM at 50 and 51, at the SM at 50 + 13 = 63 and 5 later.
    outcome = one_warp(load(0, 1), gpu=machine(l2={"slices": 2}), memory=None)
    assert [t for t, *_ in logged(outcome, "fill")] == [63, 68]


def test_reads_keep_a_line_in_the_l2():
    # Two ways in one set, an L1 of one line. The second 0 hits, so that 2 displaces 1; all are clean.
    gpu = machine(sets=1, ways=1, l2={"size": 256, "ways": 2})
    outcome = one_warp(*[load(line, needs=1) for line in (0, 1, 0, 2, 0, 1)], gpu=gpu, memory=None)
    assert [what for *_, what in logged(outcome, "slice")] == [MISS, MISS, HIT, MISS, HIT, MISS]
    assert (outcome.channels[0]["reads"], outcome.channels[0]["writes"]) == (4, 0)


def test_writes_keep_a_line_in_the_l2():
    # 2 displaces 1, then 1 displaces 2; both are dirty.
    gpu = machine(l2={"size": 256, "ways": 2})
    outcome = one_warp(*[store(line) for line in (0, 1, 0, 2, 0, 1)], gpu=gpu, memory=None)
    kinds = [WRITE_MISS, WRITE_MISS, WRITE_HIT, WRITE_MISS, WRITE_HIT, WRITE_MISS]
    assert [what for *_, what in logged(outcome, "slice")] == kinds
    assert (outcome.channels[0]["reads"], outcome.channels[0]["writes"]) == (0, 2)


@pytest.mark.parametrize("needs", [0, 1])
def test_a_write_makes_a_line_of_the_l2_dirty_though_it_is_reserved(needs):
    # The store comes while line 0 is read, or later; line 1 displaces it after that.
    gpu = machine(sets=1, ways=1, l2={"size": 128, "ways": 1})
    outcome = one_warp(load(0), store(0, needs=needs), load(1, needs=0b10), gpu=gpu, memory=None)
    assert [what for *_, what in logged(outcome, "slice")] == [MISS, WRITE_HIT, MISS]
    assert (outcome.channels[0]["reads"], outcome.channels[0]["writes"]) == (2, 1)


def test_a_write_that_displaces_a_clean_line_of_the_l2_needs_no_room_in_the_dram_queue():
    # Line 0 is back at 10 + 40 + 13 = 63. Line 16, in another bank, leaves at 64, is at the slice at 73 and fills the
    # DRAM queue of one until its column at 97. The write leaves at 65, is there at 65 + 13 = 78 and displaces line 0.
    gpu = machine(l2={"size": 256, "ways": 2}, dram={"queue": 1})
    outcome = one_warp(load(0), load(16, needs=1), store(2), gpu=gpu, memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (73, 0, 16, MISS), (78, 0, 2, WRITE_MISS)]
    assert outcome.slices[0]["fail_dram_queue"] == 0


def test_dirty_lines_that_leave_the_l2_are_written_after_the_last_block_ended():
    # One line in the L2. The second store evicts the first's; the block has ended at 2 already.
    outcome = one_warp(store(0, 1), gpu=machine(l2={"size": 128, "ways": 1}), memory=None)
    assert (outcome.cycles, outcome.channels) == (3, [{"reads": 0, "writes": 1, "activations": 1}])
    assert (outcome.slices[0]["writes"], outcome.slices[0]["write_hits"]) == (2, 0)


@pytest.mark.parametrize(
    ("l2", "failure", "fails"),
    [
        ({"mshrs": 1}, "fail_mshr_entry", 39),
        ({"mshrs": 1, "clock": 1400}, "fail_mshr_entry", 78),
        ({"size": 128, "ways": 1}, "fail_line_alloc", 39),
    ],
)
def test_a_slice_counts_one_failure_in_each_of_its_cycles(l2, failure, fails):
    # Line 0 misses at 10 and is there at 50; line 1 comes at 11 and tries until 49, once or twice a cycle.
    outcome = one_warp(load(0, 1), gpu=machine(l2=l2), memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (50, 0, 1, MISS)]
    assert outcome.slices[0][failure] == fails


def test_a_full_merge_list_of_the_l2_becomes_a_hit():
    # The second read comes at 11, and tries until the line is there at 50.
    outcome = simulated([[[load(0)]], [[load(0)]]], machine(l2={"mshr_merge": 1}), sms=2, memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (50, 0, 0, HIT)]
    assert outcome.slices[0]["fail_mshr_merge"] == 39


def test_a_slice_at_half_the_clock_serves_in_every_other_cycle():
    outcome = one_warp(load(0, 1), gpu=machine(l2={"clock": 350}), memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (12, 0, 1, MISS)]


# DRAM.


def test_an_open_row_is_used_up_before_an_older_request_closes_it():
    # Rows of two lines, two banks: lines 0 and 1 are row 0, 4 is row 1, all of bank 0. Row 0 is activated at 22;
    # columns at 34 and, when bank and bus allow, 38. Precharge not before 22 + 28 = 50, activate 12 later at 62 (and
    # not before 22 + 40 = 62); column at 74.
    gpu = machine(dram={"row": 256, "banks": 2})
    outcome = one_warp(load(0, 4, 1), gpu=gpu, memory=None)
    assert logged(outcome, "dram") == [(34, 0, 0, False), (38, 0, 1, False), (74, 0, 4, False)]
    assert outcome.channels == [{"reads": 3, "writes": 0, "activations": 2}]


def test_a_row_stays_open_for_a_request_that_waits_for_the_bus():
    # As above with line 2 of bank 1, and no tRAS, tRC, tRRD. Bank 1 is activated at 12 + 12 = 24, and its column waits
    # for the bus until 38. Line 1 waits for it until 42; row 1 may not be opened before, though a precharge is possible
    # from 38 on. After that column it is at 46; activate at 58, column at 70.
    gpu = machine(sets=4, dram={"row": 256, "banks": 2, "tras": 0, "trc": 0, "trrd": 0})
    outcome = one_warp(load(0, 4, 2, 1), gpu=gpu, memory=None)
    assert [(d, line) for d, _, line, _ in logged(outcome, "dram")] == [(34, 0), (38, 2), (42, 1), (70, 4)]
    assert outcome.channels[0]["activations"] == 3


@pytest.mark.parametrize(("tras", "trc", "column"), [(0, 0, 62), (28, 0, 74), (0, 60, 94)])
def test_another_row_of_a_bank_waits_for_the_column_and_both_timings(tras, trc, column):
    # Row 0 is activated at 22; column at 34, and 4 later a precharge may follow. tRAS = 28: at 50. Either way the
    # activation is 12 later, with tRC = 60 at 82; the column is another 12 later.
    gpu = machine(dram={"row": 256, "banks": 2, "tras": tras, "trc": trc})
    outcome = one_warp(load(0, 4), gpu=gpu, memory=None)
    assert [d for d, *_ in logged(outcome, "dram")] == [34, column]


def test_banks_open_a_few_cycles_after_each_other():
    # Lines 0 and 2 are in two banks: the second activates 6 after the first, at 28, and its column follows 12 later.
    outcome = one_warp(load(0, 2), gpu=machine(dram={"row": 256, "banks": 2}), memory=None)
    assert logged(outcome, "dram") == [(34, 0, 0, False), (40, 0, 2, False)]


def test_banks_that_have_no_open_row_yet_take_turns_with_those_that_have():
    # Row 0 of 16 banks, then row 1, then row 2. Requests come in one per cycle, and tRRD = 7: row i of all gets its
    # precharge at 10 + 7 i, its activate 12 and its column 24 later (no multiple of 7: no column takes the place of
    # another precharge). The next row of a bank follows 16 x 7 = 112 later, long after tRC = 60: those between are
    # older.
    gpu = machine(
        sets=1,
        ways=64,
        l2={"ways": 64, "mshrs": None},
        dram={"row": 256, "banks": 16, "queue": 64, "trrd": 7, "trc": 60},
    )
    lines = [2 * i for i in range(48)]
    outcome = one_warp(load(*lines), gpu=gpu, memory=None)
    assert [(d, line) for d, _, line, _ in logged(outcome, "dram")] == [
        (34 + 7 * i, line) for i, line in enumerate(lines)
    ]


def test_a_full_dram_queue_stops_the_slice_until_a_column_command():
    # Line 2 comes at 11; the queue of one is free after d = 34. Its precharge is at 35, its column 24 later.
    outcome = one_warp(load(0, 2), gpu=machine(dram={"row": 256, "banks": 2, "queue": 1}), memory=None)
    assert logged(outcome, "slice") == [(10, 0, 0, MISS), (35, 0, 2, MISS)]
    assert logged(outcome, "dram") == [(34, 0, 0, False), (59, 0, 2, False)]
    assert outcome.slices[0]["fail_dram_queue"] == 24


# Any program.


def test_a_machine_in_which_nothing_happens_for_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(machine_run, "MAX_IDLE_CYCLES", 50)
    with pytest.raises(SimulationError, match="since cycle 1"):
        one_warp(load(0), memory=100)


@given(lines=st.lists(st.integers(0, 11), max_size=30))
def test_one_warp_at_a_time_hits_and_misses_as_the_model_says(lines):
    cache = CacheConfig(size=1024, ways=2, index=Linear())
    options = Options(lat_min=0, sigma=0.0, hit_latency=0)
    program = [Instruction(op=Op.LOAD, needs=1, gap=0, lines=(line,)) for line in lines]
    model = run(hardware(cache, options, 1, iter([0] * 30), iter([0.0] * 99)), [[program]])
    outcome = one_warp(*[load(line, needs=1) for line in lines], gpu=machine(sets=4, ways=2), memory=0)
    names = ("transactions", "hits", "compulsory", "capacity", "associativity")
    assert counted(outcome, *names) == tuple(getattr(model, name) for name in names)


INSTRUCTIONS = st.builds(
    MachineInstruction,
    op=st.sampled_from([Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC]),
    local=st.booleans(),
    needs=st.sampled_from([0, 1, 3, ALL_NEEDS]),
    gap=st.integers(0, 2),
    lanes=st.integers(1, 32),
    lines=st.lists(st.integers(0, 15), max_size=3).map(tuple),
)
BLOCKS = st.lists(st.lists(st.lists(INSTRUCTIONS | st.just(barrier()), max_size=4), max_size=2), max_size=4)


@given(
    blocks=BLOCKS,
    sched=st.sampled_from(["lrr", "gto", "two-level", "old"]),
    memory=st.sampled_from([None, None, 0, 5]),
    allocate=st.sampled_from(["miss", "fill"]),
    limit=st.sampled_from([1, 2, None]),
    queue=st.integers(1, 2),
)
def test_every_program_ends_with_all_queues_empty_and_all_transactions_counted(
    blocks, sched, memory, allocate, limit, queue
):
    # The end of a run asserts both.
    gpu = machine(
        l1={"allocate": allocate, "mshrs": limit, "mshr_merge": limit, "miss_queue": queue},
        core={"schedulers": 2, "fetch_group": 1},
        l2={"slices": 2, "size": 256, "ways": 1, "mshrs": limit, "mshr_merge": limit, "queue": queue},
        dram={"queue": queue},
    )
    outcome = simulated(blocks, gpu, slots=2, sms=2, sched=sched, memory=memory)
    assert sum(sm["blocks"] for sm in outcome.sms) == len(blocks)
    assert outcome.cycles == max((t for t, *_ in logged(outcome, "end")), default=-1) + 1
