"""`sweep`: results are those of single calls, obey laws of caches, and have rows, frames and a best point."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.gpu.overrides import override
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import make_trace
from tests.support.examples import examples
from tests.support.presets import FERMI
from tests.support.sweep_grids import ATAX, BASE, BICG, GRID, LINEAR

# ---- results are those of single calls


def test_every_row_is_the_prediction_of_a_single_call():
    found = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, **GRID)
    assert len(found.rows) == 24
    for row in found.rows:
        gpu = override(LINEAR, {"l1.ways": row.point["ways"], "l1.size": row.point["l1_size"]})
        trace = (ATAX, BICG)[row.trace]
        wanted = rd.predict(trace, gpu, sched=row.point["sched"], histogram=False)
        assert (row.kernel, row.result, row.reason) == (trace.launch.kernel, wanted, None)
        assert row.result.config == wanted.config


SOME = {
    "ways": st.sampled_from([1, 2, 4, 8]),
    "l1_size": st.sampled_from([4096, "8K", 16384]),
    "line": st.sampled_from([64, 128]),
    "mshrs": st.sampled_from([1, 8, None, "inf"]),
    "index": st.sampled_from(["linear", "pmod", "bxor"]),
    "definition": st.sampled_from(["hardware", "paper"]),
    "sched": st.sampled_from(["random", "gto", "lrr"]),
    "seed": st.integers(0, 99),
    "seeds": st.integers(1, 2),
    "lat_min": st.integers(0, 300),
    "sigma": st.sampled_from([0, 40.0]),
    "stores": st.sampled_from(["free", "evict", "allocate", True]),
    "model_sms": st.sampled_from([1, 2, "all"]),
    "l2": st.booleans(),
    "histogram": st.booleans(),
}


@examples(60)
@given(st.fixed_dictionaries({}, optional=SOME))
def test_any_point_is_a_single_call_or_has_the_reason_for_which_that_fails(point):
    fields = {"ways": "l1.ways", "l1_size": "l1.size", "line": "l1.line"}
    own = {name: value for name, value in point.items() if name not in fields}
    wanted: Any
    try:
        keys = {fields[name]: value for name, value in point.items() if name in fields}
        l1 = {f"l1.{name}": own.pop(name) for name in ("mshrs", "index") if name in own}
        if l1.get("l1.mshrs") in (None, "inf"):
            l1 |= {"l1.mshrs": float("inf")} if "l1.mshrs" in l1 else {}
        wanted = rd.predict(ATAX, override(LINEAR, {**keys, **l1}), **{"histogram": False, **own})
    except ConfigError as error:
        wanted = str(error)
    if isinstance(wanted, str):
        with pytest.raises(ConfigError) as failed:
            rd.sweep(ATAX, LINEAR, n_jobs=1, **point)
        assert str(failed.value) == wanted
        return
    (row,) = rd.sweep(ATAX, LINEAR, n_jobs=1, **point).rows
    assert timeless(row.result) == timeless(wanted)


def timeless(result: Any) -> dict[str, Any]:
    """Return a result without what it took, and without who changed its GPU."""
    plain = json.loads(json.dumps(result.to_dict()))
    plain["config"]["gpu"].pop("sources")
    return {name: value for name, value in plain.items() if not name.endswith("seconds")}


def test_options_of_the_l1_are_those_of_predict():
    (row,) = rd.sweep(ATAX, gpu=FERMI, mshrs=4, index="pmod", n_jobs=1).rows
    assert row.result == rd.predict(ATAX, gpu=FERMI, mshrs=4, index="pmod", histogram=False)


def test_simulations_and_estimates_are_those_of_single_calls():
    (row,) = rd.sweep(ATAX, gpu=FERMI, engine="simulate", sched="gto", dram_latency=50, n_jobs=1).rows
    assert row.result == rd.simulate(ATAX, override(BASE, {"dram.latency": 50}), sched="gto")
    gemm = tracegen.kernel("gemm", NI=256, NJ=256, NK=256)
    rows = rd.sweep(gemm, gpu=FERMI, engine="estimate", work=[2000, None], seed=2, l2=True, n_jobs=1).rows
    assert [row.result for row in rows] == [
        rd.estimate(gemm, gpu=FERMI, work=work, seed=2, l2=True) for work in (2000, None)
    ]


def test_the_gpu_is_one_of_the_names():
    found = rd.sweep(ATAX, gpu=["gtx470-16k", LINEAR.replace(name="mine")], n_jobs=1)
    assert [row.point["gpu"] for row in found.rows] == [row.result.gpu for row in found.rows] == ["gtx470-16k", "mine"]
    assert found.axes == {"gpu": ("gtx470-16k", "mine")}
    assert rd.sweep(ATAX, gpu=FERMI, seed=[0, 1], n_jobs=1).fixed == {"gpu": "gtx470-16k"}


def test_blocks_are_made_once_for_all_points():
    made: list[int] = []

    class Watched(rd.Trace):
        def __init__(self) -> None:
            self.launch, self.blocks = ATAX.launch, ATAX.blocks

        def block(self, block: int):
            made.append(block)
            return ATAX.block(block)

    rd.sweep(Watched(), gpu=FERMI, model_sms=2, seed=range(5), n_jobs=1)
    assert sorted(made) == [0, 1]


# ---- laws of caches


LINES = [int(n) for n in np.random.default_rng(7).zipf(1.3, 400) % 64]
ONE_WARP = make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [line]) for line in LINES]]], warps=1)
PLAIN: dict[str, Any] = {"definition": "paper", "lat_min": 0, "sigma": 0, "hit_latency": 0, "mshrs": "inf"}


def test_more_ways_of_as_many_sets_never_miss_more():
    # Without latencies the order of accesses depends on no cache, and LRU has the inclusion property in each set.
    sizes = [128 << n for n in range(8)]
    found = rd.sweep(ONE_WARP, LINEAR, ways=[1, 2, 4, 8, 16, 32], l1_size=sizes, n_jobs=1, **PLAIN)
    misses: dict[int, list[float]] = {}
    for row in found.rows:
        if row.result is not None:
            sets = row.point["l1_size"] // 128 // row.point["ways"]
            misses.setdefault(sets, []).append(row.result.misses.total)
    assert sorted(map(len, misses.values())) == [1, 2, 3, 4, 5, 6, 6, 6]
    assert all(counts == sorted(counts, reverse=True) for counts in misses.values())


def test_fully_associative_points_are_the_miss_ratio_curve():
    curve = rd.miss_ratio_curve(LINES, sizes=[1, 2, 4, 8, 16, 32])
    found = rd.sweep(
        ONE_WARP, LINEAR, ways=[1, 2, 4, 8, 16, 32], l1_size=[128 << n for n in range(6)], n_jobs=1, **PLAIN
    )
    whole = [row for row in found.rows if row.point["l1_size"] == 128 * row.point["ways"]]
    assert [row.result.miss_rate for row in whole] == [curve.at(row.point["ways"]) for row in whole]
    assert len(whole) == 6


# ---- what a sweep says


def test_rows_and_dicts_have_every_point():
    found = rd.sweep([ATAX, BICG], LINEAR, ways=[2, 3], seed=4, n_jobs=1)
    assert found.axes == {"ways": (2, 3)}
    assert found.fixed == {"gpu": "gtx470-16k", "seed": 4}
    assert [(row.trace, row.kernel, dict(row.point)) for row in found.rows] == [
        (number, kernel, {"ways": ways}) for number, kernel in enumerate(["atax.1", "bicg.1"]) for ways in (2, 3)
    ]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["axes"] == {"ways": [2, 3]}
    assert plain["rows"][0]["result"] == json.loads(json.dumps(found.rows[0].result.to_dict()))
    rows = found.to_rows()
    assert rows[0] == {"trace": 0, "ways": 2, **found.rows[0].result.to_row(), "reason": None}
    assert rows[1] == {"trace": 0, "kernel": "atax.1", "ways": 3, "reason": found.rows[1].reason}
    assert str(found) == "2 kernels, 4 points (predict), 2 with a result"


def test_a_frame_has_a_row_for_each_point():
    pytest.importorskip("pandas")
    table = rd.sweep(ATAX, LINEAR, ways=[1, 2, 3], n_jobs=1).to_frame()
    assert list(table["ways"]) == [1, 2, 3]
    assert list(table["reason"].isna()) == [True, True, False]


def test_the_best_point_is_the_one_with_the_least_of_what_is_asked_for():
    found = rd.sweep(ATAX, LINEAR, ways=[1, 2, 3, 4], seed=[0, 1], n_jobs=1)
    ran = [row for row in found.rows if row.result is not None]
    assert found.best() is min(ran, key=lambda row: row.result.miss_rate)
    assert found.best("misses.capacity") is min(ran, key=lambda row: row.result.misses.capacity)
    assert found.best(lambda one: -one.steps) is max(ran, key=lambda row: row.result.steps)
    for measure in ("cycles", "misses", "miss_rat"):
        with pytest.raises(ConfigError, match=f"measure='{measure}': the results have no such number"):
            found.best(measure)
