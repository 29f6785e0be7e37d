"""Slices of the L2 that close to streams, on the cycle-by-cycle machine, derived by hand.

L1 of one line, L2 of one set of two ways, periods of 120 cycles. With all lines in one row of the DRAM, the first read
is at the slice at 10, and one that waits for it at 73; from then on one that waits for the DRAM's data is there 39
cycles after the read that brought them, and 23 cycles after a hit. So lines 0, 1 and 2 are missed at 10, 73 and 112;
the slice is closed from 120 on, with lines 1 and 2 in it, and is looked at again at 239.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import StreamingBypass
from rdmodel.reference.machine.record import HIT, MISS, PENDING, SLICE_BYPASSED, WRITE_HIT, WRITE_MISS
from tests.support.machine_programs import chain, counted, load, logged, machine, simulated, store

STREAM = [(10, 0, MISS), (73, 1, MISS), (112, 2, MISS)]


def run(*programs, caches="l2", period=120, memory=None, dram=(), **l2):
    """Run one warp on each SM."""
    gpu = machine(sets=1, ways=1, l2={"size": 256, "ways": 2, **l2}, dram=dram)
    policy = StreamingBypass(period=period, threshold=0.5, caches=caches)
    return simulated([[list(program)] for program in programs], policy, gpu=gpu, memory=memory, sms=len(programs))


def served(outcome, number=0):
    return [(t, line, what) for t, where, line, what in logged(outcome, "slice") if where == number]


def test_a_slice_in_which_nothing_hits_closes_and_opens_again():
    # Three reads find their tags until 239. Line 2 has been there all the time.
    outcome = run(chain(0, 1, 2, 1, 2, 1, 2))
    bypassed = [(151, 1, SLICE_BYPASSED), (190, 2, SLICE_BYPASSED), (229, 1, SLICE_BYPASSED)]
    assert served(outcome) == [*STREAM, *bypassed, (268, 2, HIT)]
    counts = outcome.slices[0]
    assert {name: counts[name] for name in ("reads", "hits", "misses", "bypassed")} == {
        "reads": 7,
        "hits": 1,
        "misses": 3,
        "bypassed": 3,
    }
    assert outcome.channels[0]["reads"] == 6
    assert counted(outcome, "bypassed", "read_messages") == (0, 7)


def test_tags_without_data_are_dropped_when_the_slice_opens():
    # Line 5 leaves its tag in the way of line 1, and finds it at 229. Line 2 has stayed.
    outcome = run(chain(0, 1, 2, 5, 2, 5, 2, 5))
    bypassed = [(151, 5, SLICE_BYPASSED), (190, 2, SLICE_BYPASSED), (229, 5, SLICE_BYPASSED)]
    assert served(outcome) == [*STREAM, *bypassed, (268, 2, HIT), (291, 5, MISS)]


def test_a_closed_slice_keeps_the_order_of_use():
    # Line 1 is found at 151, so that line 5 takes the way of line 2.
    outcome = run(chain(0, 1, 2, 1, 5, 1, 2, 1))
    bypassed = [(151, 1, SLICE_BYPASSED), (190, 5, SLICE_BYPASSED), (229, 1, SLICE_BYPASSED)]
    assert served(outcome) == [*STREAM, *bypassed, (268, 2, MISS), (307, 1, HIT)]


def test_a_slice_in_which_too_little_is_found_stays_closed():
    outcome = run(chain(0, 1, 2, 5, 6, 5, 6, 5))
    assert [what for *_, what in served(outcome)[3:]] == [SLICE_BYPASSED] * 5


def test_a_period_without_reads_changes_nothing():
    outcome = run([*chain(0, 1, 2), load(1, gap=400)])
    assert served(outcome)[-1][2] == SLICE_BYPASSED
    assert served(outcome)[-1][0] > 480


def test_a_closed_slice_has_dirty_lines():
    # The store issues at 102 and writes line 1 at 116. From 103 on there are 20 other instructions: line 1 is read at
    # 133 and line 0, which is clean, after it.
    outcome = run([*chain(0, 1), store(1, needs=1), load(1, gap=20), load(0, needs=1)])
    assert served(outcome)[2:] == [(116, 1, WRITE_HIT), (133, 1, HIT), (156, 0, SLICE_BYPASSED)]


def test_a_write_makes_a_tag_a_line():
    # The tag of line 5 is there from 151 on, and written at 194, in the closed slice. Until 239 one of three reads did
    # not find its tag; line 5 stays.
    outcome = run([*chain(0, 1, 2, 5), store(5, needs=1), load(5), *chain(2, 5)])
    assert served(outcome)[3:] == [
        (151, 5, SLICE_BYPASSED),
        (194, 5, WRITE_HIT),
        (195, 5, HIT),
        (218, 2, SLICE_BYPASSED),
        (257, 5, HIT),
    ]
    assert outcome.slices[0]["write_hits"] == 1


def test_a_closed_slice_takes_writes():
    # Line 5 takes the way of line 1, and is there when it is read.
    outcome = run([*chain(0, 1, 2), store(5, needs=1), load(5)])
    assert [(line, what) for _, line, what in served(outcome)[3:]] == [(5, WRITE_MISS), (5, HIT)]


def test_a_tag_without_data_is_replaced_without_a_write():
    # Lines 5 and 6 leave their tags in both ways, which lines 7 and 8 take when they are written.
    outcome = run([*chain(0, 1, 2, 5, 6), store(7, 8, needs=1)])
    assert outcome.channels[0] == {"reads": 5, "writes": 0, "activations": 1}


def test_a_read_that_bypasses_writes_what_its_tag_displaces_before_itself():
    # Lines 0 and 1 are dirty. Line 5 displaces the first one, in a DRAM queue of one.
    outcome = run([*chain(0, 1), store(0, 1, needs=1), load(5, gap=40)], dram={"queue": 1})
    assert served(outcome)[-1][1:] == (5, SLICE_BYPASSED)
    assert [(line, write) for _, _, line, write in logged(outcome, "dram")][2:] == [(0, True), (5, False)]


def test_a_closed_slice_has_lines_in_flight():
    # SM 1 misses line 6 at 110, which comes at 126. SM 0 wants it at 122.
    outcome = run([*chain(0, 1), load(6, gap=48)], [load(6, gap=100)])
    assert served(outcome)[2:] == [(110, 6, MISS), (122, 6, PENDING)]


def test_reads_that_bypass_are_answered_one_by_one():
    # Both SMs read line 7 at 151 and 152, as SM 0 alone has read lines 0 to 2.
    outcome = run(chain(0, 1, 2, 7), [load(7, gap=142)])
    assert served(outcome)[3:] == [(151, 7, SLICE_BYPASSED), (152, 7, SLICE_BYPASSED)]
    assert [line for _, _, line, _ in logged(outcome, "dram")][3:] == [7, 7]
    assert outcome.slices[0]["pending_hits"] == 0


def test_a_read_that_bypasses_waits_for_room_in_the_queue_of_the_dram():
    # A row for each line. The read of line 20 is in the queue of one until its column command.
    dram = {"queue": 1, "banks": 1, "row": 128}
    outcome = run([*chain(0, 1), load(20, gap=200)], [load(21, gap=264)], dram=dram)
    (first, *_), (second, *_) = served(outcome)[2:]
    assert [what for *_, what in served(outcome)[2:]] == [SLICE_BYPASSED] * 2
    left = next(d for d, _, line, _ in logged(outcome, "dram") if line == 20)
    assert second == left + 1 > first + 1
    assert outcome.slices[0]["fail_dram_queue"] == left - first


def test_every_slice_opens_and_closes_by_itself():
    # Until 299 slice 1, that of odd lines, finds line 1 three times of four, and slice 0 finds nothing.
    outcome = run(chain(1, 0, 1, 2, 1, 4, 1, 6, 1, 8), slices=2, period=300)
    assert served(outcome, 1) == [(10, 1, MISS), *((t, 1, HIT) for t in (136, 198, 260, 322))]
    even = [(73, 0, MISS), (159, 2, MISS), (221, 4, MISS), (283, 6, MISS)]
    assert served(outcome) == [*even, (345, 8, SLICE_BYPASSED)]


@pytest.mark.parametrize(("caches", "bypassed"), [("l1", (5, 0)), ("l2", (0, 5)), ("both", (5, 5))])
def test_the_option_says_which_caches_may_close(caches, bypassed):
    # Lines 3 to 7 come after 119.
    outcome = run(chain(*range(8)), caches=caches)
    assert (*counted(outcome, "bypassed"), outcome.slices[0]["bypassed"]) == bypassed


def test_an_ideal_memory_has_no_slices_to_close():
    outcome = run(chain(*range(30)), memory=10)
    assert (counted(outcome, "bypassed"), outcome.slices) == ((0,), [])
