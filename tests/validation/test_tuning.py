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
from tracegen.cuda import TiledProgram
from validation.tuning.measures import expected_least, quality, random_choice
from validation.tuning.predict import Predicted, extrapolate, read_config
from validation.tuning.records import PAGE, PREDICTED_OLDER, by_space, measured, read
from validation.tuning.report import assembly_table, older_table, page, rank_space
from validation.tuning.spaces import IN_CUDA, fits_image, with_assembly


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
    loop = Phase(4.0 * length, 1.0, length, units=(("fp32", 8.0 * length), ("int", 0.0)))
    return LaunchParts(launch, traffic, work, 6.0 * length, 1.0, [[Phase(10.0, 1.0, 2.0), loop]], [8.0])


def test_a_loop_is_extrapolated_to_all_of_its_iterations():
    found, whole = extrapolate(parts(10), parts(20), (10, 20), 400), parts(400)
    assert (found.work, found.traffic, found.passes) == (whole.work, whole.traffic, whole.passes)
    loop, expected = found.phases[0][1], whole.phases[0][1]
    assert (*loop[:4], loop.waits) == pytest.approx((*expected[:4], expected.waits))
    assert dict(loop.units) == pytest.approx(dict(expected.units))


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


def test_assembly_takes_the_place_of_every_read_only_load():
    source = "__global__ void k(const float *a, float *b) { b[0] = __ldg(a) + __ldg(a + 1); }"
    changed = with_assembly(TiledProgram(source=source, kernel="k", grid=("1",), block=("32",), args=["float[2]"] * 2))
    assert changed.source.count("load_read_only(") == 3
    assert "__ldg" not in changed.source
    assert "ld.global.nc.f32" in changed.source


def point(width, height, milliseconds, failure=""):
    config = f"block_size_x={width} block_size_y={height} tile_size_x=1 tile_size_y=2"
    return Predicted("convolution", "g", config, milliseconds, failure=failure)


def test_points_are_compared_apart_where_tiles_reach_beyond_the_image():
    assert [fits_image(read_config(point(*size, 1.0).config)) for size in ((64, 8), (48, 8), (64, 3))] == [1, 0, 0]
    own = [point(64, 8, 4.0), point(32, 8, 6.0), point(48, 8, 9.0), point(24, 8, 6.0), point(80, 8, 5.0)]
    others = [point(64, 8, 3.0), point(32, 8, 2.0), point(48, 8, 1.0), point(24, 8, 2.0), point(80, 8, 0.0, "no")]
    times = dict(zip((row.config for row in own), (2.0, 4.0, 2.0, 4.0, 1.0), strict=True))
    _, _, *lines, _ = assembly_table([*own, point(16, 8, 0.0, "no")], [*others, point(16, 8, 1.0)], times)
    assert lines == [
        "| tiles fit the image | function | 2 | 0.60 | 1.00 | 1.40 | -1.000 |",
        "| tiles fit the image | assembly | 2 | 1.55 | 1.75 | 1.95 | 1.000 |",
        "| tiles reach beyond it | function | 2 | 0.50 | 0.50 | 0.50 | 1.000 |",
        "| tiles reach beyond it | assembly | 2 | 1.80 | 3.00 | 4.20 | -1.000 |",
    ]


def test_assemblers_are_compared_on_the_same_points():
    newer = [point(16, 8, 3.0), point(32, 8, 1.0), point(64, 8, 0.0, "no")]
    older = [point(16, 8, 1.0), point(32, 8, 2.0), point(64, 8, 4.0)]
    times = {row.config: wanted for row, wanted in zip(older, (1.0, 2.0, 4.0), strict=True)}
    _, _, new, old, _ = older_table({"convolution": older}, {"convolution": newer}, {"convolution": times})
    assert new == "| convolution | 13.5 | 2 of 3 | 0 | 2.000 | 0.333 | 0.75 | 1.75 | 2.75 |"
    assert old == "| convolution | 12.8 | 3 of 3 | 0 | 1.000 | 1.000 | 1.00 | 1.00 | 1.00 |"


def test_the_older_assembler_predicts_every_point_that_was_measured_in_cuda():
    rows = by_space(read(PREDICTED_OLDER))
    assert tuple(rows) == IN_CUDA
    for space, found in rows.items():
        assert {row.config for row in found} == set(measured()[space])
