"""Restrictions for Kernel Tuner: only the tiles that are predicted to be good are compiled and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.integrations.candidates import Names, Source, Tiles, flat, kept, ranking_of


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
    """Return what ``tune_kernel(..., tune_params, restrictions=...)`` takes, alone or in a list with others.

    Configurations are kept whose tile has at most the rank `top`, or is at most the share `within` (0.05: 5 %) above
    the best one; with neither, all that can run. Tiles that were not ranked are not kept. `ranking` is what
    `rdmodel.rank_tiles` returned; or a function that makes a trace of a tile, with `tiles` and `options` of
    `rank_tiles`. `names` are those in `tune_params` by those in a tile; a tile's ``block`` is ``block_size_x``, ... .
    Parameters of which a tile says nothing are free.

    The function takes a configuration as one mapping, as keywords, or as values in the order of `tune_params`.
    Raises `ConfigError` where a size of the tiles is not in `tune_params`, or no configuration would be left.
    """
    chosen = [flat(one.tile, names) for one in kept(ranking_of(ranking, tiles, options), top, within)]
    order = tuple(tune_params)
    sizes = tuple(chosen[0])
    for tile in chosen:
        if tuple(tile) != sizes:
            raise ConfigError(f"tiles: {', '.join(tile)}: the first has {', '.join(sizes)}")
    for name in sizes:
        if name not in order:
            raise ConfigError(f"tune_params: {unknown('size of a tile', name, order)}")
    good = {tuple(tile.values()) for tile in chosen}
    choices = [set(tune_params[name]) for name in sizes]
    if not any(all(size in choice for size, choice in zip(tile, choices, strict=True)) for tile in good):
        raise ConfigError(f"tune_params: none of the {len(good)} tiles that are kept can be made of these values")

    # Kernel Tuner takes functions apart that have a lambda in their source.
    def keep(*values: Any, **named: Any) -> bool:
        if len(values) == 1 and isinstance(values[0], Mapping):
            named = dict(values[0])
        elif values:
            named = dict(zip(order, values, strict=True))
        return tuple(named[name] for name in sizes) in good

    return keep
