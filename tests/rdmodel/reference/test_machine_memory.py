"""Test the crossbar, the L2 and the DRAM of the reference machine against results derived by hand.

Clocks, ports and latencies are those of test_machine_sm.py unless a test says otherwise. A read that is sent at t
reaches the slice at t + 8 + 1; a write and a response take 8 + 5 cycles. A row that the DRAM begins to open at d has
its column command at d + 24, and its data 12 + 4 later.
"""

from __future__ import annotations

import pytest

from rdmodel.reference.machine.record import HIT, MISS, PENDING, WRITE_HIT, WRITE_MISS
from tests.support.machine_programs import load, logged, machine, store
from tests.support.machine_without_policies import one_warp, simulated

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
