"""Rankings as values: what they say of themselves, in words, rows and JSON."""

from __future__ import annotations

import json

import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.tiling.values import InfeasibleTile, RankedTile, Ranking, tile_size_text, tile_text

TRACE = tracegen.kernel("mvt.1", N=64)
PLAIN, WITH_L2 = rd.predict(TRACE), rd.predict(TRACE, l2=True)


def ranked(rank: int, tile: object, value: float, **more: object) -> RankedTile:
    known = {"low": value, "high": value, "tied": rank == 1, "pruned": None, "prediction": PLAIN}
    return RankedTile(rank=rank, tile=tile, value=value, **{**known, **more})


def ranking(*tiles: RankedTile, infeasible: tuple[InfeasibleTile, ...] = (), seconds: float = 0.5) -> Ranking:
    named = {"kernel": "mvt.1", "gpu": "gtx470-16k", "objective": "misses", "effort": "quick", "seed": 0, "top": 1}
    return Ranking(**named, tiles=tiles, infeasible=infeasible, seconds=seconds)


TOO_LARGE = InfeasibleTile(tile={"T": 64}, reason="too many threads")
THREE = ranking(
    ranked(1, {"T": 8, "block": [32, 4]}, 1000.0),
    ranked(1, {"T": 16, "block": (16, 8)}, 1000.0),
    ranked(3, {"T": 32, "block": [8, 8]}, 3e6, pruned="behind", prediction=WITH_L2),
    infeasible=(TOO_LARGE,),
)


def test_the_best_its_ties_and_those_that_were_given_up_are_told_apart():
    assert THREE.best is THREE.tiles[0]
    assert THREE.ties == THREE.tiles[:2]
    assert THREE.pruned == THREE.tiles[2:]


def test_without_a_tile_that_can_run_there_is_no_best_and_the_first_reason_is_given():
    nothing = ranking(infeasible=(TOO_LARGE, InfeasibleTile(tile=3, reason="other")))
    with pytest.raises(ConfigError, match=r"^tiles: none of 2 can run: too many threads$"):
        _ = nothing.best
    assert str(nothing) == "mvt.1 on gtx470-16k: none of 2 tiles can run"
    assert nothing.ties == nothing.pruned == ()


def test_a_ranking_is_one_line():
    assert str(THREE) == "mvt.1 on gtx470-16k: T=8 block=32x4 of 3 tiles, misses 1,000, 1 more as good"
    assert str(ranking(ranked(1, 7, 2.0))) == "mvt.1 on gtx470-16k: 7 of 1 tiles, misses 2"


def test_a_ranking_is_json_and_has_the_numbers_of_its_predictions():
    plain = THREE.to_dict()
    first, _, third = json.loads(json.dumps(plain))["tiles"]
    assert first == {
        "rank": 1,
        "tile": {"T": 8, "block": [32, 4]},
        "value": 1000.0,
        "low": 1000.0,
        "high": 1000.0,
        "tied": True,
        "pruned": None,
        "miss_rate": PLAIN.miss_rate,
        "transactions": PLAIN.transactions,
        "sectors": PLAIN.sectors,
        "misses": PLAIN.misses.total,
    }
    assert third.keys() - first.keys() == {"l2_bytes", "dram_bytes"}
    assert third["dram_bytes"] == WITH_L2.l2.dram_bytes
    assert plain["infeasible"] == [{"tile": {"T": 64}, "reason": "too many threads"}]
    assert {name: plain[name] for name in ("kernel", "gpu", "objective", "effort", "seed", "top", "seconds")} == {
        "kernel": "mvt.1",
        "gpu": "gtx470-16k",
        "objective": "misses",
        "effort": "quick",
        "seed": 0,
        "top": 1,
        "seconds": 0.5,
    }


@pytest.mark.parametrize("tile", THREE.tiles)
def test_every_number_in_the_json_of_a_tile_is_an_attribute_of_its_name(tile):
    assert {name: getattr(tile, name) for name in tile.to_dict()} == tile.to_dict()


def test_a_tile_without_an_l2_has_no_traffic_of_one():
    assert THREE.tiles[0].l2_bytes is None
    assert THREE.tiles[0].dram_bytes is None


def test_rows_are_flat_and_have_the_sizes_first():
    rows = THREE.to_rows()
    assert [row["T"] for row in rows] == [8, 16, 32, 64]
    assert list(rows[0])[:3] == ["T", "block", "rank"]
    assert rows[3] == {"T": 64, "reason": "too many threads"}
    assert ranking(ranked(1, (8, 16), 1.0)).to_rows()[0]["tile"] == (8, 16)


def test_a_data_frame_has_a_row_for_every_tile():
    pytest.importorskip("pandas")
    frame = THREE.to_frame()
    assert list(frame["value"])[:3] == [1000.0, 1000.0, 3e6]
    assert len(frame) == 4


def test_the_time_that_it_took_is_no_part_of_what_a_ranking_says():
    one = ranked(1, {"T": 1}, 1.0)
    assert ranking(one, seconds=1.0) == ranking(one, seconds=2.0)


@pytest.mark.parametrize(
    ("tile", "text"),
    [({"TI": 8, "TJ": 16}, "TI=8 TJ=16"), ({"block": (32, 8)}, "block=32x8"), ("big", "big"), (3, "3")],
)
def test_a_tile_is_written_as_people_write_it(tile, text):
    assert tile_text(tile) == text


def test_a_size_is_a_number_or_a_shape():
    assert [tile_size_text(8), tile_size_text([32, 8, 1]), tile_size_text((4,))] == ["8", "32x8x1", "4"]
