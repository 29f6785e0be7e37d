"""Grids of configurations: names, values, and the points that they span."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel.errors import ConfigError
from rdmodel.gpu.overrides import override, override_keys
from rdmodel.model.options import Options
from rdmodel.policies import Fup, Linear, Masks
from rdmodel.simulator.options import SimulationOptions
from rdmodel.sweeps.grid import CALL_ARGUMENTS, L1_NAMES, MAX_POINTS, NOT_VARIED, grid_points, read_axes

BASE = rd.presets.gpu("gtx470-16k")


def axes(engine: str = "predict", gpu: Any = "gtx470-16k", **grid: Any) -> dict[str, Any]:
    return {axis.name: axis for axis in read_axes(engine, gpu, grid)}


def value(name: str, given: Any, engine: str = "predict") -> Any:
    (found,) = axes(engine, **{name: given})[name].values
    return found


# ---- laws


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(["random", "gto", "lrr", "fifo"]), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_the_points_are_the_product_of_the_values_with_the_last_name_fastest(ways, sched, seeds):
    found = [
        point.values for point in grid_points(read_axes("predict", BASE, {"ways": ways, "sched": sched, "seed": seeds}))
    ]
    wanted = [dict(zip(("ways", "sched", "seed"), one, strict=True)) for one in itertools.product(ways, sched, seeds)]
    assert found == wanted


def test_every_option_of_each_engine_and_every_key_of_a_gpu_is_a_name():
    for engine, options in (("predict", Options), ("estimate", Options), ("simulate", SimulationOptions)):
        names = {field.name for field in fields(options)} - {"policies"} | set(CALL_ARGUMENTS[engine])
        for name in names:
            with pytest.raises(ConfigError, match=f"^{name}="):
                axes(engine, **{name: object()})
        for key in set(override_keys()) - set(NOT_VARIED):
            for name in {key, key.replace(".", "_")} - names:
                with pytest.raises(ConfigError, match=f"^{name}="):
                    axes(engine, **{name: object()})


@pytest.mark.parametrize("key", ["l1.size", "l1.ways", "dram.latency", "clock", "max_warps", "l2.slices", "core.sched"])
def test_a_field_is_changed_as_override_does_it(key):
    chosen = "gto" if key == "core.sched" else 2 * BASE.l1.size if key == "l1.size" else 2
    wanted = override(BASE, {key: chosen})
    for name in (key, key.replace(".", "_")):
        (point,) = grid_points(read_axes("simulate", BASE, {name: chosen}))
        assert point.build_gpu() == wanted
        assert point.build_gpu().sources == wanted.sources


def test_short_names_are_fields_of_the_l1():
    chosen = {"ways": 2, "line": 64, "index": "linear", "mshrs": 8, "mshr_merge": 4, "mshr_per_warp": 6, "dlcm": "cg"}
    assert {*chosen, "carveout"} == set(L1_NAMES)
    for engine in CALL_ARGUMENTS:
        (point,) = grid_points(read_axes(engine, BASE, chosen))
        assert point.build_gpu() == override(BASE, {f"l1.{name}": one for name, one in chosen.items()})
        assert point.options == {}


def test_a_gpu_says_of_options_of_predict_what_it_says_in_a_result_of_predict():
    (point,) = grid_points(read_axes("predict", BASE, {"mshrs": 8, "index": "linear", "ways": 2}))
    sources = point.build_gpu().sources
    assert sources["l1.mshrs"] == BASE.sources["l1.mshrs"]
    assert sources["l1.ways"] != BASE.sources["l1.ways"]


def test_all_fields_change_at_once_so_that_only_the_outcome_has_to_be_able_to_exist():
    (point,) = grid_points(read_axes("predict", BASE, {"index": "pmod", "ways": 3, "l1_size": "48K"}))
    assert (point.build_gpu().l1.sets, point.build_gpu().l1.index.name) == (128, "pmod")


# ---- values


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        ("l1_size", "48K", 49152),
        ("l1.size", "16384", 16384),
        ("ways", "4", 4),
        ("mshrs", "inf", None),
        ("mshrs", "none", None),
        ("l1_mshr_merge", "inf", None),
        ("sigma", "2.5", 2.5),
        ("sigma", "none", None),
        ("threads", "all", None),
        ("model_sms", "all", "all"),
        ("model_sms", "2", 2),
        ("divergence", "false", False),
        ("stores", "true", True),
        ("stores", "evict", "evict"),
        ("sched", "gto", "gto"),
        ("seed", "3", 3),
        ("breakdown", "paper", "paper"),
        ("index", "pmod", "pmod"),
        ("core_sched", "two-level", "two-level"),
    ],
)
def test_a_text_means_what_it_means_on_the_command_line(name, text, meant):
    found = value(name, text)
    assert (found, type(found)) == (meant, type(meant))


def test_values_are_taken_as_they_are():
    assert value("mshrs", math.inf) is None
    assert value("sigma", 3) == 3
    assert type(value("ways", np.int64(4))) is int
    assert axes(ways=np.array([2, 4]))["ways"].values == (2, 4)
    assert axes(ways=range(1, 4))["ways"].values == (1, 2, 3)
    assert axes(ways=(n for n in (4, 2)))["ways"].values == (4, 2)


def test_gpus_and_index_functions_are_shown_by_their_names():
    found = axes(gpu=["gtx470-16k", BASE.replace(name="mine")], index=[Linear(), "pmod", Fup()])
    assert found["gpu"].plain_values == ("gtx470-16k", "mine")
    assert found["index"].plain_values[:2] == ("linear", "pmod")
    assert found["index"].plain_values[2] == "fup:feature_bits=28"


def test_one_value_is_fixed_and_a_list_of_one_is_varied():
    found = axes(ways=[4], sched="gto")
    assert (found["gpu"].varied, found["ways"].varied, found["sched"].varied) == (False, True, False)


# ---- mistakes

BAD: list[tuple[dict[str, Any], str]] = [
    ({"wys": 1}, "unknown name in a sweep of predict: 'wys'; did you mean 'ways'"),
    ({"dram_latnecy": 1}, "did you mean 'dram.latency'"),
    ({"policies": ["pd"]}, "policies: cannot be varied by a sweep; rdmodel.contest"),
    ({"name": "a"}, "unknown name in a sweep"),
    ({"l1.index.masks": "1,2"}, "unknown name in a sweep"),
    ({"ways": []}, "ways: has no values"),
    ({"ways": [2, 4, 2]}, "ways: 2 is given twice"),
    ({"l1_size": ["16K", 16384]}, "l1_size: 16384 is given twice"),
    ({"l1_size": "16K", "l1.size": "48K"}, "l1.size: is another name of l1_size; give only one of them"),
    ({"ways": 1, "l1_ways": 2}, "l1_ways: is another name of ways"),
    ({"ways": "four"}, "ways='four': must be a number"),
    ({"ways": 2.5}, "ways=2.5: must be a whole number"),
    ({"ways": "2.5"}, "ways=2.5: must be a whole number"),
    ({"ways": True}, "ways=True: must be a whole number"),
    ({"ways": None}, "ways=None: must be a whole number"),
    ({"ways": {"a": 1}}, r"ways=\{'a': 1\}: must be a whole number"),
    ({"mshrs": "many"}, "mshrs='many': must be a number"),
    ({"sched": "gtoo"}, "unknown value for sched: 'gtoo'; did you mean 'gto'"),
    ({"sched": 3}, "sched=3: must be 'random' or 'fifo'"),
    ({"model_sms": "al"}, "unknown value for model_sms: 'al'"),
    ({"gap": "yes"}, "gap='yes': must be True or False"),
    ({"gap": 1}, "gap=1: must be True or False"),
    ({"index": "linnear"}, "unknown index function 'linnear'; did you mean 'linear'"),
    ({"index": 3}, "index=3: must be an index function or the name of one"),
    ({"gpu": "gtx47"}, "unknown GPU 'gtx47'; did you mean"),
    ({"gpu": ["gtx470-16k", 3]}, "gpu=3: must be a name, a path or a GPU"),
    ({"gpu": []}, "gpu: has no values"),
    ({"gpu": ["gtx470-16k", BASE.replace(sms=2)]}, "gpu: 'gtx470-16k' is given twice"),
    ({"ways": range(1, 400), "seed": range(400)}, f"the grid has more than {MAX_POINTS} points"),
]


@pytest.mark.parametrize(("grid", "message"), BAD)
def test_a_mistake_names_the_name_the_value_and_what_is_allowed(grid, message):
    with pytest.raises(ConfigError, match=message):
        axes(**grid)


def test_options_of_the_other_engines_are_unknown():
    with pytest.raises(ConfigError, match="unknown name in a sweep of simulate: 'definition'"):
        axes("simulate", definition="paper")
    with pytest.raises(ConfigError, match="unknown name in a sweep of predict: 'memory'"):
        axes("predict", memory=100)


def test_an_index_function_that_is_a_list_of_masks_can_be_given_as_an_object():
    assert axes(index=Masks(masks=(1, 2)))["index"].values == (Masks(masks=(1, 2)),)


def test_the_carveout_varies_by_its_short_name_as_in_predict():
    points = grid_points(read_axes("predict", "v100", {"carveout": ["max-l1", "max-shared", "32K"]}))
    assert [point.build_gpu().l1.carveout for point in points] == ["max-l1", "max-shared", 32 << 10]
