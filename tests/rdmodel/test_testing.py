"""`rdmodel.testing`: assertions about traffic, for test suites of kernels."""

from __future__ import annotations

import json

import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.testing import assert_traffic

KERNEL = tracegen.kernel("atax.1", NX=256, NY=256)
GPU = "a100-80g"


@pytest.fixture(scope="module")
def prediction() -> rd.Prediction:
    return rd.predict(KERNEL, GPU, l2=True)


def test_conditions_that_hold_return_the_prediction(prediction):
    found = assert_traffic(KERNEL, GPU, "miss_rate <= 0.13", "dram_bytes < 3e5", l2=True)
    assert found == prediction
    assert assert_traffic(prediction, None, "miss_rate <= 0.13") is prediction


def test_each_condition_that_does_not_hold_is_in_the_message(prediction):
    with pytest.raises(AssertionError) as caught:
        assert_traffic(prediction, None, "miss_rate <= 0.1", "transactions > 1", "misses < 10")
    assert str(caught.value).splitlines() == [
        "atax.1 on a100-80g:",
        "not miss_rate <= 0.1: miss_rate is 0.121686",
        "not misses < 10: misses is 8,224",
    ]


def test_changes_are_compared_with_a_baseline(prediction, tmp_path):
    worse = rd.predict(KERNEL, GPU, l2=True, carveout=164 << 10)
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(prediction.to_dict()))
    for baseline in (prediction, prediction.to_dict(), file, str(file)):
        assert_traffic(prediction, None, "misses <= +0%", "l2_bytes <= +0", baseline=baseline)
        with pytest.raises(AssertionError, match=r"not misses <= \+5%: misses is [\d,]+, was 8,224 \(\+"):
            assert_traffic(worse, None, "misses <= +5%", baseline=baseline)


def test_bad_arguments_are_named(prediction, tmp_path):
    with pytest.raises(ConfigError, match="conditions: must not be empty"):
        assert_traffic(KERNEL, GPU)
    with pytest.raises(ConfigError, match="must be left out for a prediction"):
        assert_traffic(prediction, GPU, "misses < 1")
    with pytest.raises(ConfigError, match="is about a change, but there is no older result"):
        assert_traffic(prediction, None, "misses < +1%")
    with pytest.raises(ConfigError, match=r"baseline='.*none.json': No such file"):
        assert_traffic(prediction, None, "misses < +1%", baseline=tmp_path / "none.json")
    for text, message in (("{", "is no JSON file"), ("[]", "must hold the result of one kernel")):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ConfigError, match=message):
            assert_traffic(prediction, None, "misses < +1%", baseline=tmp_path / "bad.json")
