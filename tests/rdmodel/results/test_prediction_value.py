"""Forms of a prediction: JSON, rows, one line, and a configuration to run it again."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from rdmodel import predict
from rdmodel.errors import RdmodelError
from rdmodel.gpu.config import gpu_from_dict
from rdmodel.model.options import Options
from rdmodel.policies import Pric
from tests.support.builders import BUSY, SMALL

HEAD = [
    *("kernel", "gpu", "definition", "seed", "sms_modelled"),
    *("transactions", "hits", "latency_misses", "misses"),
    *("stalls", "miss_rate", "latency_miss_rate", "trace_seconds", "seconds"),
]
"""The keys that every consumer of the JSON may rely on, in this order."""


def test_a_result_is_json_with_the_promised_keys_first_and_the_configuration_last():
    found = predict(BUSY, SMALL, seeds=2, ablation=True, breakdown="paper")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(plain)[: len(HEAD)] == HEAD
    assert list(plain)[-1] == "config"
    assert list(plain["misses"]) == ["compulsory", "capacity", "associativity", "total"]
    assert plain["stalls"] == plain["stalls_by"]["mshr"] + plain["stalls_by"]["ways"]
    assert plain["miss_rate"] == plain["misses"]["total"] / plain["transactions"]
    assert plain["trace_seconds"] >= 0
    assert plain["seconds"] >= 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"definition": "paper", "effects": "before", "cta": "waves", "mshrs": None},
        {"model_sms": "all", "sched": "gto", "index": Pric(), "seed": 9, "seeds": 2, "threads": None},
        {"stores": True, "lat_min": 7, "sigma": 1, "first_touch_factor": 2, "blocks": 5},
    ],
)
def test_the_configuration_of_a_result_is_enough_to_run_it_again(options):
    first = predict(BUSY, SMALL, **options)
    config = json.loads(json.dumps(first.config))
    gpu = gpu_from_dict(config["gpu"])
    assert Options(**config["options"]).resolve(gpu) == Options(**config["options"])
    again = predict(BUSY, gpu, seed=config["seed"], seeds=config["seeds"], **config["options"])
    assert again == first


def test_a_result_cannot_be_changed_and_shows_itself_in_one_line():
    found = predict(BUSY, SMALL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.hits = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.misses.capacity = 0
    assert str(found).startswith("random on small (hardware): L1 miss rate ")
    assert "\n" not in str(found) + repr(found)


def test_a_row_is_flat_and_a_frame_needs_pandas(monkeypatch):
    row = predict(BUSY, SMALL).to_row()
    assert all(value is None or isinstance(value, str | int | float) for value in row.values())
    assert {"kernel", "miss_rate", "misses_compulsory", "misses_total", "interval_low"} <= set(row)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RdmodelError, match="needs pandas"):
        predict(BUSY, SMALL).to_frame()
