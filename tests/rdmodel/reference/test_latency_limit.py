"""Test the limit on warps that follows the latency of the crossbar against results derived by hand."""

from __future__ import annotations

import pytest

from rdmodel.policies import LatencyLimit
from rdmodel.reference.machine.latency_limit import Congestion
from tests.support.machine_programs import chain, issued, machine, simulated

POLICY = LatencyLimit(period=100, high=3.0, low=2.0, lost=0.25, step=2)


@pytest.mark.parametrize(
    ("latencies", "lost", "limit"),
    [
        # The mean is three times the shortest latency, and then more; a quarter of the loads is of lost lines, or more.
        ([10, 50], 2, 4),
        ([10, 51], 2, 2),
        ([10, 51], 1, 4),
        # The mean is twice the shortest latency, and then less, whatever the loads are.
        ([10, 30], 2, 4),
        ([10, 29], 2, 6),
        ([10, 29], 0, 6),
        # No answer, no change.
        ([], 2, 4),
    ],
)
def test_a_period_changes_the_limit_by_a_step(latencies, lost, limit):
    congestion = Congestion(8)
    congestion.limit = 4
    congestion.latencies, congestion.loads, congestion.loads_of_lost = latencies, 4, lost
    congestion.adjust(POLICY)
    assert congestion.limit == limit


def test_the_limit_stays_between_one_warp_and_all():
    congestion = Congestion(3)
    limits = []
    for latencies in ([10], [10, 90], [10, 90], [10], [10]):
        congestion.latencies, congestion.loads, congestion.loads_of_lost = latencies, 4, 4
        congestion.adjust(POLICY)
        limits.append(congestion.limit)
    assert limits == [3, 1, 1, 3, 3]


def test_the_shortest_latency_of_all_periods_counts():
    congestion = Congestion(8)
    congestion.latencies = [10]
    congestion.adjust(POLICY)
    congestion.latencies, congestion.loads, congestion.loads_of_lost = [31, 31], 4, 2
    congestion.adjust(POLICY)
    assert congestion.limit == 6


# One set of one way, three warps that load lines of their own again and again, and an L2 that has them. An answer
# takes 17 flits of 8 bytes and 8 cycles of latency: 25 cycles where it waits for no other. A load takes more than 34
# cycles and fewer than 51, so that two warps keep out of each other's way, and three do not.

CONGESTED = machine(sets=1, ways=1, l1={"allocate": "fill"}, crossbar={"width": 8, "latency": 8})
LOOPS = [chain(*[2 * warp, 2 * warp + 1] * 40) for warp in range(3)]


def overlapping(*policies, memory=None):
    """Return the share of the loads of warp 2 that issue while warp 0 still issues loads."""
    order = [slot for _, slot in issued(simulated([LOOPS], *policies, gpu=CONGESTED, memory=memory))]
    last = max(place for place, slot in enumerate(order) if slot == 0)
    return order[:last].count(2) / order.count(2)


def test_a_warp_waits_while_its_answers_would_wait_for_others():
    assert overlapping() > 0.9
    assert overlapping(LatencyLimit(period=200, high=1.2, low=1.0)) < 0.1
    # Where two warps load, answers are as fast as they can be, so that the third may load again.
    assert 0.1 < overlapping(LatencyLimit(period=200, high=1.2, low=1.1)) < 0.9


def test_answers_may_wait_where_few_lost_lines_are_loaded():
    assert overlapping(LatencyLimit(period=200, high=1.2, low=1.0, lost=1.0)) > 0.9


def test_an_ideal_memory_never_limits_warps():
    policy = LatencyLimit(period=50, high=1.0, low=1.0, lost=0.0)
    assert overlapping(policy, memory=25) == overlapping(memory=25) > 0.9
