"""Enqueue the tiles that are predicted to be best as the first trials of an Optuna study."""

from __future__ import annotations

from typing import Any

from rdmodel.integrations.candidates import Names, Source, Tiles, flatten_tile, ranking_of, select_tiles


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
    """Enqueue tiles in a study, the best first; return their number.

    Every trial has the tile's rank and value as user attributes ``rdmodel_rank`` and ``rdmodel_value``. Tiles that are
    in the study already, waiting or tried, are not enqueued again.

    Parameters
    ----------
    study
        The study.
    ranking
        The result of `rdmodel.rank_tiles`, or a function that makes the trace of a tile; it needs `tiles`.
    tiles
        Tiles to rank, if `ranking` is a function.
    top
        Take tiles with ranks up to `top`.
    within
        Take tiles at most this share above the best one. With None for both, take all tiles that can run.
    names
        The study's names by names in a tile. The default for a tile's ``block`` is ``block_size_x``, ... .
    options
        Options of `rank_tiles`, if `ranking` is a function.

    Returns
    -------
    int
        The number of tiles, with those that were in the study already.

    Raises
    ------
    ConfigError
        If no tile can run.
    """
    chosen = select_tiles(ranking_of(ranking, tiles, options), top, within)
    trials = [flatten_tile(ranked.tile, names) for ranked in chosen]
    for params, ranked in zip(trials, chosen, strict=True):
        attributes = {"rdmodel_rank": ranked.rank, "rdmodel_value": ranked.value}
        study.enqueue_trial(params, user_attrs=attributes, skip_if_exists=True)
    return len(chosen)
