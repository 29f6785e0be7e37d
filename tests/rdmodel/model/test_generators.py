"""Test the compiled generators: seeds, uniform and normal numbers are those of NumPy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.model._generators import draw_steps, draw_uniforms, generator_state
from rdmodel.model.random_draws import Draws
from tests.support.examples import examples

FINE = 1e12
"""A sigma so large that rounding to whole steps hides hardly any bit of a normal number."""


def numpys(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


seeds = st.one_of(st.integers(0, 1 << 32), st.integers(0, 1 << 128), st.integers(0, 1 << 400))


@examples(200)
@given(seeds, st.lists(seeds, max_size=3))
def test_states_are_those_of_numpy(seed, key):
    state = numpys(seed, *key).bit_generator.state["state"]
    halves = (*divmod(state["state"], 1 << 64), *divmod(state["inc"], 1 << 64))
    assert generator_state(seed, *key) == halves


@given(st.integers(0, 1 << 64), st.integers(0, 200))
def test_numbers_are_those_of_numpy(seed, sm):
    state = generator_state(seed, sm, 0)
    assert draw_uniforms(state, 300) == numpys(seed, sm, 0).random(300).tolist()
    expected = np.rint(np.abs(numpys(seed, sm, 0).standard_normal(300)) * FINE)
    assert draw_steps(state, FINE, 300) == expected.astype(np.int64).tolist()


def test_a_million_normal_numbers_of_all_layers_and_of_the_tail_are_those_of_numpy():
    expected = np.rint(np.abs(numpys(3, 1, 0).standard_normal(1_000_000)) * FINE).astype(np.int64)
    assert (expected > 3.7 * FINE).sum() > 100, "the tail begins at 3.65"
    assert draw_steps(generator_state(3, 1, 0), FINE, len(expected)) == expected.tolist()


@pytest.mark.parametrize("sigma", [0.0, 0.3, 5.0, 37.5])
def test_steps_are_the_latencies_that_other_cores_draw(sigma):
    draws = Draws(seed=9, sm=4, sigma=sigma)
    assert draw_steps(generator_state(9, 4, 0), sigma, 2000) == draws.latencies(2000).tolist()
    assert draw_uniforms(generator_state(9, 4, 1), 2000) == draws.choices(2000).tolist()


def test_numbers_of_numpy_are_read_as_others():
    assert generator_state(np.int64(5), np.int32(1)) == generator_state(5, 1)
