"""Check the measures of rankings, the extrapolation of loops, and that the page follows from its records."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.timing.latency import Phase
from rdmodel.timing.launch_time import LaunchParts
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import Launch, Work
from tests.support.examples import examples
from validation.tuning.measures import expected_least, quality, random_choice
from validation.tuning.predict import Predicted, extrapolate, read_config
from validation.tuning.records import PAGE, by_space, measured, read
from validation.tuning.report import page, rank_space


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=6), st.integers(1, 6))
def test_ties_count_as_a_random_order_of_equal_scores(points, k):
    scores, times = np.array(points, float).T
    orders = [order for order in permutations(range(len(points))) if (np.diff(scores[list(order)]) >= 0).all()]
    by_hand = np.mean([times[list(order)][:k].min() for order in orders])
    assert expected_least(scores, times, k) == pytest.approx(by_hand)


def test_the_right_order_has_no_regret_and_the_wrong_one_the_most():
    times = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0]
    right, wrong = quality(times, times), quality([-time for time in times], times)
    assert (right.regret_1, right.regret_5, right.tau) == (1, 1, 1)
    assert (wrong.regret_1, wrong.regret_5, wrong.tau) == (32, 3, -1)
    assert random_choice(times).regret_1 == pytest.approx(sum(times) / 7)
    assert random_choice(times).tau == 0


def parts(length):
    """The parts of a launch with a loop: 5 instructions before it and 2 in each iteration."""
    work = Work(blocks=1, warps=4, instructions={"fp32": 5 + 2 * length}, shared_wavefronts={"load_shared": 3 * length})
    traffic = LaunchTraffic(
        missing_share=0.25,
        fetching_share=0.25,
        l2_read_bytes=100.0 * length,
        l2_write_bytes=7.0,
        dram_read_share=0.5,
        dram_wait_share=0.5,
        dram_bytes=50.0 * length,
    )
    launch = Launch(kernel="k", grid=(8, 1, 1), block=(128, 1, 1))
    return LaunchParts(
        launch, traffic, work, 6.0 * length, 1.0, [[Phase(10.0, 1.0, 2.0), Phase(4.0 * length, 1.0, length)]], [8.0]
    )


def test_a_loop_is_extrapolated_to_all_of_its_iterations():
    found, whole = extrapolate(parts(10), parts(20), (10, 20), 400), parts(400)
    assert (found.work, found.traffic, found.passes) == (whole.work, whole.traffic, whole.passes)
    assert found.phases[0][1] == pytest.approx(whole.phases[0][1])


def test_the_page_follows_from_the_records_and_a_point_without_a_prediction_ranks_last():
    assert page() == PAGE.read_text()
    times = measured()
    for space, rows in by_space(read()).items():
        assert {row.config for row in rows} <= times[space].keys()
        assert all(row.failure or row.milliseconds > 0 for row in rows)
    rows = [Predicted("s", "g", str(at), float(at)) for at in (1, 2)] + [Predicted("s", "g", "3", failure="no")]
    assert rank_space(rows, {"1": 5.0, "2": 4.0, "3": 1.0})["rdmodel time"].tau == pytest.approx(-1)
    assert read_config("a=1 b=22") == {"a": 1, "b": 22}


def test_the_ranking_is_better_than_every_choice_without_a_time():
    """The record, not a run: a renewed record has to hold this, too."""
    times = measured()
    for space, rows in by_space(read()).items():
        ours, *others = rank_space(rows, times[space]).values()
        assert ours.tau > max(other.tau for other in others)
        assert ours.regret_5 <= min(other.regret_5 for other in others)
