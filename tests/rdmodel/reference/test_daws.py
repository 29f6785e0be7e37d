"""Test `daws` (divergence-aware warp scheduling) on the reference machine against results derived by hand."""

from __future__ import annotations

import pytest

from rdmodel.policies import DAWS, BypassAll
from rdmodel.reference.machine.daws import LoopFootprints
from rdmodel.reference.machine.instruction import Owner
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.warps import Warp
from rdmodel.trace.cache_ops import CacheOp
from tests.support.machine_programs import barrier, chain, issued, load, load_by, machine, simulated, store

WARPS = [Warp(age, age, Owner(0, age), [load(0)]) for age in range(4)]
SAMPLED, *OTHERS = WARPS


def show(predictor, *loads, warp=SAMPLED):
    """Let a warp execute loads, each given as its pc and its lines."""
    for number, (pc, *lines) in enumerate(loads):
        for place, line in enumerate(lines):
            predictor.see(Transaction(warp, number, line, load_by(pc, *lines), place))


def predictor_of(*loads, lines=8, **options):
    """Return the predictor of an SM with an L1 of some lines, whose oldest warp has executed loads."""
    predictor = LoopFootprints(DAWS(**options), lines)
    for warp in WARPS:
        predictor.add_warp(warp.owner)
    show(predictor, *loads)
    return predictor


def footprints(predictor, *pcs, lanes=32):
    """Return the footprint of a warp at each of some loads."""
    found = []
    for pc in pcs:
        predictor.leave(OTHERS[0].owner)
        predictor.move(OTHERS[0].owner, load_by(pc, 0, lanes=lanes))
        found.append(predictor.footprint(OTHERS[0].owner))
    return found


# Loops. Every load has a line of its own, which it finds again.


def lines_of_their_own(*pcs):
    return [(pc, 100 + pc) for pc in pcs]


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        # A load that comes again is a loop; a line that another load finds makes none.
        ([1, 1], [1, 0, 0]),
        ([1, 2, 3], [0, 0, 0]),
        # The loads since then belong to the loop, those before do not.
        ([1, 1, 2, 3, 2, 3], [1, 2, 2]),
        # The order of the pcs does not matter.
        ([3, 1, 2, 3, 1, 2], [3, 3, 3]),
        # A load that some iterations leave out belongs to the loop.
        ([1, 2, 1, 3, 1, 2, 3], [3, 3, 3]),
        # Loads 2 and 3 are an inner loop. With the outer loop, they are one.
        ([1, 2, 3, 2, 3], [0, 2, 2]),
        ([1, 2, 3, 2, 3, 1], [3, 3, 3]),
        # Load 1 comes between two executions of load 3, although load 2 has come again before it.
        ([2, 3, 2, 1, 3], [2, 2, 2]),
    ],
)
def test_loads_between_two_executions_of_a_load_are_one_loop(passed, expected):
    assert footprints(predictor_of(*lines_of_their_own(*passed)), 1, 2, 3) == expected


def test_a_load_that_another_one_finds_again_is_in_no_loop():
    assert footprints(predictor_of((1, 7), (2, 7), (3, 7)), 1, 2, 3) == [0, 0, 0]


def test_loads_beyond_the_table_are_not_known():
    passed = lines_of_their_own(1, 2, 3, 1, 2, 3)
    assert footprints(predictor_of(*passed, loads=2), 1, 2, 3) == [2, 2, 0]


# Divergence and locality.


@pytest.mark.parametrize(("lines", "expected"), [([0, 1], 1), ([0, 1, 2], 20)])
def test_a_load_of_more_than_two_transactions_has_a_line_for_each_lane(lines, expected):
    assert footprints(predictor_of((1, *lines), (1, *lines)), 1, lanes=20) == [expected]


def test_a_load_that_was_divergent_once_stays_divergent():
    assert footprints(predictor_of((1, 0, 1, 2), (1, 0), (1, 0), (1, 0)), 1) == [32]
    assert footprints(predictor_of((1, 0, 1, 2), (1, 0), (1, 0), (1, 0), converged=3), 1) == [1]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([0, 1, 0, 1], 1),  # two of four
        ([0, 1, 2, 0, 1], 0),  # two of five
        ([0, 1, 2, 3], 0),
    ],
)
def test_half_of_the_lines_of_a_load_with_locality_are_found_again(lines, expected):
    assert footprints(predictor_of(*((1, line) for line in lines)), 1) == [expected]


