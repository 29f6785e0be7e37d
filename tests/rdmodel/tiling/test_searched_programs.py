"""Rankings of a program with more tiles than are estimated: all have places, and the first were looked at."""

from __future__ import annotations

import json
import math

import pytest

import rdmodel as rd
import tracegen
from rdmodel.answers.store import Answers
from rdmodel.cli.text_tiles import format_ranking
from rdmodel.tiling import programs
from rdmodel.tiling.search import MIN_SEARCHED_TILES

SIZES = {"TX": [8, 16, 32, 48, 64, 96, 128], "TY": [1, 2, 3, 4, 6, 8], "UNROLL": [1, 2, 4, 8]}


def milliseconds(tile):
    return 0.1 + abs(math.log2(tile["TX"] * tile["TY"] / 256)) + 0.1 / tile["UNROLL"]


class Program:
    """A program whose tiles have times from a formula."""

    def __call__(self, tile):
        return tracegen.kernel("vectoradd", N=256)

    def code(self, tile):
        return tuple(tile.values())

    def question(self, tile):
        return {"tile": tile}

    def compile(self, tiles, *, n_jobs=-1):
        raise AssertionError("no code is shared")


@pytest.fixture
def estimated(monkeypatch):
    """The tiles that were estimated."""
    tiles = []
    original = programs._estimate_tile
    known = []

    def estimate(program, tile, *rest):
        tiles.append(tile)
        if not known:
            known.append(original(program, tile, *rest))
        return {**known[0], "milliseconds": milliseconds(tile)}

    monkeypatch.setattr(programs, "_estimate_tile", estimate)
    return tiles


def rank(**options):
    return rd.rank_tiles(Program(), SIZES, "a4000", objective="time", n_jobs=1, **options)


def plain(ranking):
    return {**ranking.to_dict(), "seconds": None}


def test_a_part_of_a_large_space_is_estimated_and_all_tiles_have_places(estimated):
    ranking = rank()
    assert len(ranking.tiles) == 168 > 2 * len(estimated)
    assert ranking.best.value == min(milliseconds(one.tile) for one in ranking.tiles)
    looked_at = [one for one in ranking.tiles if one.prediction is not None]
    assert {tuple(one.tile.values()) for one in looked_at} == {tuple(tile.values()) for tile in estimated}
    others = [one for one in ranking.tiles if one.prediction is None]
    assert all(one.pruned.startswith("not estimated: others tell ") for one in others)
    assert all(one.low <= one.value <= one.high and not one.tied for one in others)
    assert all(math.isnan(one.miss_rate) and one.misses is None and one.l2_bytes is None for one in others)
    values = [one.value for one in looked_at]
    assert values == sorted(values)


def test_the_first_places_belong_to_tiles_that_were_estimated(estimated):
    assert all(one.prediction is not None for one in rank(top=12).tiles[:12])


def test_such_a_ranking_is_data_and_text(estimated):
    ranking = rank()
    found = json.loads(json.dumps(ranking.to_dict()))
    assert {one["transactions"] is None for one in found["tiles"] if one["pruned"]} == {True}
    assert len(ranking.to_rows()) == 168
    text = format_ranking(ranking.to_dict(), 3)
    assert f"165 more tiles; {168 - len(estimated)} were not estimated" in text
    assert "not estimated" in format_ranking(ranking.to_dict(), 168)


def test_every_tile_is_estimated_on_request_and_in_a_small_space(estimated):
    assert not rank(every=True).pruned
    assert len(estimated) == 168
    estimated.clear()
    few = {**SIZES, "UNROLL": [4]}
    assert not rd.rank_tiles(Program(), few, "a4000", objective="time", n_jobs=1).pruned
    assert len(estimated) == 42 <= MIN_SEARCHED_TILES


def test_an_interrupted_search_goes_on_where_it_stopped(estimated, tmp_path):
    whole = plain(rank())
    in_all = len(estimated)
    estimated.clear()

    def stop(done, _planned):
        if done >= 50:
            raise KeyboardInterrupt

    with Answers(tmp_path / "answers.sqlite") as answers:
        with pytest.raises(KeyboardInterrupt):
            rank(answers=answers, progress=stop)
        assert len(estimated) == 50
        assert plain(rank(answers=answers)) == whole
    assert len(estimated) == in_all


def test_progress_tells_the_estimates_that_are_planned(estimated):
    seen = []
    rank(progress=lambda done, planned: seen.append((done, planned)))
    assert seen[-1] == (len(estimated), len(estimated))
    assert seen == sorted(seen)


def test_every_concerns_programs_and_times_only():
    with pytest.raises(rd.ConfigError, match=r"^every: concerns times of a program only"):
        rd.rank_tiles(Program(), SIZES, "a4000", objective="misses", every=True)
    with pytest.raises(rd.ConfigError, match=r"^every='yes': must be"):
        rd.rank_tiles(Program(), SIZES, "a4000", objective="time", every="yes")
