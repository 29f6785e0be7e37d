"""Candidates from a ranking: selection of tiles, names of sizes, and one ranking for every tool."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import tracegen
from rdmodel.errors import ConfigError
from rdmodel.integrations import candidates, kernel_tuner, optuna, ppcg
from tests.support.rankings import GEMM, SIX, Ranking, misses, ranking


@pytest.mark.parametrize(
    ("top", "within", "count"),
    [(None, None, 6), (1, None, 1), (2, None, 3), (3, None, 3), (None, 0, 1), (None, 0.04, 3), (4, 0.01, 4), (1, 9, 6)],
)
def test_tiles_are_kept_by_rank_and_by_share_ties_included(top, within, count):
    assert candidates.select_tiles(SIX, top, within) == list(SIX.tiles[:count])


def test_a_share_of_a_negative_value_is_above_it():
    below = ranking(({"T": 1}, -10.0), ({"T": 2}, -9.5), ({"T": 3}, -8.0))
    assert [one.tile["T"] for one in candidates.select_tiles(below, None, 0.1)] == [1, 2]


@pytest.mark.parametrize(
    ("top", "within", "named"), [(0, None, "top=0"), (None, -0.1, "within=-0.1"), (1.5, None, "top")]
)
def test_what_means_nothing_is_refused(top, within, named):
    with pytest.raises(ConfigError, match=named):
        candidates.select_tiles(SIX, top, within)


def test_a_ranking_without_tiles_is_refused_with_the_reason():
    nothing = Ranking((), (SimpleNamespace(tile={"T": 1}, reason="block: too many threads"),))
    with pytest.raises(ConfigError, match="no tile can run: block: too many threads"):
        kernel_tuner.restrictions(nothing, {"T": [1]})


def test_a_ranking_has_no_tiles_or_options_beside_it():
    with pytest.raises(ConfigError, match="tiles, gpu: cannot be combined with a ranking"):
        candidates.ranking_of(SIX, [], {"gpu": "x"})
    with pytest.raises(ConfigError, match="tiles: are missing"):
        candidates.ranking_of(lambda tile: None, None, {})
    with pytest.raises(ConfigError, match="must be a ranking"):
        candidates.ranking_of(3, None, {})


def test_a_block_shape_is_taken_apart_and_names_are_replaced():
    assert candidates.flatten_tile({"TI": 8, "block": [32, 4]}) == {"TI": 8, "block_size_x": 32, "block_size_y": 4}
    names = {"TI": "tile_i", "block": ("bx", "by")}
    assert candidates.flatten_tile({"TI": 8, "block": (32, 4)}, names) == {"tile_i": 8, "bx": 32, "by": 4}


@pytest.mark.parametrize(
    ("tile", "names", "named"),
    [
        (8, None, "tile 8: must be a mapping"),
        ({"TI": 8}, {"TJ": "x"}, "names: unknown size 'TJ'"),
        ({"TI": 8}, {"TI": ("x", "y")}, "cannot be renamed"),
        ({"block": [8, 8]}, {"block": "x"}, "cannot be renamed"),
        ({"block": [8, 8]}, {"block": ("x",)}, "cannot be renamed"),
        ({"shape": [8, 8]}, None, "cannot be renamed"),
    ],
)
def test_names_that_do_not_fit_are_refused(tile, names, named):
    with pytest.raises(ConfigError, match=named):
        candidates.flatten_tile(tile, names)


def test_no_tool_is_imported():
    code = (
        "import sys; from rdmodel.integrations import kernel_tuner, optuna, ppcg, triton; "
        "print({'triton', 'kernel_tuner', 'optuna', 'islpy', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "triton" not in done.stdout and "tuner" not in done.stdout and "optuna" not in done.stdout


# ---- ranking on the way


def test_every_integration_ranks_tiles_itself():
    tiles = {"T": [4, 8, 32, 512]}
    options = {"gpu": "gtx470-16k", "objective": misses}

    def make(tile):
        return tracegen.affine_kernel(GEMM, N=96, **tile)

    ranked = candidates.rank(make, tiles, **options)
    order = [one.tile["T"] for one in ranked.tiles]
    assert sorted(order) == [4, 8, 32]
    keep = kernel_tuner.restrictions(make, tiles, tiles=tiles, top=1, **options)
    best = {one.tile["T"] for one in ranked.tiles if one.rank == 1}
    assert {size for size in tiles["T"] if keep(size)} == best
    assert ppcg.sizes(make, tiles=tiles, tile=["T"], **options) == f"{{ kernel[0] -> tile[{order[0]}] }}"
    enqueued = []
    study = SimpleNamespace(enqueue_trial=lambda params, **_: enqueued.append(params["T"]))
    optuna.enqueue(study, make, tiles=tiles, **options)
    assert enqueued == order
