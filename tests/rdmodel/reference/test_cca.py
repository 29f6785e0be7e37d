"""Test `cca` on the reference machine against results derived by hand.

There are one scheduler, one place in the load/store queue and two sets of two ways. Data arrive 10 cycles after the
access, whether a load bypasses or not. An instruction that issues at t accesses the L1 at t + 1.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import CCA
from rdmodel.reference.machine.cca import Groups, Search
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING
from tests.support.machine_programs import accessed, chain, issued, load, logged, outcomes, simulated


def test_cca_begins_like_no_policy():
    # Warp 1 would bypass line 1 from 10 on only.
    blocks = [[chain(0, 2), chain(1)]]
    assert simulated(blocks, CCA(period=10)).log == simulated(blocks).log


def test_cca_undoes_what_does_not_make_the_sm_faster():
    # Each period has two instructions. From 10 to 19, one warp is cached, and warp 1 bypasses; from 30 to 39, one warp
    # may load, and warp 1 waits, although its data are there at 34; from 50 to 59, one warp is cached again.
    outcome = simulated([[chain(0, 2, 4, 6, 8, 10), chain(1, 3, 5, 7, 9)]], CCA(period=10))
    assert issued(outcome) == [
        *((0, 0), (1, 1), (11, 0), (12, 1), (22, 0), (23, 1)),
        *((33, 0), (40, 1), (44, 0), (51, 1), (55, 0)),
    ]
    bypassed = {line for _, line, what in accessed(outcome) if what == BYPASSED}
    assert bypassed == {3, 9}


GROWING = [load(0), load(2, needs=1), load(4, needs=1, gap=20)]
"""A warp that executes 1, 9 and 10 instructions in periods of 10 cycles, before it loads line 4 at 32."""


@pytest.mark.parametrize(("gain", "last"), [(7, BYPASSED), (8, MISS)])
def test_cca_keeps_a_change_that_gains_more_than_a_share(gain, last):
    # From 10 on, no warp is cached. 9 instructions are more than 8 x 1, but not more than 9 x 1. If that change is
    # kept, the way back, on trial from 20 to 29, gains too little.
    outcome = simulated([[GROWING]], CCA(period=10, gain=gain))
    assert outcomes(outcome) == [MISS, BYPASSED, last]
    assert issued(outcome)[-1] == (32, 0)


def test_warps_that_are_not_cached_hit_and_merge():
    # Warp 1 loads at 12, while one warp is cached: line 0 is back at 11, line 2 of warp 0 is in flight.
    outcome = simulated([[chain(0, 2), [load(1), load(0, 2, 3, needs=1)]]], CCA(period=10))
    assert accessed(outcome)[2:] == [(12, 2, MISS), (13, 0, HIT), (14, 2, PENDING), (15, 3, BYPASSED)]


def test_every_sm_searches_on_its_own():
    # SM 0 keeps that no warp is cached, SM 1 does not.
    blocks = [[GROWING], [chain(1, 3, 5, 7)]]
    outcome = simulated(blocks, CCA(period=10, gain=7), sms=2)
    found = {line: what for _, _, line, what in logged(outcome, "access")}
    assert [found[line] for line in (0, 2, 4)] == [MISS, BYPASSED, BYPASSED]
    assert [found[line] for line in (1, 3, 5, 7)] == [MISS, BYPASSED, MISS, MISS]


def sizes(executed, most, gain=0.0):
    """Return the (loading, cached) warps after each period."""
    search = Search(most, gain)
    result = []
    for count in executed:
        search.end_period(count)
        result.append(search.groups)
    return [(groups.loading, groups.cached) for groups in result]


def test_the_search_halves_and_doubles_and_turns_at_the_ends():
    cached = [cached for _, cached in sizes(range(10), most=6)]
    assert cached == [3, 1, 0, 1, 2, 4, 6, 3, 1, 0]


def test_the_search_takes_turns_between_the_two_sizes():
    # 4 gains on 3, and 5 on 4; nothing gains on 5. The next number begins with a period without a change.
    found = sizes([3, 4, 5, 5, 5, 5, 5, 5], most=8)
    assert found == [(8, 4), (8, 2), (8, 1), (8, 2), (4, 2), (8, 2), (8, 4), (8, 2)]
    assert sizes([3, 4, 5, 5, 5, 6, 6], most=8)[-3:] == [(4, 2), (2, 2), (4, 2)]


def test_no_more_warps_are_cached_than_load():
    assert Groups(8, 8).with_loading(4) == Groups(4, 4)
    assert Groups(8, 2).with_loading(4) == Groups(4, 2)
