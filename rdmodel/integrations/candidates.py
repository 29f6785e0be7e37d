"""Select the tiles of a ranking and rename their sizes, for all integrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rdmodel.common.checks import check_int, check_number
from rdmodel.errors import ConfigError, unknown
from rdmodel.tiling.rank import rank_tiles
from rdmodel.tiling.values import RankedTile, Ranking

BLOCK_SHAPE_NAME = "block"
"""The name of a tile's block shape."""

BLOCK_SIZE_NAMES = ("block_size_x", "block_size_y", "block_size_z")
"""Default names of the three numbers of a block shape in a tuner."""

Names = Mapping[str, str | Sequence[str]]
"""The tuner's name for each name in a tile; a list of names for a block shape, x first."""

Source = Ranking | Callable[[Any], Any]
"""A ranking, or a function that makes the trace of a tile; the latter needs tiles to rank."""

Tiles = Iterable[Any] | Mapping[str, Iterable[Any]] | None
"""Tiles to rank, as `rank_tiles` takes them; None with a ranking."""


def rank(
    make_trace: Callable[[Any], Any], tiles: Iterable[Any] | Mapping[str, Iterable[Any]], **options: Any
) -> Ranking:
    """Return ``rdmodel.rank_tiles(make_trace, tiles, **options)``."""
    return rank_tiles(make_trace, tiles, **options)


def ranking_of(source: Source, tiles: Tiles, options: Mapping[str, Any]) -> Ranking:
    """Return `source` if it is a ranking, else rank `tiles` with it; raise `ConfigError` if it is neither."""
    if callable(source):
        if tiles is None:
            raise ConfigError("tiles: are missing; a function that makes traces needs tiles to rank")
        return rank(source, tiles, **options)
    if tiles is not None or options:
        given = ", ".join([*(["tiles"] if tiles is not None else []), *options])
        raise ConfigError(f"{given}: cannot be combined with a ranking, whose tiles are ranked already")
    if not hasattr(source, "tiles"):
        raise ConfigError(f"ranking={source!r:.60}: must be a ranking, or a function that makes the trace of a tile")
    return source


def select_tiles(ranking: Ranking, top: int | None, within: float | None) -> list[RankedTile]:
    """Return the tiles with ranks up to `top`, and those at most the share `within` above the best, best first.

    If both are None, return all tiles that can run. Raises `ConfigError` if no tile can run.
    """
    if top is not None:
        check_int("top", top, 1)
    if within is not None:
        check_number("within", within, 0)
    if not ranking.tiles:
        reason = f": {ranking.infeasible[0].reason}" if ranking.infeasible else ""
        raise ConfigError(f"ranking: no tile can run{reason}")
    if top is None and within is None:
        return list(ranking.tiles)
    least = ranking.tiles[0].value
    bar = least if within is None else least + within * abs(least)
    return [
        tile
        for tile in ranking.tiles
        if (top is not None and tile.rank <= top) or (within is not None and tile.value <= bar)
    ]


def flatten_tile(tile: Any, names: Names | None = None) -> dict[str, Any]:
    """Return a tile with a tuner's names, its block shape split into separate sizes.

    Raises `ConfigError` for a tile that is not a mapping, and for `names` that do not fit.
    """
    if not isinstance(tile, Mapping):
        raise ConfigError(f"tile {tile!r:.60}: must be a mapping of names to sizes")
    names = {} if names is None else names
    if missing := [name for name in names if name not in tile]:
        raise ConfigError(f"names: {unknown('size', missing[0], tile)}")
    flattened: dict[str, Any] = {}
    for name, size in tile.items():
        shape = isinstance(size, list | tuple)
        renamed = names.get(name, BLOCK_SIZE_NAMES[: len(size)] if shape and name == BLOCK_SHAPE_NAME else name)
        if shape == isinstance(renamed, str) or (shape and len(size) != len(renamed)):
            raise ConfigError(f"names: {name}={size!r}: cannot be renamed to {renamed!r}")
        flattened |= dict(zip(renamed, size, strict=True)) if shape else {str(renamed): size}
    return flattened
