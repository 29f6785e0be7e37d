"""The model's random numbers: distributed as the paper says, and a matter of seed and SM alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rdmodel.model.random_draws import Draws

WIDE = 1e6
"""A sigma so large that rounding to whole steps does not show."""


def test_latencies_are_half_normal():
    found = Draws(seed=1, sm=0, sigma=WIDE).latencies(20_000)
    assert found.dtype == np.int64
    assert stats.kstest(found, stats.halfnorm(scale=WIDE).cdf).pvalue > 0.01


def test_latencies_are_rounded_to_the_nearest_step():
    count, sigma = 50_000, 5.0
    found = np.bincount(Draws(seed=2, sm=0, sigma=sigma).latencies(count), minlength=30)
    edges = np.concatenate([[0], np.arange(30) + 0.5])
    chances = np.diff(stats.halfnorm.cdf(edges, scale=sigma))
    spread = np.sqrt(count * chances * (1 - chances))
    likely = count * chances > 20
    assert (np.abs(found[:30] - count * chances)[likely] < 4 * spread[likely]).all()


def test_choices_are_uniform():
    found = Draws(seed=3, sm=0, sigma=0.0).choices(20_000)
    assert stats.kstest(found, stats.uniform.cdf).pvalue > 0.01
    assert found.min() >= 0
    assert found.max() < 1


def test_without_spread_every_miss_takes_the_minimum():
    assert not Draws(seed=0, sm=0, sigma=0.0).latencies(100).any()


def test_sigma_only_scales_the_same_numbers():
    narrow, wide = (Draws(seed=4, sm=2, sigma=s).latencies(1000) for s in (1000.0, WIDE))
    assert np.abs(narrow * 1000 - wide).max() <= 501


@given(st.lists(st.sampled_from(["latencies", "choices"]), max_size=6), st.lists(st.integers(0, 9), max_size=6))
def test_batches_do_not_change_the_numbers(kinds, sizes):
    whole, cut = Draws(7, 3, 40.0), Draws(7, 3, 40.0)
    expected = {"latencies": whole.latencies(60).tolist(), "choices": whole.choices(60).tolist()}
    found: dict[str, list[float]] = {"latencies": [], "choices": []}
    for kind, size in zip(kinds, sizes, strict=False):
        found[kind] += getattr(cut, kind)(size).tolist()
    for kind, numbers in found.items():
        assert numbers == expected[kind][: len(numbers)]


@pytest.mark.parametrize("kind", ["latencies", "choices"])
@pytest.mark.parametrize(("seed", "sm"), [(0, 1), (1, 0), (2**70, 0)])
def test_another_seed_or_sm_gives_unrelated_numbers(kind, seed, sm):
    here, there = (getattr(Draws(*which, WIDE), kind)(2000) for which in ((0, 0), (seed, sm)))
    assert not (here == there).all()
    assert abs(np.corrcoef(here, there)[0, 1]) < 0.1


def test_the_latencies_and_choices_of_one_sm_are_unrelated():
    draws = Draws(0, 0, WIDE)
    assert abs(np.corrcoef(draws.latencies(2000), draws.choices(2000))[0, 1]) < 0.1
