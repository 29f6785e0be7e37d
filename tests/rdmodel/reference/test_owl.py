"""Test `owl` on the reference machine against results derived by hand.

There are one scheduler, one place in the load/store queue and eight sets of two ways. Data arrive 10 cycles after the
access. An instruction that issues at t accesses the L1 at t + 1. Blocks have one warp unless a test says otherwise, so
that `group` counts blocks.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import OWL
from tests.support.machine_programs import chain, issued, load, logged, machine, simulated


def waiting(line, gap):
    """Return a block whose warp executes `gap` other instructions and then loads a line."""
    return [[load(line, gap=gap)]]


def run(blocks, slots, sms=1, **options):
    """Run `blocks` under ``owl`` with `options`, and with the same first group on every SM unless they say `blp`."""
    policy = OWL(**{"blp": False, **options})
    return simulated(blocks, policy, slots=slots, sms=sms, gpu=machine(sets=8))


def issuers(outcome, sm=0):
    """Return the warp slots of an SM that issued, in order."""
    return [slot for _, where, slot, _ in logged(outcome, "issue") if where == sm]


# The groups


def test_the_warps_of_a_group_take_turns():
    outcome = run([waiting(i, gap=2) for i in range(4)], slots=4, group=2)
    assert issuers(outcome) == [0, 1] * 3 + [2, 3] * 3


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (1, [0, 1] * 2 + [2, 3] * 2 + [4, 5] * 2),
        (2, [0, 1] * 2 + [2, 3] * 2 + [4, 5] * 2),
        (3, [0, 1, 2, 3] * 2 + [4, 5] * 2),
        (4, [0, 1, 2, 3] * 2 + [4, 5] * 2),
        (5, [0, 1, 2, 3, 4, 5] * 2),
    ],
)
def test_a_group_has_enough_blocks_of_two_warps(group, order):
    blocks = [[*waiting(2 * i, gap=1), *waiting(2 * i + 1, gap=1)] for i in range(3)]
    assert issuers(run(blocks, slots=3, group=group)) == order


def test_the_last_group_of_an_sm_may_have_fewer_blocks():
    outcome = run([waiting(i, gap=2) for i in range(3)], slots=3, group=2)
    assert issuers(outcome) == [0, 1] * 3 + [2] * 3


def test_blocks_without_instructions_belong_to_groups():
    # Block 0 ends at once, and leaves slot 0 to block 1. These two are a group.
    outcome = run([[[]], *(waiting(i, gap=2) for i in range(3))], slots=3, group=2)
    assert issuers(outcome) == [0] * 3 + [1, 2] * 3


# The group that goes first


def test_a_group_goes_first_again_when_it_has_data():
    # The data of line 0 are there at 11. Block 1 issues its 30 instructions at 1 to 10 and at 12 to 31.
    outcome = run([[chain(0, 1)], waiting(2, gap=30)], slots=2, group=1)
    assert issued(outcome) == [(0, 0), (11, 0), (32, 1)]


def test_a_group_stays_first_until_it_may_not_issue():
    outcome = run([[chain(0, 1)], waiting(2, gap=30)], slots=2, group=1, locality=False)
    assert issued(outcome) == [(0, 0), (31, 1), (32, 0)]


def test_groups_follow_one_another_in_a_circle():
    # At 11, block 0 has its data, but block 2 is next. At 32, blocks 0 and 1 have data.
    blocks = [[chain(0, 1)], [[load(2, gap=9), load(3, needs=1)]], waiting(4, gap=20)]
    outcome = run(blocks, slots=3, group=1, locality=False)
    assert issued(outcome) == [(0, 0), (10, 1), (31, 2), (32, 0), (33, 1)]


@pytest.mark.parametrize("locality", [True, False])
@pytest.mark.parametrize("group", [1, 2, 99])
def test_a_block_goes_behind_those_that_began_before(group, locality):
    # Block 2 gets the slot of block 0 at 11.
    outcome = run([waiting(0, gap=0), waiting(1, gap=30), waiting(2, gap=0)], 2, group=group, locality=locality)
    assert issued(outcome) == [(0, 0), (31, 1), (32, 0)]


# Neighbouring SMs


@pytest.mark.parametrize("locality", [True, False])
@pytest.mark.parametrize(
    ("blp", "orders"),
    [(True, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]), (False, [[0, 1, 2]] * 4)],
)
def test_neighbouring_sms_begin_with_different_groups(blp, orders, locality):
    outcome = run([waiting(i, gap=2) for i in range(12)], slots=3, sms=4, group=1, locality=locality, blp=blp)
    assert [issuers(outcome, sm) for sm in range(4)] == [[slot for slot in order for _ in range(3)] for order in orders]


def test_later_groups_of_an_sm_have_the_order_of_the_first():
    # SM 1 begins with blocks 1 and 3, of which block 3 goes first. Blocks 4 and 5 take their slots, 1 at 11 and 0 at
    # 12. Block 4 issues at 12, when block 5 may not yet. Then block 5 goes first.
    blocks = [waiting(i, gap=0 if i % 2 else 99) for i in range(4)] + [waiting(i, gap=5) for i in (4, 5)]
    outcome = run(blocks, slots=2, sms=2, group=1, blp=True)
    assert issued(outcome, sm=1) == [(0, 1), (1, 0), (18, 0), (23, 1)]
