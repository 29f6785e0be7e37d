"""Test `abyp` on the reference machine against results derived by hand: one warp, and mostly one set of one way."""

from __future__ import annotations

import pytest

from rdmodel.policies import ABYP
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING, WRITE
from tests.support.machine_programs import accessed, chain, counted, load_by, machine, one_warp, outcomes, store

ONE_WAY = machine(sets=1, ways=1)


def run(*program, gpu=ONE_WAY, **options):
    return one_warp(*program, gpu=gpu, policies=[ABYP(**options)])


def test_unused_lines_raise_the_counter_of_their_load_and_uses_lower_it():
    # Line 1 replaces 0 (counter 1), 2 replaces 1 (2). 3 bypasses. 2 hits (1), which lets line 4 replace it. Line 5
    # replaces 4 (2). 6 bypasses.
    outcome = run(*chain(0, 1, 2, 3, 2, 4, 5, 6), most=2, threshold=2)
    assert outcomes(outcome) == [MISS, MISS, MISS, BYPASSED, HIT, MISS, MISS, BYPASSED]
    assert counted(outcome, "bypassed", "intra_warp") == (2, 4)


def test_the_counter_of_a_load_stays_at_zero_where_its_lines_are_used():
    # Three hits at 0; line 1 replaces 0, which was used; line 2 replaces 1 (1), and 3 bypasses.
    outcome = run(*chain(0, 0, 0, 0, 1, 2, 3), threshold=1)
    assert outcomes(outcome) == [MISS, HIT, HIT, HIT, MISS, MISS, BYPASSED]


def test_counters_end_at_the_most():
    # Load 2 replaces four lines of load 1 (2, not 4). Line 4 of load 1 hits (1), so that it brings line 16.
    gpu = machine(sets=8, ways=1)
    program = [load_by(1, 0, 1, 2, 3, 4), load_by(2, 8, 9, 10, 11, needs=1), *chain(17, 4, 16, pc=1)]
    outcome = run(*program, gpu=gpu, most=2, threshold=2)
    assert outcomes(outcome)[-3:] == [BYPASSED, HIT, MISS]


@pytest.mark.parametrize(("entries", "what"), [(4, BYPASSED), (8, MISS)])
def test_loads_share_counters_by_their_program_counters(entries, what):
    # Line 0 of load 1 is replaced unused by load 5.
    outcome = run(*chain(0, pc=1), *chain(1, 2, pc=5), entries=entries, threshold=1)
    assert outcomes(outcome) == [MISS, MISS, what]


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@pytest.mark.parametrize(("second", "what"), [(0, MISS), (1, BYPASSED)])
def test_a_pending_hit_is_a_use(second, what, allocate):
    # Line 0 of load 1 is found on its way by load 2, or not; line 2 of load 3 replaces it.
    gpu = machine(ways=1, l1={"allocate": allocate})
    program = [load_by(1, 0), load_by(2, second), *chain(2, pc=3), *chain(4, pc=1)]
    outcome = run(*program, gpu=gpu, threshold=1)
    assert outcomes(outcome) == [MISS, PENDING if second == 0 else MISS, MISS, what]


def test_a_pending_hit_lowers_the_counter():
    # Lines 1 and 2 replace unused ones (2). Line 2 is found on its way (1), so that lines 3, 4 (2) and 5 come (3).
    program = [*chain(0, 1, 2, pc=1), load_by(2, 2), *chain(3, 4, 5, 6, pc=1)]
    outcome = run(*program, threshold=3)
    assert outcomes(outcome) == [MISS, MISS, MISS, PENDING, MISS, MISS, MISS, BYPASSED]


def test_a_use_speaks_for_the_load_that_brought_the_line():
    # Line 1 replaces 0 (load 1 has 1); load 2 finds it (0), load 3 replaces it, and load 1 brings line 3.
    outcome = run(*chain(0, 1, pc=1), *chain(1, pc=2), *chain(2, pc=3), *chain(3, pc=1), threshold=1)
    assert outcomes(outcome) == [MISS, MISS, HIT, MISS, MISS]


def test_lines_of_local_stores_count_for_nobody():
    # Line 1 replaces that of the store; line 2 replaces 1 (1), and 3 bypasses. That of a load which a store replaces
    # counts: load 1 bypasses line 6.
    outcome = run(store(0, local=True), *chain(1, 2, 3), threshold=1)
    assert outcomes(outcome) == [WRITE, MISS, MISS, BYPASSED]
    outcome = run(*chain(4, pc=1), store(5, local=True, needs=1), *chain(6, pc=1), threshold=1)
    assert outcomes(outcome) == [MISS, WRITE, BYPASSED]


def test_lines_that_a_global_store_drops_are_not_replaced():
    outcome = run(*chain(0), store(0, needs=1), *chain(1, 2), threshold=1)
    assert outcomes(outcome) == [MISS, WRITE, MISS, MISS]


def test_a_load_that_shall_bypass_waits_for_nothing_else():
    # Load 1 is at 1 when line 1 has replaced 0. Line 1 is in flight from 12 to 22, and there is one MSHR and one way.
    program = [*chain(0, pc=1), *chain(1, pc=2), load_by(1, 3), load_by(2, 4)]
    outcome = run(*program, gpu=machine(sets=1, ways=1, l1={"mshrs": 1}), threshold=1)
    assert accessed(outcome) == [(1, 0, MISS), (12, 1, MISS), (13, 3, BYPASSED), (22, 4, MISS)]


def test_a_load_that_bypasses_keeps_its_counter():
    outcome = run(*chain(0, 1, 2, 2, 2, 1), threshold=1)
    assert outcomes(outcome) == [MISS, MISS, BYPASSED, BYPASSED, BYPASSED, HIT]
