"""What the integrations need of a ranking: the one place that knows its attributes, and how tiles are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rdmodel.common.checks import check_int, check_number
from rdmodel.errors import ConfigError, unknown
from rdmodel.tiling.rank import rank_tiles
from rdmodel.tiling.values import RankedTile, Ranking

BLOCK = "block"
BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")
"""What the three numbers of a block shape are called in a tuner, unless said otherwise."""

Names = Mapping[str, str | Sequence[str]]
"""Names of a tuner by those in a tile; those of a block shape as a list, x first."""


Source = Ranking | Callable[[Any], Any]
"""A ranking, or what makes a trace of a tile, with the tiles to rank beside it."""

Tiles = Iterable[Any] | Mapping[str, Iterable[Any]] | None


def rank(
    make_trace: Callable[[Any], Any], tiles: Iterable[Any] | Mapping[str, Iterable[Any]], **options: Any
) -> Ranking:
    """Return ``rdmodel.rank_tiles(make_trace, tiles, **options)``."""
    return rank_tiles(make_trace, tiles, **options)


def ranking_of(source: Source, tiles: Tiles, options: Mapping[str, Any]) -> Ranking:
    """Return a ranking that was given, or rank `tiles`; raise `ConfigError` where it is neither."""
    if callable(source):
        if tiles is None:
            raise ConfigError("tiles: are needed beside a function that makes their traces")
        return rank(source, tiles, **options)
    if tiles is not None or options:
        given = ", ".join([*(["tiles"] if tiles is not None else []), *options])
        raise ConfigError(f"{given}: the tiles are ranked already")
    if not hasattr(source, "tiles"):
        raise ConfigError(f"ranking={source!r:.60}: must be a ranking, or a function that makes a trace of a tile")
    return source


def kept(ranking: Ranking, top: int | None, within: float | None) -> list[RankedTile]:
    """Return the tiles whose rank is at most `top`, and those at most the share `within` above the best, best first.

    None and None: all that can run. Raises `ConfigError` if no tile can run.
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
        one
        for one in ranking.tiles
        if (top is not None and one.rank <= top) or (within is not None and one.value <= bar)
    ]


def flat(tile: Any, names: Names | None = None) -> dict[str, Any]:
    """Return a tile by a tuner's names, a block shape taken apart.

    Raises `ConfigError` for a tile that is no mapping, and for `names` that do not fit.
    """
    if not isinstance(tile, Mapping):
        raise ConfigError(f"tile {tile!r:.60}: must be a mapping of names to sizes")
    names = {} if names is None else names
    if strange := [name for name in names if name not in tile]:
        raise ConfigError(f"names: {unknown('size', strange[0], tile)}")
    found: dict[str, Any] = {}
    for name, size in tile.items():
        shape = isinstance(size, list | tuple)
        theirs = names.get(name, BLOCK_SIZES[: len(size)] if shape and name == BLOCK else name)
        if shape == isinstance(theirs, str) or (shape and len(size) != len(theirs)):
            raise ConfigError(f"names: {name}={size!r}: cannot be called {theirs!r}")
        found |= dict(zip(theirs, size, strict=True)) if shape else {str(theirs): size}
    return found
