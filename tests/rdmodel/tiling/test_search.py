"""The search for the best tiles of a program, and the Gaussian process that tells the others' values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from rdmodel.tiling import search, surrogate
from rdmodel.tiling.search import FIRST_TILES, TileSearch, choose_representative
from rdmodel.tiling.surrogate import GaussianProcess, features_of, negative_log_posterior
from tests.support.examples import examples

SIZES = {"TX": [8, 16, 32, 48, 64, 96, 128, 256], "TY": [1, 2, 3, 4, 6, 8], "UNROLL": [1, 2, 4, 8], "PAD": [0, 1]}


def all_tiles(sizes=SIZES):
    """Return all combinations of sizes."""
    tiles = [{}]
    for name, values in sizes.items():
        tiles = [{**tile, name: value} for tile in tiles for value in values]
    return tiles


def milliseconds(tile):
    """Return a time that depends on powers of two, on a ratio and on a product."""
    aligned = 1.0 if tile["TX"] & tile["TX"] - 1 == 0 else 1.7
    wide = 1 + 0.3 * abs(math.log2(tile["TX"] * tile["TY"] / 256))
    return aligned * wide * (1 + 0.2 / tile["UNROLL"]) * (1.2 if tile["PAD"] == 0 and tile["TX"] > 32 else 1.0)


def run(tiles, time=milliseconds, top=1, seed=0):
    """Search to the end; return the batches, the values that were estimated, and those that others tell."""
    one, batches, known = TileSearch(tiles, top, seed), [], {}
    while batch := one.next_batch():
        found = {at: time(tiles[at]) for at in batch}
        batches.append(batch)
        known |= found
        one.add(found)
    return batches, known, one.rest()


# ---- the search


@pytest.mark.parametrize("seed", range(3))
def test_the_best_tile_is_found_from_a_part_of_the_space(seed):
    tiles = all_tiles()
    _, known, rest = run(tiles, seed=seed)
    assert min(known.values()) == min(map(milliseconds, tiles))
    assert len(known) < len(tiles) / 2
    assert sorted([*known, *rest]) == list(range(len(tiles)))


@pytest.mark.parametrize("sizes", [SIZES, {**SIZES, "ROWS": [1, 2, 3, 4, 5]}])
def test_at_the_end_hardly_any_of_all_other_tiles_is_expected_to_be_better(sizes):
    # The distributions of the others follow from their values and intervals, which are those of logarithms.
    tiles = all_tiles(sizes)
    _, known, rest = run(tiles)
    goal = math.log(min(known.values()) * (1 - search.IMPROVEMENT))
    expected = sum(
        norm.cdf(goal, math.log(each.value), (math.log(each.high) - math.log(each.low)) / (2 * norm.ppf(0.975)))
        for each in rest.values()
    )
    assert 0 < expected < search.MIN_EXPECTED


def test_most_intervals_of_tiles_that_were_not_estimated_hold_their_times():
    tiles = all_tiles()
    _, _, rest = run(tiles)
    held = [value.low <= milliseconds(tiles[at]) <= value.high for at, value in rest.items()]
    assert np.mean(held) > 0.8


def test_a_search_for_more_tiles_estimates_more():
    tiles = all_tiles()
    assert len(run(tiles, top=1)[1]) < len(run(tiles, top=20)[1])


def test_every_tile_is_estimated_once_and_batches_have_their_least_sizes():
    tiles = all_tiles()
    batches, known, _ = run(tiles)
    assert len(batches[0]) == FIRST_TILES
    assert all(len(batch) >= search.SEARCHED_BATCH_TILES for batch in batches[1:-1])
    assert sum(map(len, batches)) == len(known)


@pytest.mark.parametrize("seed", range(3))
def test_one_batch_after_the_first_design_is_drawn_at_random(seed):
    tiles = all_tiles()
    batches, _, _ = run(tiles, seed=seed)
    order = np.random.default_rng(seed).permutation(len(tiles)).tolist()
    known, at_random = set(batches[0]), []
    for number, batch in enumerate(batches[1:], start=1):
        if batch == [at for at in order if at not in known][: len(batch)]:
            at_random.append(number)
        known |= set(batch)
    assert batches[0] == order[:FIRST_TILES]
    assert len(at_random) == 1


def test_a_seed_determines_the_search():
    tiles = all_tiles()
    assert run(tiles, seed=3) == run(tiles, seed=3)
    assert run(tiles, seed=3)[0] != run(tiles, seed=4)[0]


def test_regions_that_cannot_run_are_left():
    tiles = all_tiles()

    def time(tile):
        return None if tile["TX"] * tile["TY"] > 256 else milliseconds(tile)

    _, known, _ = run(tiles, time)
    able = [time(tile) for tile in tiles if time(tile) is not None]
    assert min(value for value in known.values() if value is not None) == min(able)
    assert sum(value is None for value in known.values()) < (len(tiles) - len(able)) / 2


def test_a_space_in_which_no_tile_can_run_is_tried_completely():
    tiles = all_tiles()
    _, known, rest = run(tiles, lambda _tile: None)
    assert len(known) == len(tiles)
    assert not rest


@pytest.mark.parametrize("tiles", [list(range(100)), [{"TX": 8}] * 100, [{"a": 1}, {"b": 2}] * 50])
def test_tiles_without_sizes_to_compare_are_all_estimated(tiles):
    batches, known, rest = run(tiles, lambda _tile: 1.0)
    assert (len(batches), len(known), rest) == (1, 100, {})


def test_equal_times_end_the_search_soon():
    assert len(run(all_tiles(), lambda _tile: 2.5)[1]) <= FIRST_TILES + 2 * search.SEARCHED_BATCH_TILES


def test_a_large_space_is_searched():
    tiles = all_tiles({**SIZES, "A": [1, 2, 4, 8], "B": [0, 1], "C": [1, 2, 3, 4]})
    assert len(tiles) > 10_000
    _, known, rest = run(tiles)
    assert min(known.values()) == min(map(milliseconds, tiles))
    assert len(known) < 500
    assert len(known) + len(rest) == len(tiles)


def test_representative_tiles_are_the_best_half_and_some_others():
    values = np.arange(1000.0)[::-1]
    chosen = choose_representative(values, 100)
    assert len(chosen) == 100
    assert set(range(950, 1000)) <= set(chosen)
    assert choose_representative(values, 2000).tolist() == list(range(1000))


# ---- features


def test_numbers_have_places_and_factors_of_two_and_shapes_are_categories():
    tiles = [{"T": 8, "block": [32, 4]}, {"T": 12, "block": [16, 8]}, {"T": 24, "block": [32, 4]}]
    features = features_of(tiles)
    assert features.ordered.tolist() == [[0.0, 1.0], [0.5, 0.0], [1.0, 1.0]]
    assert features.categories.tolist() == [[0.0], [1.0], [0.0]]
    assert features.distances()[0].tolist() == [[0, 0, 0], [0.5, 1, 1], [1, 0, 0]]


# ---- the Gaussian process


@st.composite
def data(draw):
    """Draw features of some tiles, their values and hyperparameters."""
    count = draw(st.integers(3, 9))
    sizes = st.integers(1, 12)
    tiles = [{"a": draw(sizes), "b": draw(sizes), "c": draw(st.sampled_from("xyz"))} for _ in range(count)]
    tiles += [{"a": 1, "b": 2, "c": "x"}, {"a": 3, "b": 5, "c": "y"}]
    values = np.array([draw(st.floats(-2, 2)) for _ in tiles])
    features = features_of(tiles)
    logarithms = np.array([draw(st.floats(-1, 1)), draw(st.floats(-4, -1)), *[0.3] * features.count])
    return features, values, logarithms


def covariance_of(features, logarithms):
    variance, _, *rates = np.exp(logarithms)
    return variance * np.exp(-(features.distances() @ np.array(rates)))


def conditioned(features, values, logarithms):
    """Return a process with these hyperparameters that knows these values."""
    process = GaussianProcess(features.count)
    process.logarithms = logarithms
    process.condition(features, values)
    return process


@examples(40)
@given(data())
def test_predictions_are_those_of_the_normal_distribution_given_the_others(drawn):
    features, values, logarithms = drawn
    known, asked = list(range(len(values) - 1)), [len(values) - 1]
    process = conditioned(features.take(known), values[known], logarithms)
    means, deviations = process.predict(features.take(asked))
    joint, noise = covariance_of(features, logarithms), np.exp(logarithms[1])
    inverse = np.linalg.inv(joint[np.ix_(known, known)] + noise * np.eye(len(known)))
    mean = values[known].mean()
    assert means == pytest.approx(mean + joint[np.ix_(asked, known)] @ inverse @ (values[known] - mean), abs=1e-7)
    left = joint[asked, asked] + noise - joint[np.ix_(asked, known)] @ inverse @ joint[np.ix_(known, asked)]
    assert deviations**2 == pytest.approx(left.ravel(), abs=1e-7)


@examples(40)
@given(data())
def test_the_errors_without_each_value_are_those_of_leaving_it_out(drawn):
    features, values, logarithms = drawn
    process = conditioned(features, values, logarithms)
    joint, noise = covariance_of(features, logarithms), np.exp(logarithms[1])
    whole, mean = joint + noise * np.eye(len(values)), values.mean()
    for at, error in enumerate(process.leave_one_out()):
        others = [other for other in range(len(values)) if other != at]
        inverse = np.linalg.inv(whole[np.ix_(others, others)])
        expected = mean + joint[at, others] @ inverse @ (values[others] - mean)
        deviation = math.sqrt(whole[at, at] - joint[at, others] @ inverse @ joint[others, at])
        assert error == pytest.approx((values[at] - expected) / deviation, abs=1e-6)


@examples(40)
@given(data())
def test_the_posterior_and_its_gradient_are_those_of_its_definition(drawn):
    features, values, logarithms = drawn
    centred = values - values.mean()

    def density(at):
        matrix = covariance_of(features, at) + np.exp(at[1]) * np.eye(len(values))
        _, log_determinant = np.linalg.slogdet(matrix)
        likelihood = 0.5 * centred @ np.linalg.solve(matrix, centred) + 0.5 * log_determinant
        centres = [surrogate.PRIOR_CENTRES[name] for name in ("variance", "noise")] + [0.0] * features.count
        prior = norm.logpdf(at, centres, surrogate.PRIOR_SPREAD) - norm.logpdf(0, 0, surrogate.PRIOR_SPREAD)
        return likelihood - prior.sum()

    value, gradient = negative_log_posterior(logarithms, features.distances(), centred)
    assert value == pytest.approx(density(logarithms), abs=1e-7)
    for at in range(len(logarithms)):
        step = np.zeros_like(logarithms)
        step[at] = 1e-5
        slope = (density(logarithms + step) - density(logarithms - step)) / 2e-5
        assert gradient[at] == pytest.approx(slope, abs=1e-4, rel=1e-4)
