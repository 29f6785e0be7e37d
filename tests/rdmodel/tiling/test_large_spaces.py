"""Ranking large spaces of tiles: conditions choose among them, batches of traces, and work that is done once."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.tiling import halving, rank
from rdmodel.timing import launch_time
from tests.support.presets import FERMI

GEMM = tracegen.load_affine("gemm.tiled")
TILES = {"TI": [8, 16, 64], "TJ": [8, 16, 64]}


def gemm(tile):
    """Return a product of which little work runs a small part only."""
    return GEMM.trace(NI=256, NJ=256, NK=64, **tile)


def test_batches_of_traces_change_neither_the_ranking_nor_the_progress_that_is_told(monkeypatch):
    tiles = [*rank.all_tiles(TILES), {"TI": 0, "TJ": 8}]
    monkeypatch.setattr(halving, "FIRST_ROUND_TRANSACTIONS", 2000)
    whole = rd.rank_tiles(gemm, tiles, gpu=FERMI, top=2).to_dict()
    monkeypatch.setattr(halving, "BATCH_TILES", 2)
    told = []
    parts = rd.rank_tiles(
        gemm, tiles, gpu=FERMI, top=2, n_jobs=1, progress=lambda done, planned: told.append((done, planned))
    ).to_dict()
    assert {**parts, "seconds": 0} == {**whole, "seconds": 0}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[0] == (0, len(tiles))
    assert told[-1][0] == told[-1][1], "all planned estimates are made"


def test_the_work_of_a_tile_is_counted_once_however_often_its_time_is_estimated(monkeypatch):
    monkeypatch.setattr(halving, "FIRST_ROUND_TRANSACTIONS", 2000)
    counted, estimated = [], []
    count, run = launch_time.count_sampled_blocks, halving.estimate_again
    monkeypatch.setattr(launch_time, "count_sampled_blocks", lambda *given: counted.append(1) or count(*given))
    monkeypatch.setattr(halving, "estimate_again", lambda *given, **named: estimated.append(1) or run(*given, **named))
    ranking = rd.rank_tiles(gemm, TILES, gpu=FERMI, objective="time", top=4)
    assert len(counted) == len(ranking.tiles) == 9 < len(estimated)
    best = ranking.tiles[0]
    assert best.value == rd.time(gemm(best.tile), FERMI, work=None).milliseconds


def test_a_condition_leaves_out_tiles_before_their_traces_are_made():
    made = []

    def make_trace(tile):
        made.append(tile)
        return gemm(tile)

    ranking = rd.rank_tiles(make_trace, TILES, gpu=FERMI, where=lambda tile: tile["TI"] == tile["TJ"])
    assert made == [{"TI": size, "TJ": size} for size in (8, 16, 64)]
    assert len(ranking.tiles) == 3


def test_a_condition_may_choose_from_more_combinations_than_can_be_ranked(monkeypatch):
    monkeypatch.setattr(rank, "MAX_RANKED_TILES", 4)
    monkeypatch.setattr(rank, "MAX_COMBINATIONS", 9)
    assert len(rank.all_tiles(TILES, lambda tile: tile["TI"] < tile["TJ"])) == 3
    with pytest.raises(ConfigError, match="more than 4, the limit of a ranking"):
        rank.all_tiles(TILES, lambda tile: True)
    with pytest.raises(ConfigError, match="more than 9 combinations"):
        rank.all_tiles({**TILES, "TK": [1, 2]}, lambda tile: True)
