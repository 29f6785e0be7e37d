"""Write sizes for PPCG's option ``--sizes``: an isl union map from kernels to tuples of sizes, outermost loop first."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError, unknown
from rdmodel.integrations.candidates import BLOCK_SHAPE_NAME, Source, Tiles, ranking_of, select_tiles

MAX_DIMENSIONS = {"tile": None, "block": 3, "grid": 2}
"""Limit on the dimensions of each of PPCG's spaces; None = no limit."""


def sizes(
    best: Source | Mapping[str, Any],
    *,
    tile: Sequence[str] = (),
    block: Sequence[str] = (),
    grid: Sequence[str] = (),
    kernel: int = 0,
    tiles: Tiles = None,
    **options: Any,
) -> str:
    """Return the argument of ``ppcg --sizes=``: ``{ kernel[0] -> tile[16, 32]; kernel[0] -> block[8, 32] }``.

    Parameters
    ----------
    best
        A tile; a ranking, whose best tile is taken; or a function that makes the trace of a tile, with `tiles` to rank.
    tile, block, grid
        Names of sizes in the tile for each of PPCG's spaces, from the outermost loop to the innermost. Without names
        for `block`, the tile's ``block``, which has x first, is taken in reverse order.
    kernel
        Number of the kernel in the program that PPCG generates.
    tiles
        Tiles to rank, if `best` is a function.
    options
        Options of `rdmodel.rank_tiles`, if `best` is a function.

    Raises
    ------
    ConfigError
        If the tile lacks a name, if a size is not a positive whole number, if a space has more dimensions than PPCG
        allows (3 for a block, 2 for a grid), or if there are no sizes at all.
    """
    chosen = best if isinstance(best, Mapping) else select_tiles(ranking_of(best, tiles, options), 1, None)[0].tile
    if not isinstance(chosen, Mapping):
        raise ConfigError(f"tile {chosen!r:.60}: must be a mapping of names to sizes")
    check_int("kernel", kernel, 0)
    spaces = {"tile": _values(chosen, tile), "block": _values(chosen, block), "grid": _values(chosen, grid)}
    if not block and isinstance(chosen.get(BLOCK_SHAPE_NAME), list | tuple):
        spaces["block"] = [(BLOCK_SHAPE_NAME, size) for size in reversed(chosen[BLOCK_SHAPE_NAME])]
    parts = [f"kernel[{kernel}] -> {_tuple(space, values)}" for space, values in spaces.items() if values]
    if not parts:
        raise ConfigError(f"tile, block, grid: name at least one of {', '.join(chosen)}")
    return _union(parts)


def join(*arguments: str) -> str:
    """Join the arguments of several kernels into one."""
    parts = [part.strip() for text in arguments for part in text.strip(" {}").split(";") if part.strip()]
    return _union(parts)


def _values(chosen: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    if isinstance(names, str):
        raise ConfigError(f"{names!r}: must be a list of names")
    for name in names:
        if name not in chosen:
            raise ConfigError(unknown("size", name, chosen))
    return [(name, chosen[name]) for name in names]


def _tuple(space: str, values: Sequence[tuple[str, Any]]) -> str:
    limit = MAX_DIMENSIONS[space]
    if limit is not None and len(values) > limit:
        raise ConfigError(f"{space}: {len(values)} sizes; PPCG has at most {limit}")
    plain = []
    for name, value in values:
        # Integers of other libraries, such as NumPy's, are accepted, too.
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        size = operator.index(value) if whole else value
        check_int(name, size, 1)
        plain.append(str(size))
    return f"{space}[{', '.join(plain)}]"


def _union(parts: Sequence[str]) -> str:
    return "{ " + "; ".join(parts) + " }"