def test_without_a_least_share_one_line_that_is_found_again_is_enough():
    assert footprints(predictor_of((1, 0), (1, 1), (1, 2), (1, 0), reuse=0), 1) == [1]
    assert footprints(predictor_of((1, 0), (1, 1), (1, 2), reuse=0), 1) == [0]


def test_a_line_counts_for_the_load_that_brought_it():
    # Load 2 finds the line of load 1, so that the loop needs one line.
    assert footprints(predictor_of((1, 7), (2, 7), (1, 7), (2, 7)), 1, 2) == [1, 1]


def test_a_line_that_one_instruction_loads_twice_is_not_found_again():
    assert footprints(predictor_of((1, 7, 7), (1, 8, 8)), 1) == [0]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([0, 1, 2, 0, 1, 2], 1),
        ([0, 1, 2, 3, 0, 1, 2, 3], 0),
        # Lines 0 and 1 stay, because they were used after line 2; line 2 does not come back.
        ([0, 1, 2, 0, 1, 3, 0, 1], 1),
    ],
)
def test_a_warp_finds_the_lines_that_it_used_last_as_many_as_the_l1_has(lines, expected):
    assert footprints(predictor_of(*((1, line) for line in lines), lines=3), 1) == [expected]


# The sampled warp.


def test_only_the_oldest_warp_is_sampled():
    predictor = predictor_of()
    show(predictor, (1, 7), (1, 7), warp=OTHERS[0])
    assert footprints(predictor, 1) == [0]


def test_the_next_oldest_warp_continues_with_no_lines_and_no_path():
    predictor = predictor_of((1, 7), (2, 8))
    predictor.remove_warp(SAMPLED.owner)
    show(predictor, (1, 7), warp=OTHERS[0])
    assert footprints(predictor, 1, 2) == [0, 0]
    # Three of six transactions of load 1 have found its lines; load 2 is not in the loop.
    show(predictor, (1, 9), (1, 9), (1, 9), (1, 9), warp=OTHERS[0])
    assert footprints(predictor, 1, 2) == [1, 0]


def test_the_end_of_another_warp_changes_nothing():
    predictor = predictor_of((1, 7))
    predictor.remove_warp(OTHERS[1].owner)
    predictor.see(Transaction(SAMPLED, 1, 7, load_by(1, 7), 0))
    assert footprints(predictor, 1) == [1]


# Positions.


def test_the_most_lanes_of_an_iteration_count():
    # Loads 1 and 2 are divergent and in a loop.
    predictor = predictor_of(*2 * [(1, 0, 1, 2), (2, 3, 4, 5)])
    found = []
    for pc, lanes in [(1, 20), (2, 4), (1, 10), (2, 12), (1, 8), (2, 3)]:
        predictor.move(OTHERS[0].owner, load_by(pc, 0, lanes=lanes))
        found.append(predictor.footprint(OTHERS[0].owner))
    assert found == [40, 40, 20, 24, 16, 16]


def test_an_iteration_begins_with_the_load_by_which_the_warp_came_into_the_loop():
    predictor = predictor_of(*2 * [(1, 0, 1, 2), (2, 3, 4, 5)], (3, 9))
    found = []
    for pc, lanes in [(1, 30), (3, 30), (2, 6), (1, 8), (2, 4)]:
        predictor.move(OTHERS[0].owner, load_by(pc, 0, lanes=lanes))
        found.append(predictor.footprint(OTHERS[0].owner))
    assert found == [60, 0, 12, 16, 8]


def loaders(share, *lanes):
    """Return the ages of the warps that may load, whose positions in the loop of a divergent load have some lanes."""
    predictor = predictor_of((1, 0, 1, 2), (1, 0, 1, 2), share=share, lines=10)
    for warp, active in zip(WARPS, lanes, strict=True):
        if active:
            predictor.move(warp.owner, load_by(1, 0, lanes=active))
    predictor.choose_loaders(WARPS[::-1])
    return [warp.age for warp in WARPS if warp.owner in predictor.may_load]


def test_warps_load_by_age_as_long_as_their_footprints_fit():
    assert loaders(0.6, 2, 2, 2, 2) == [0, 1, 2]
    assert loaders(0.5, 2, 2, 2, 2) == [0, 1]
    assert loaders(1, 2, 2, 2, 2) == [0, 1, 2, 3]


def test_no_younger_warp_takes_the_place_of_one_that_does_not_fit():
    assert loaders(0.6, 2, 5, 1, 1) == [0]


