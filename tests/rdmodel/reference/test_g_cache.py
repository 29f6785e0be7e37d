"""Test `g-cache` on the reference machine against results derived by hand.

There are one SM, one set of two ways in its L1, and one slice with room for all lines, unless a test says otherwise.
Each load needs the one before. The first read of a line has no hint; every later read by the same SM has one.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import PCAL, GCache
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, WRITE
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

ONE_SET = machine(sets=1)
# Line 2 replaces 0, 0 replaces 1 and 1 replaces 2. Lines 0 and 1 have hints and are hot.
LOST = (0, 1, 2, 0, 1)


def run(*program, gpu=ONE_SET, memory=None, **options):
    return one_warp(*program, gpu=gpu, policies=[GCache(**options)], memory=memory)


def after(*lines, gpu=ONE_SET, **options):
    """Return the outcomes of loads after `LOST`."""
    found = outcomes(run(*chain(*LOST, *lines), gpu=gpu, **options))
    assert found[:5] == [MISS] * 5
    return found[5:]


def test_a_loop_over_more_lines_than_ways_keeps_some_of_them():
    assert after(2, 0, 1, 2, 0, 1) == [MISS, HIT, HIT] * 2


def test_lines_that_loads_find_are_not_protected_before_a_hint():
    # Both lines of the set have been found when line 2 replaces the older one.
    assert outcomes(run(*chain(0, 0, 1, 1, 2, 0))) == [MISS, HIT, MISS, HIT, MISS, MISS]


def test_lines_that_loads_find_are_hot_without_a_hint_of_their_own():
    # Line 0 brings the first hint and replaces 1. Line 2 is cold until it is found, so that line 3 stays out.
    assert outcomes(run(*chain(0, 1, 2, 0, 2, 3, 0, 2))) == [*[MISS] * 4, HIT, MISS, HIT, HIT]


def test_a_cold_line_is_replaced_before_an_older_hot_one():
    # Line 0 brings the first hint; line 3 replaces 2, and line 4 replaces 3.
    assert outcomes(run(*chain(0, 1, 2, 0, 3, 4, 0))) == [*[MISS] * 6, HIT]


@pytest.mark.parametrize(("heat", "last"), [(2, MISS), (3, HIT)])
def test_fills_that_stay_out_cool_the_lines_of_their_set(heat, last):
    # Lines 3 and 4 stay out. Line 5 replaces 0 if both are cold by then.
    assert after(3, 4, 5, 1, 0, heat=heat) == [MISS, MISS, MISS, HIT, last]


def test_fills_that_stay_out_cool_no_other_set():
    # Lines 0, 2 and 4 are of set 0, others of set 1.
    program = chain(0, 2, 4, 0, 2, 1, 3, 5, 1, 3, 7, 6, 0)
    assert outcomes(run(*program, gpu=machine(sets=2), heat=1)) == [*[MISS] * 12, HIT]


def test_a_load_that_finds_a_line_heats_it_again():
    # Line 3 stays out and cools both lines. Were they not found then, line 4 would replace 0.
    assert after(3, 0, 1, 4, 0, heat=1) == [MISS, HIT, HIT, MISS, HIT]


@pytest.mark.parametrize(("gap", "when", "last"), [(2100, (2000, 4000), HIT), (4100, (4000, 6000), MISS)])
def test_a_period_without_hints_ends_the_protection(gap, when, last):
    # The hints come in the first period. Line 3 stays out in the second one, and replaces line 0 in the third.
    program = [*chain(*LOST), load(3, needs=1, gap=gap), *chain(0)]
    outcome = run(*program, period=2000)
    times = [time for time, *_ in accessed(outcome)]
    assert times[4] + 200 < 2000
    assert when[0] < times[5] < when[1] - 200
    assert outcomes(outcome)[5:] == [MISS, last]


@pytest.mark.parametrize(("size", "last"), [(4, MISS), (64, HIT)])
def test_a_slice_forgets_the_readers_of_lines_that_it_replaces(size, last):
    # A set of the slice has four ways. In its only set, line 4 replaces line 0, whose second read has no hint then.
    gpu = machine(sets=1, l2={"size": 128 * size, "ways": 4})
    found = outcomes(run(*chain(0, 1, 2, 3, 4, 0, 4, 0, 5, 4), gpu=gpu))
    assert found == [*[MISS] * 6, HIT, HIT, MISS, last]


@pytest.mark.parametrize(("sharers", "last"), [(1, MISS), (2, HIT)])
def test_sms_share_victim_bits(sharers, last):
    # SM 0 has read line 0 before SM 1 does. A hint makes line 0 hot, so that line 2 replaces 1.
    blocks = [[chain(0)], [[load(0, gap=1000), *chain(1, 2, 0)]]]
    outcome = simulated(blocks, GCache(sharers=sharers), gpu=ONE_SET, sms=2, memory=None)
    assert [what for _, sm, _, what in logged(outcome, "access") if sm == 1] == [MISS, MISS, MISS, last]


def test_a_read_past_the_l1_sets_no_victim_bit():
    # Warp 1 has no token and bypasses. When warp 0 reads line 0, it gets no hint, and line 2 replaces 0.
    block = [[load(0, gap=1000), *chain(1, 2, 0)], chain(0)]
    outcome = simulated([block], PCAL(tokens=1, extra=1), GCache(), gpu=ONE_SET, memory=None)
    assert outcomes(outcome) == [BYPASSED, *[MISS] * 4]


def test_a_store_sets_no_victim_bit():
    outcome = run(store(0), load(0, gap=1000), *chain(1, 2, 0))
    assert outcomes(outcome) == [WRITE, *[MISS] * 4]


def test_a_line_that_a_local_store_wrote_in_flight_replaces_a_hot_one():
    # Line 3 replaces 0 and is cold: line 4 replaces 3.
    program = [*chain(*LOST), load(3, needs=1), store(3, local=True), load(1, gap=1000), *chain(4, 1, 3)]
    assert outcomes(run(*program))[5:] == [MISS, WRITE, HIT, MISS, HIT, MISS]


def test_a_line_that_a_local_store_wrote_in_flight_replaces_the_oldest_however_hot():
    # Line 4 stays out; then a load heats line 0, and a store makes it the older one. Line 3 replaces 0, and not 1.
    program = [*chain(*LOST, 4, 0), store(1, local=True, needs=1), load(3, gap=100), store(3, local=True)]
    outcome = run(*program, load(1, gap=1000), heat=2)
    assert outcomes(outcome)[5:] == [MISS, HIT, WRITE, MISS, WRITE, HIT]


def test_lines_get_their_ways_at_their_fills():
    # With ``l1.allocate="miss"``, line 1 would wait until line 0 is there.
    outcome = run(load(0, 1), gpu=machine(sets=1, ways=1, l1={"allocate": "miss"}))
    assert accessed(outcome) == [(1, 0, MISS), (2, 1, MISS)]
    assert counted(outcome, "fail_line_alloc") == (0,)


def test_a_hint_for_a_line_that_has_its_way_is_none():
    # The second read of line 0 is for another of its sectors. Line 2 replaces 0, and not 1.
    masks = (1, 2, 1, 1, 1)
    program = [one._replace(sectors=(mask,), full=(0,)) for one, mask in zip(chain(0, 0, 1, 2, 0), masks, strict=True)]
    outcome = run(*program, gpu=machine(sets=1, l1={"sector": 32, "stores": "through"}, l2={"sector": 32}))
    assert [what for _, _, _, what, _ in logged(outcome, "access")] == [MISS] * 5


def test_an_ideal_memory_gives_no_hints():
    assert after(2, 0, 1, memory=10) == [MISS] * 3
