"""The compiled cores against `rdmodel.reference`: the same counts, to the unit, on random traces and machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.results.prediction import Prediction
from rdmodel.trace import ALL_NEEDS
from tests.support.builders import Instructions, make_trace
from tests.support.examples import examples
from tests.support.random_predictions import (
    HARDWARE,
    PAPER,
    assert_counts_equal,
    expected,
    machines,
    programs,
)


def check(program: list[list[Instructions]], warps: int, gpu: GPU, seed: int = 0, **given: object) -> Prediction:
    trace = make_trace(program, warps)
    options = Options(**given).resolve(gpu)
    want = expected(trace, program, gpu, options, seed)
    got = predict(trace, gpu, seed=seed, **given)
    assert_counts_equal(got, want)
    return got


# ---- random traces, machines and options


@examples(200)
@given(programs(), machines(), st.fixed_dictionaries(PAPER), st.integers(0, 3))
def test_the_compiled_paper_definition_equals_the_reference(program, gpu, options, seed):
    check(*program, gpu, seed, **options)


@examples(400)
@given(programs(), machines(), HARDWARE, st.integers(0, 3))
def test_the_compiled_hardware_definition_equals_the_reference(program, gpu, options, seed):
    check(*program, gpu, seed, **options)


@pytest.mark.parametrize("empty", range(1, 7))
def test_blocks_go_round_the_sms_at_the_start_where_some_are_empty(empty):
    gpu = GPU(
        name="three",
        sms=3,
        max_threads=1536,
        max_blocks=1,
        max_warps=48,
        l1=CacheConfig(size=512, ways=1, index=Linear()),
    )
    program = [*[[[]]] * empty, [[(0, ALL_NEEDS, 0, (0,))]]]
    prediction = check(program, 1, gpu, definition="hardware", model_sms="all", lat_min=0, sigma=0.0, hit_latency=0)
    # One block after the other, empty or not, goes to the next SM.
    assert [sm.transactions for sm in prediction.per_sm] == [float(sm == empty % 3) for sm in range(3)]
