"""The tiles that are predicted to be best as the first trials of an Optuna study."""

from __future__ import annotations

from typing import Any

from rdmodel.integrations.candidates import Names, Source, Tiles, flat, kept, ranking_of


def enqueue(
    study: Any,
    ranking: Source,
    *,
    tiles: Tiles = None,
    top: int | None = 10,
    within: float | None = None,
    names: Names | None = None,
    **options: Any,
) -> int:
    """Enqueue tiles in a study, the best first; return how many tiles these were.

    Those are taken whose rank is at most `top`, or that are at most the share `within` above the best one (None and
    None: all that can run). `ranking` is what `rdmodel.rank_tiles` returned; or a function that makes a trace of a
    tile, with `tiles` and `options` of `rank_tiles`. `names` are the study's by those in a tile; a tile's ``block`` is
    ``block_size_x``, ... . Every trial has the tile's rank and value as user attributes ``rdmodel_rank`` and
    ``rdmodel_value``. Tiles that the study has, waiting or tried, are not enqueued again. Raises `ConfigError` where
    no tile can run.
    """
    chosen = [(flat(one.tile, names), one) for one in kept(ranking_of(ranking, tiles, options), top, within)]
    for params, one in chosen:
        attributes = {"rdmodel_rank": one.rank, "rdmodel_value": one.value}
        study.enqueue_trial(params, user_attrs=attributes, skip_if_exists=True)
    return len(chosen)
