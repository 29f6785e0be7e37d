"""Ranking tiles: against predictions sorted by hand, laws, what cannot run, and what users hand in by mistake."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.tiling import halving, rank
from rdmodel.tiling.objectives import Value
from tests.support.examples import examples
from tests.support.presets import FERMI

GEMM = tracegen.load_affine("gemm.tiled")
SHARED = tracegen.load_affine("gemm.shared")
SIZES = {"NI": 64, "NJ": 64, "NK": 64}
TILES = {"TI": [8, 16, 64], "TJ": [8, 16, 64]}
WORK = 2000

ALL = [{"TI": ti, "TJ": tj} for ti in TILES["TI"] for tj in TILES["TJ"]]


def gemm(tile):
    return GEMM.trace(**SIZES, **tile)


def large_gemm(tile):
    """Return a product of which little work runs a small part only."""
    return GEMM.trace(NI=256, NJ=256, NK=64, **tile)


def told_by_hand(gpu: rd.GPU) -> dict[str, object]:
    """Return the options that say to the model what docs/tiles.md says they do."""
    flits = -(-8 // gpu.crossbar.width) + -(-(8 + gpu.l1.line) // gpu.crossbar.width)
    there_and_back = (2 * gpu.crossbar.latency + flits) * gpu.clock / gpu.crossbar.clock
    return {
        "sched": {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest", "gty": "gty"}[gpu.core.sched],
        "schedulers": gpu.core.schedulers,
        "stall": "head",
        "stores": "evict",
        "gap": True,
        "lat_min": gpu.l2.latency + int(np.ceil(there_and_back)) + 1,
        "sigma": 10.0,
        "hit_latency": gpu.core.hit_latency,
    }


def exactly(tile, gpu: rd.GPU) -> rd.Prediction:
    return rd.predict(gemm(tile), gpu, model_sms="all", threads=None, l2=True, **told_by_hand(gpu))


READ = {
    "miss_rate": lambda one: one.miss_rate,
    "misses": lambda one: one.misses.total,
    "l2_bytes": lambda one: one.l2.bytes,
    "dram_bytes": lambda one: one.l2.dram_bytes,
}


def said(ranking: rd.Ranking) -> dict[str, object]:
    """Return all that a ranking says, but for the time that it took."""
    return {name: value for name, value in ranking.to_dict().items() if name != "seconds"}


@pytest.fixture
def little_work(monkeypatch):
    """Let the first round do so little that all later ones have something to do."""
    monkeypatch.setattr(halving, "FIRST_ROUND_TRANSACTIONS", WORK)


def check_places(ranking: rd.Ranking) -> None:
    """Assert that ranks, ties and what was given up fit together."""
    tiles = ranking.tiles
    assert tiles[0].rank == 1
    assert tiles[0].tied
    assert tiles[0].pruned is None
    for number, (one, after) in enumerate(itertools.pairwise(tiles), 2):
        equal = one.value == after.value and (one.pruned is None) == (after.pruned is None)
        assert after.rank == number or (equal and after.rank == one.rank)
        assert one.pruned is None or after.pruned is not None
        if one.pruned is None and after.pruned is None:
            assert one.value <= after.value
    for one in tiles:
        assert one.low <= one.value <= one.high
        assert not one.tied or one.low <= tiles[0].high


# ---- the exact ranking


@pytest.mark.parametrize("gpu", ["gtx470-16k", "gtx480-khairy"])
def test_an_exact_ranking_is_predictions_sorted_by_hand(gpu):
    machine = rd.presets.gpu(gpu)
    by_hand = {tuple(tile.values()): exactly(tile, machine) for tile in ALL}
    for objective, read in READ.items():
        ranking = rd.rank_tiles(gemm, TILES, gpu, objective=objective, effort="exact")
        wanted = sorted(ALL, key=lambda tile: read(by_hand[tuple(tile.values())]))
        assert [one.tile for one in ranking.tiles] == wanted
        for one in ranking.tiles:
            alone = by_hand[tuple(one.tile.values())]
            assert one.value == one.low == one.high == read(alone)
            assert one.prediction.misses == alone.misses
        assert (ranking.kernel, ranking.gpu, ranking.objective) == ("gemm.tiled", gpu, objective)
        check_places(ranking)


def test_what_takes_no_more_than_the_first_round_is_exact():
    quick, exact = (rd.rank_tiles(gemm, TILES, gpu=FERMI, effort=effort) for effort in ("quick", "exact"))
    assert [(one.tile, one.value) for one in quick.tiles[:3]] == [(one.tile, one.value) for one in exact.tiles[:3]]
    assert all(one.low == one.high for one in quick.tiles)


def test_options_of_the_model_take_the_place_of_those_that_are_told():
    ranking = rd.rank_tiles(gemm, ALL[:2], gpu=FERMI, objective="misses", sigma=300.0, sched="random", effort="exact")
    gpu = rd.presets.gpu("gtx470-16k")
    options = {**told_by_hand(gpu), "sigma": 300.0, "sched": "random", "schedulers": 1}
    alone = rd.predict(gemm(ranking.best.tile), gpu, model_sms="all", threads=None, **options)
    assert ranking.best.value == alone.misses.total
    assert (
        rd.rank_tiles(gemm, ALL[:2], gpu=FERMI, objective="misses", definition="paper").best.prediction.definition
        == "paper"
    )


def test_the_l2_may_be_asked_for_beside_an_objective_without_it():
    without, beside = (rd.rank_tiles(gemm, ALL[:1], gpu=FERMI, objective="misses", l2=l2).best for l2 in (False, True))
    assert without.prediction.l2 is None
    assert beside.prediction.l2 is not None
    assert without.value == beside.value


# ---- laws


@pytest.mark.parametrize("objective", ["misses", "time"])
def test_the_number_of_threads_changes_nothing(little_work, objective):
    one, two, all_ = (
        said(rd.rank_tiles(gemm, TILES, gpu=FERMI, objective=objective, n_jobs=jobs)) for jobs in (1, 2, -1)
    )
    assert one == two == all_


@pytest.mark.parametrize(("effort", "objective"), [("quick", "misses"), ("exact", "dram_bytes")])
def test_the_order_in_which_tiles_are_given_changes_only_the_order_of_equals(little_work, effort, objective):
    one = rd.rank_tiles(gemm, ALL, gpu=FERMI, effort=effort, objective=objective)
    for order in (ALL[::-1], ALL[4:] + ALL[:4]):
        other = rd.rank_tiles(gemm, order, gpu=FERMI, effort=effort, objective=objective)
        assert [(a.rank, a.value, a.low, a.high, a.tied) for a in one.tiles] == [
            (b.rank, b.value, b.low, b.high, b.tied) for b in other.tiles
        ]
        for a in one.tiles:
            assert a.tile in [b.tile for b in other.tiles if b.rank == a.rank]


@pytest.mark.parametrize(
    ("objective", "top"), [("misses", 1), ("misses", 3), ("misses", 100), ("dram_bytes", 1), ("time", 3)]
)
def test_places_ties_and_what_was_given_up_fit_together(little_work, objective, top):
    ranking = rd.rank_tiles(gemm, TILES, gpu=FERMI, objective=objective, top=top)
    check_places(ranking)
    assert len(ranking.tiles) == 9
    assert json.loads(json.dumps(ranking.to_dict())) == ranking.to_dict()
    if top == 100:
        assert not ranking.pruned


def test_the_best_tiles_are_told_from_each_other_and_not_only_from_the_rest(little_work):
    """As many tiles as matter are left after the first round: their order is still open."""
    few = ALL[:4]
    four, exact = (
        rd.rank_tiles(gemm, few, gpu=FERMI, objective="misses", top=4, effort=one) for one in ("quick", "exact")
    )
    assert not four.pruned
    first = [
        rd.estimate(gemm(tile), gpu=FERMI, work=WORK, **told_by_hand(rd.presets.gpu("gtx470-16k"))) for tile in few
    ]
    bounds = sorted((one.estimates["misses"].low, one.estimates["misses"].high) for one in first)
    assert any(high > low for (_, high), (low, _) in itertools.pairwise(bounds))
    assert all(one.prediction.config["work"] > WORK for one in four.tiles)
    assert [one.tile for one in four.tiles] == [one.tile for one in exact.tiles]


def test_a_tile_alone_is_the_best():
    ranking = rd.rank_tiles(gemm, [ALL[3]], gpu=FERMI)
    assert ranking.best.tile == ALL[3]
    assert ranking.ties == ranking.tiles
    assert not ranking.pruned


def test_equal_tiles_share_a_rank():
    ranking = rd.rank_tiles(gemm, [ALL[0], ALL[0], ALL[1]], gpu=FERMI, objective="misses")
    assert sorted(one.rank for one in ranking.tiles) in ([1, 1, 3], [1, 2, 2])


def test_tiles_that_were_given_up_come_last_even_with_a_lower_value():
    def candidate(at, value, low, high):
        one = halving.Candidate(at, at, prediction=rd.predict(gemm(ALL[0]), gpu=FERMI))
        one.value = Value(value, low, high)
        return one

    # The second cannot be the best any more, the third can, though it seems worse.
    found = [candidate(0, 1.0, 0.0, 2.0), candidate(1, 3.0, 2.5, 3.5), candidate(2, 4.0, 1.0, 9.0)]
    assert [one.at for one in halving._survivors(found, 1)] == [0, 2]
    assert [one.tile for one in halving.rank_candidates(found)] == [0, 2, 1]


def test_a_zero_that_was_estimated_is_not_taken_for_exact(little_work):
    """That nothing was seen in a part of the grid is no reason not to look further."""
    works = []
    small = [tile for tile in ALL if max(tile.values()) <= 16][:3]

    def nothing_at_first(prediction):
        works.append(prediction.config["work"])
        return 0 if works[-1] == WORK else len(works)

    ranking = rd.rank_tiles(large_gemm, small, gpu=FERMI, objective=nothing_at_first, n_jobs=1, top=3)
    assert works.count(WORK) == 3
    assert all(one.value == 0.0 for one in ranking.tiles)  # all the same: nothing to tell apart

    def one_at_first(prediction):
        works.append(prediction.config["work"])
        return 0 if len(works) == 1 else 1e-9 - len(works)

    works.clear()
    rd.rank_tiles(large_gemm, small, gpu=FERMI, objective=one_at_first, n_jobs=1, top=3)
    assert works.count(4 * WORK) == 3


# ---- tiles that cannot run


def test_tiles_that_cannot_run_are_reported_with_the_reason_and_the_others_ranked():
    def shared(tile):
        return SHARED.trace(**SIZES, **tile)

    tiles = [
        {"TI": 16, "TJ": 16, "TK": 16},
        {"TI": 128, "TJ": 128, "TK": 64},
        {"TI": 16, "TX": 3},
        {"TI": 0},
        {"BX": 64, "BY": 64},
        {"TI": 16, "TJ": 32, "TK": 16},
    ]
    ranking = rd.rank_tiles(shared, tiles, gpu=FERMI)
    assert len(ranking.tiles) == 2
    assert [one.tile for one in ranking.infeasible] == tiles[1:5]
    memory, name, zero, threads = (one.reason for one in ranking.infeasible)
    assert "shared memory" in memory
    assert "unknown parameter of gemm.shared 'TX'; did you mean" in name
    assert "TI=0: must be TI >= 1" in zero
    assert "4096 threads" in threads


def test_a_tile_that_needs_too_many_registers_cannot_run():
    with pytest.raises(ConfigError, match=r"none of 1 can run: .*registers"):
        _ = rd.rank_tiles(gemm, [{"TI": 256, "TJ": 256}], gpu=FERMI).best


def test_a_function_may_refuse_a_tile():
    def picky(tile):
        if tile["TI"] == 8:
            raise LaunchError("not eight")
        return gemm(tile)

    ranking = rd.rank_tiles(picky, TILES, gpu=FERMI, objective="misses")
    assert {one.reason for one in ranking.infeasible} == {"not eight"}
    assert len(ranking.infeasible) == 3
    assert len(ranking.tiles) == 6


def test_a_trace_that_turns_out_to_be_wrong_while_it_is_run_is_infeasible():
    class Broken(tracegen.AffineTrace):
        def block(self, index):
            raise TraceError("block is torn")

    def make(tile):
        return gemm(tile) if tile["TI"] > 8 else Broken(GEMM, {**SIZES, **tile})

    ranking = rd.rank_tiles(make, TILES, gpu=FERMI, objective="misses")
    assert {one.reason for one in ranking.infeasible} == {"block is torn"}
    assert len(ranking.tiles) == 6


def test_if_no_tile_can_run_there_is_a_ranking_without_a_best():
    ranking = rd.rank_tiles(gemm, {"TI": [0, -1]}, gpu=FERMI)
    assert (ranking.tiles, len(ranking.infeasible)) == ((), 2)
    with pytest.raises(ConfigError, match=r"none of 2 can run: gemm\.tiled: TI=0"):
        _ = ranking.best


# ---- what users hand in


def test_a_tile_is_anything_and_a_function_may_return_a_kernel():
    small = replace(GEMM, parameters={**GEMM.parameters, **SIZES})
    kernels = {"a": small, "b": replace(small, parameters={**small.parameters, "TI": 64})}
    ranking = rd.rank_tiles(kernels.get, ["a", "b"], gpu=FERMI, objective="misses", effort="exact")
    assert {one.tile for one in ranking.tiles} == {"a", "b"}
    traces = [
        rd.rank_tiles(lambda _, one=one: one.trace(), [None], gpu=FERMI, objective="misses") for one in kernels.values()
    ]
    assert ranking.best.value == min(one.best.value for one in traces)
    shapes = rd.rank_tiles(lambda tile: gemm({"TI": int(tile[0])}), np.array([[8, 16]]), gpu=FERMI, objective="misses")
    assert len(shapes.tiles) == 1
    assert rd.rank_tiles(gemm, [{}], gpu=FERMI).best.tile == {}


def test_an_objective_may_be_any_function_of_a_prediction():
    def stalls(prediction):
        return np.float32(prediction.stalls_mshr)

    ranking = rd.rank_tiles(gemm, TILES, gpu=FERMI, objective=stalls)
    assert ranking.objective == "stalls"
    assert all(type(one.value) is float for one in ranking.tiles)
    assert rd.rank_tiles(gemm, TILES, gpu=FERMI, objective=lambda one: -one.l2.dram_bytes).best.tile == max(
        ALL, key=lambda tile: rd.rank_tiles(gemm, [tile], gpu=FERMI).best.value
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (None, "None"),
        ("3", "'3'"),
        (True, "True"),
        (1j, "1j"),
        pytest.param(10**5000, "a number beyond", id="huge"),
    ],
)
def test_an_objective_that_is_no_finite_number_is_an_error(value, shown):
    def mine(_prediction):
        return value

    with pytest.raises(ConfigError, match=f"objective mine: returned {shown}.*: must be a finite number"):
        rd.rank_tiles(gemm, ALL[:2], gpu=FERMI, objective=mine)


def failing(_):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_users_functions_raise_arrives(jobs):
    with pytest.raises(ZeroDivisionError, match="mine"):
        rd.rank_tiles(gemm, ALL, gpu=FERMI, objective=failing, n_jobs=jobs)
    with pytest.raises(ZeroDivisionError, match="mine"):
        rd.rank_tiles(failing, ALL, gpu=FERMI, n_jobs=jobs)


@pytest.mark.parametrize("nonsense", [None, 3, "gemm", [gemm], {"name": "gemm"}])
def test_a_function_that_returns_no_trace_is_an_error(nonsense):
    with pytest.raises(ConfigError, match=r"make_trace\(TI=8 TJ=8\) returned .*: must be a Trace or an AffineKernel"):
        rd.rank_tiles(lambda tile: nonsense, ALL, gpu=FERMI)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"gpu": "gtx47"}, "unknown GPU 'gtx47'; did you mean"),
        ({"objective": "tme"}, "unknown objective 'tme'; did you mean 'time'"),
        ({"objective": 3}, "unknown objective '3'"),
        ({"effort": "some"}, "effort"),
        ({"top": 0}, "top=0"),
        ({"top": 1.5}, "top=1.5"),
        ({"seed": -1}, "seed=-1"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"work": 1000}, "work: cannot be set"),
        ({"where": "TI < 8"}, "where='TI < 8': must be a function of a tile"),
        ({"per": "TI"}, "per='TI': must be a function of a tile"),
        ({"per": lambda tile: 0}, "per: returned 0 for TI=8 TJ=8: must be a finite number above 0"),
        ({"per": lambda tile: True}, "per: returned True for TI=8 TJ=8: must be a finite number above 0"),
        ({"per": lambda tile: float("inf")}, "per: returned inf for TI=8 TJ=8: must be a finite number above 0"),
        ({"per": lambda tile: float("nan")}, "per: returned nan for TI=8 TJ=8: must be a finite number above 0"),
        ({"where": lambda tile: tile["TI"] > 64}, "must hold at least one tile that meets the condition"),
        ({"l2": 1}, "l2=1: must be True or False"),
        ({"lat_mim": 3}, "unknown option 'lat_mim'; did you mean 'lat_min'"),
        ({"lat_min": -3}, "lat_min=-3"),
        ({"threads": 512}, "threads: not an option"),
        ({"definition": "papr"}, "definition"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, named):
    with pytest.raises(ConfigError, match=named):
        rd.rank_tiles(gemm, ALL[:2], **{"gpu": FERMI, **options})


@pytest.mark.parametrize("effort", ["quick", "exact"])
def test_values_per_unit_of_work_are_those_of_the_launch_divided_by_its_units(effort):
    def units(tile):
        return tile["TI"] / 8 + tile["TJ"]

    whole = rd.rank_tiles(gemm, ALL, gpu=FERMI, effort=effort, top=len(ALL))
    each = rd.rank_tiles(gemm, ALL, gpu=FERMI, effort=effort, top=len(ALL), per=units)
    assert whole.objective == "dram_bytes"
    assert each.objective == "dram_bytes per units"
    numbers = {tuple(one.tile.values()): (one.value, one.low, one.high) for one in whole.tiles}
    for one in each.tiles:
        expected = tuple(number / units(one.tile) for number in numbers[tuple(one.tile.values())])
        assert (one.value, one.low, one.high) == expected
    assert [one.value for one in each.tiles] == sorted(one.value for one in each.tiles)


def test_a_kernel_is_no_function_of_a_tile():
    with pytest.raises(ConfigError, match=r"make_trace=.*: must be a function of a tile"):
        rd.rank_tiles(GEMM, TILES, gpu=FERMI)


# ---- progress


class Enough(Exception):
    pass


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("after", [1, 12, 25])
def test_progress_may_raise_and_then_everything_stops(monkeypatch, little_work, jobs, after):
    calls, begun = [], []
    run = halving.estimate_again
    monkeypatch.setattr(halving, "estimate_again", lambda *given, **options: begun.append(1) or run(*given, **options))

    def progress(done, total):
        assert 0 <= done <= total
        calls.append(done)
        if len(calls) == after:
            raise Enough

    with pytest.raises(Enough):
        rd.rank_tiles(gemm, TILES, gpu=FERMI, n_jobs=jobs, progress=progress)
    assert len(calls) == after
    assert len(begun) <= after
    if after == 1:
        assert not begun
    assert not [one for one in threading.enumerate() if one.name.startswith("rdmodel")]


def test_progress_counts_to_the_end(little_work):
    calls = []
    rd.rank_tiles(gemm, TILES, gpu=FERMI, progress=lambda *call: calls.append(call))
    assert calls[0] == (0, 9)
    assert calls[-1][0] == calls[-1][1] >= 9
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


# ---- which tiles there are


SIZE = st.integers() | st.text(max_size=2)


@examples(40)
@given(st.dictionaries(st.text(max_size=3), st.lists(SIZE, min_size=1, max_size=4), max_size=4))
def test_sizes_by_name_stand_for_all_combinations(sizes):
    if not sizes:
        with pytest.raises(ConfigError, match="must hold at least one tile"):
            rank.all_tiles(sizes)
        return
    wanted = [{}]
    for name, choices in sizes.items():
        wanted = [{**tile, name: choice} for tile in wanted for choice in choices]
    assert rank.all_tiles(sizes) == wanted
    assert rank.all_tiles({name: iter(choices) for name, choices in sizes.items()}) == wanted
    assert rank.all_tiles(iter(wanted)) == wanted


@pytest.mark.parametrize(
    ("tiles", "named"),
    [
        ([], "must hold at least one tile"),
        ({}, "must hold at least one tile"),
        (iter(()), "must hold at least one tile"),
        ("TI", "tiles='TI': must be tiles, or sizes by name"),
        (8, "tiles=8: must be tiles"),
        (None, "tiles=None: must be tiles"),
        ({"TI": 8}, "TI=8: must be a list of sizes"),
        ({"TI": "8"}, "TI='8': must be a list of sizes"),
        ({"TI": [8], "TJ": []}, "TJ has no sizes"),
        ({"TI": range(1 << 31), "TJ": range(1 << 31)}, "more than 65536 combinations"),
        ({"TI": itertools.count()}, "more than 65536 combinations"),
        ({f"T{at}": (1, 2) for at in range(20000)}, "more than 65536 combinations"),
        (itertools.count(), "more than 65536"),
        (({"TI": n} for n in range(1 << 62)), "more than 65536"),
    ],
    ids=lambda value: f"{value!s:.20}",
)
def test_what_are_no_tiles_or_too_many_is_refused(tiles, named):
    with pytest.raises(ConfigError, match=named):
        rd.rank_tiles(gemm, tiles, gpu=FERMI)
