"""The time of a run alone is that of its prediction."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from rdmodel.model.single_runs import predict_steps

GPU = rd.presets.gpu("gtx470-16k")


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("sms", [1, 2])
@pytest.mark.parametrize("definition", ["hardware", "paper"])
def test_the_time_without_the_rest_of_a_prediction_is_the_same(definition, sms, seed):
    trace = tracegen.kernel("gemm", NI=32, NJ=64, NK=32)
    machine = {"definition": definition, "sms": sms, "model_sms": "all", "seed": seed}
    assert predict_steps(trace, GPU, **machine) == rd.predict(trace, GPU, **machine).steps > 0


def test_the_time_of_a_run_refuses_options_that_a_prediction_refuses():
    with pytest.raises(rd.ConfigError, match="unknown value for sched: 'fastest'"):
        predict_steps(tracegen.kernel("gemm", NI=32, NJ=32, NK=4), GPU, seed=0, sched="fastest")
