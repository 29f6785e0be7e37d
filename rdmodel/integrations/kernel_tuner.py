"""Restrict Kernel Tuner to the tiles that are predicted to be good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.integrations.candidates import Names, Source, Tiles, flatten_tile, ranking_of, select_tiles


def restrictions(
    ranking: Source,
    tune_params: Mapping[str, Iterable[Any]],
    *,
    tiles: Tiles = None,
    top: int | None = None,
    within: float | None = None,
    names: Names | None = None,
    **options: Any,
) -> Callable[..., bool]:
    """Return a restriction for ``tune_kernel(..., tune_params, restrictions=...)``, alone or in a list with others.

    The restriction accepts a configuration as one mapping, as keywords, or as values in the order of `tune_params`.
    Parameters that are not sizes of the tiles are unrestricted.

    Parameters
    ----------
    ranking
        The result of `rdmodel.rank_tiles`, or a function that makes the trace of a tile; it needs `tiles`.
    tune_params
        Values of all parameters by name, as for ``tune_kernel``.
    tiles
        Tiles to rank, if `ranking` is a function. Tiles that were not ranked are rejected.
    top
        Keep tiles with ranks up to `top`.
    within
        Keep tiles at most this share (0.05: 5 %) above the best one. Without `top` and `within`, keep all tiles that
        can run.
    names
        Names in `tune_params` by names in a tile. The default for a tile's ``block`` is ``block_size_x``, ... .
    options
        Options of `rank_tiles`, if `ranking` is a function.

    Raises
    ------
    ConfigError
        If a size of the tiles is not in `tune_params`, or if no configuration would be left.
    """
    chosen = [
        flatten_tile(ranked.tile, names) for ranked in select_tiles(ranking_of(ranking, tiles, options), top, within)
    ]
    order = tuple(tune_params)
    sizes = tuple(chosen[0])
    for tile in chosen:
        if tuple(tile) != sizes:
            raise ConfigError(f"tiles: one has {', '.join(tile)}, the first {', '.join(sizes)}: must be equal")
    for name in sizes:
        if name not in order:
            raise ConfigError(f"tune_params: {unknown('size of a tile', name, order)}")
    good = {tuple(tile.values()) for tile in chosen}
    choices = [set(tune_params[name]) for name in sizes]
    if not any(all(size in choice for size, choice in zip(tile, choices, strict=True)) for tile in good):
        raise ConfigError(f"tune_params: these values cannot form any of the {len(good)} selected tiles")

    # Not a lambda: Kernel Tuner parses the source of functions that contain one.
    def keep(*values: Any, **named: Any) -> bool:
        if len(values) == 1 and isinstance(values[0], Mapping):
            named = dict(values[0])
        elif values:
            named = dict(zip(order, values, strict=True))
        return tuple(named[name] for name in sizes) in good

    return keep