def test_warps_without_a_footprint_load():
    assert loaders(0.6, 6, 0, 1, 0) == [0, 1, 3]


def test_one_warp_loads_even_if_it_does_not_fit():
    assert loaders(0.6, 0, 9, 1, 1) == [0, 1]
    assert loaders(0, 1, 1, 1, 0) == [0, 3]


# The machine: four lines, of which two may be filled. Data arrive 50 cycles after the access, those of hits after 3. So
# the first loads of a warp that need each other issue 51 cycles apart, later ones 4. The data of the first loads are
# back at 51, 52 and so on; the oldest warp shows its loop and the locality at 52, with its second load.

GPU = machine(sets=1, ways=4)
HALF = DAWS(share=0.5)


def run(*warps, policies=(HALF,), gpu=GPU, **options):
    """Return the cycles in which each warp of a block issues memory instructions."""
    outcome = simulated([[list(warp) for warp in warps]], *policies, gpu=gpu, memory=50, sched="old", **options)
    return [[t for t, slot in issued(outcome) if slot == warp] for warp in range(len(warps))]


def test_a_warp_waits_until_another_one_has_issued_the_last_load_of_its_loop():
    assert run(chain(0, 0, 0), chain(1, 1, 1), chain(2, 2, 2)) == [[0, 51, 55], [1, 52, 56], [2, 57, 61]]
    # Without the policy, warp 2 loads at 53.
    assert run(chain(0, 0, 0), chain(1, 1, 1), chain(2, 2, 2), policies=())[2] == [2, 53, 57]


def test_a_warp_leaves_a_loop_with_its_next_load():
    # Warp 0 goes on to another load at 51, and warp 1, the sampled one, does not: warp 2 loads at 53.
    first = [*chain(0, 0), load_by(9, 3, needs=1)]
    assert run(first, chain(1, 1, 1), chain(2, 2, 2)) == [[0, 51, 55], [1, 52, 56], [2, 53, 57]]


def test_a_store_in_a_loop_does_not_leave_it():
    # Warp 0 issues the store at 55 and its last load of the loop at 56. Then warp 1 goes before warp 2.
    first = [*chain(0, 0), store(9, needs=1), *chain(0)]
    assert run(first, chain(1, 1, 1, 1), chain(2, 2))[2] == [2, 58]


def test_only_loads_with_transactions_wait():
    for other in (store(9, needs=1), load(needs=1)):
        third = [*chain(2), other, load_by(0, 2, needs=2)]
        assert run(chain(0, 0, 0, 0), chain(1, 1, 1, 1), third)[2][:2] == [2, 53]


def test_warps_at_a_barrier_do_not_count():
    # Warp 0 comes to the barrier at 55. At 56 warp 1 loads, and then warp 2 does.
    first = [*chain(0, 0), barrier(needs=1), *chain(0, 0)]
    second = [*chain(1, 1, 1, 1), barrier()]
    third = [*chain(2, 2), barrier(needs=1)]
    assert run(first, second, third)[2] == [2, 57]


def test_loads_that_bypass_by_a_policy_are_learnt_from():
    # Every load takes 51 cycles. The second load of warp 0 is served at 52.
    cycles = run(chain(0, 0, 0), chain(1, 1, 1), chain(2, 2, 2), policies=(HALF, BypassAll()))
    assert cycles == [[0, 51, 102], [1, 52, 103], [2, 104, 155]]


def test_loads_past_the_l1_neither_show_loops_nor_end_them():
    past = [load_by(5, 3, needs=1)._replace(cache_op=int(CacheOp.CG))]
    first = [*chain(0, 0), *past, *chain(0)]
    # Warp 0 loads past the L1 at 55, and issues its last load of the loop at 106. Warp 1 does so at 107.
    assert run(first, [*chain(1, 1), *past, *chain(1)], chain(2, 2)) == [[0, 51, 55, 106], [1, 52, 56, 107], [2, 108]]


def test_every_sm_predicts_on_its_own():
    # SM 1 has warps whose loads come once.
    once = [[load_by(pc, pc, needs=1) for pc in range(warp, 9, 3)] for warp in range(3)]
    blocks = [[chain(0, 0, 0), chain(1, 1, 1), chain(2, 2, 2)], once]
    outcome = simulated(blocks, HALF, gpu=GPU, memory=50, sched="old", sms=2)
    assert [t for t, slot in issued(outcome) if slot == 2] == [2, 57, 61]
    assert [t for t, slot in issued(outcome, sm=1) if slot == 2] == [2, 53, 104]
