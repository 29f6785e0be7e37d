"""Test dynamic protection distance on the reference machine against results derived by hand: `pdp`.

There are one scheduler and one set of two ways, unless a test says otherwise. A load accesses the L1 11 cycles after
the miss before it, and 4 cycles after a hit. The first period ends with cycle 59.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import PDP
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS
from tests.support.machine_programs import accessed, chain, load, machine, one_warp, outcomes

POLICY = PDP(period=60, most=8, every=1)


def after(*lines, policy=POLICY, **parts):
    """Return the outcomes of loads, each of which needs the one before."""
    return outcomes(one_warp(*chain(*lines), gpu=machine(**{"sets": 1, **parts}), policies=[policy]))


def test_a_loop_over_more_lines_than_ways_keeps_some_of_them():
    # Six loads in the first period; three find their line three loads ago. From then on, lines 1 and 2 stay.
    wanted = [*[MISS] * 6, *[BYPASSED, HIT, HIT] * 2]
    assert after(*[0, 1, 2] * 4) == wanted


def test_a_reuse_beyond_the_longest_distance_is_not_seen():
    assert after(*[0, 1, 2] * 4, policy=PDP(period=60, most=2, every=1)) == [MISS] * 12


@pytest.mark.parametrize(("first", "last"), [(0, [BYPASSED, HIT, HIT]), (1, [MISS] * 3)])
def test_only_some_sets_are_sampled(first, last):
    # The lines of the loop are all in set 0, or all in set 1. Of two sets, the first is sampled.
    lines = [first + 2 * line for line in (0, 1, 2)]
    assert after(*lines * 3, sets=2, policy=PDP(period=60, most=8, every=2)) == [*[MISS] * 6, *last]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        # Reuses at 1 and 3. Distance 1 promises 1 hit per 1 + 5 x (1 + 2) loads, 3 promises 2 per 4 + 4 x (3 + 2).
        ((0, 0, 1, 2, 3, 1), BYPASSED),
        # Reuses at 1 and 5. Distance 5 promises 2 hits per 6 + 4 x (5 + 2) loads, fewer than distance 1.
        ((1, 0, 0, 2, 3, 1), MISS),
    ],
)
def test_the_distance_promises_most_hits_for_the_loads_during_which_lines_stay(lines, last):
    assert after(*lines, 4)[-1] == last


def test_a_period_without_loads_keeps_the_distance():
    pause = load(0, needs=1, gap=130)
    outcome = one_warp(*chain(*[0, 1, 2] * 2), pause, gpu=machine(sets=1), policies=[POLICY])
    assert accessed(outcome)[-1][0] > 180
    assert outcomes(outcome) == [*[MISS] * 6, BYPASSED]


def test_a_period_without_reuses_ends_the_protection():
    # Lines are protected for three loads from 60 on: in the second period, every third load bypasses. No load of that
    # period finds its line. If the distance was still 3 in the third period, line 16 would find 14 and 15 protected.
    second, third = [BYPASSED, MISS, MISS, BYPASSED, MISS], [MISS] * 4
    assert after(*[0, 1, 2] * 2, *range(10, 19)) == [*[MISS] * 6, *second, *third]
