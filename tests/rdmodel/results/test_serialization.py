"""Results as records: what comes back is what went in, whatever ran."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.common.intervals import Estimate
from rdmodel.results.counts import MissCounts
from rdmodel.results.prediction import Prediction
from rdmodel.results.serialization import from_record, to_record
from rdmodel.results.simulation import Simulation
from tests.support.presets import FERMI

ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))

PREDICTIONS: dict[str, dict[str, Any]] = {
    "one run": {},
    "without a histogram": {"histogram": False},
    "several seeds": {"seeds": 3},
    "the L2": {"l2": True, "model_sms": 2},
    "ablation": {"ablation": True},
    "the paper's classes": {"breakdown": "paper", "definition": "paper"},
    "a sample of SMs": {"sample_sms": 2},
    "a sample of blocks": {"sample_blocks": 0.5, "threads": None},
    "an index with parameters": {"index": rd.policies.index_function("fup")},
}


def back(kind: type, value: Any) -> Any:
    return from_record(kind, json.loads(json.dumps(to_record(value), allow_nan=False)))


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_prediction_comes_back_through_json_as_it_was(name):
    made = rd.predict(ATAX, gpu=FERMI, **PREDICTIONS[name])
    found = back(Prediction, made)
    assert found == made
    assert found.to_dict() == made.to_dict()
    assert found.runs == made.runs
    assert found.histogram == made.histogram


def test_an_estimate_comes_back_as_it_was():
    made = rd.estimate(tracegen.kernel("gemm", NI=256, NJ=256, NK=512), gpu=FERMI, l2=True, work=2000)
    assert made.estimates["dram_bytes"].standard_error > 0
    assert back(Prediction, made) == made


@pytest.mark.parametrize("options", [{}, {"memory": 100}, {"policies": ["swl:best"]}])
def test_a_simulation_comes_back_as_it_was(options):
    made = rd.simulate(ATAX, gpu=FERMI, **options)
    found = back(Simulation, made)
    assert found == made
    # What is not compared comes back, too.
    assert found.to_dict() == made.to_dict()


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70))
def test_numbers_keep_every_bit_and_whole_ones_stay_whole(real, whole):
    made = Estimate(value=real, standard_error=whole, low=-0.0, high=real, sampled="all")
    found = back(Estimate, made)
    assert (found.value.hex(), type(found.standard_error), found.standard_error) == (real.hex(), int, whole)
    assert str(found.low) == "-0.0"


@pytest.mark.parametrize("record", [None, 3, [], {}, {"compulsory": 1, "capacity": 2}])
def test_what_is_no_record_is_refused(record):
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_record(MissCounts, record)
