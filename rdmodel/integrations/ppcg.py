"""Sizes for PPCG's option ``--sizes``: an isl union map from kernels to tuples of sizes, outermost loop first."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError, unknown
from rdmodel.integrations.candidates import BLOCK, Source, Tiles, kept, ranking_of

MOST = {"tile": None, "block": 3, "grid": 2}
"""Spaces of PPCG, and the dimensions that they may have."""


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
    """Return what follows ``ppcg --sizes=``, such as ``{ kernel[0] -> tile[16, 32]; kernel[0] -> block[8, 32] }``.

    `best` is a tile, or a ranking whose best tile is taken; or a function that makes a trace of a tile, with `tiles`
    and `options` of `rdmodel.rank_tiles`. `tile`, `block` and `grid` are names of sizes in the tile, from the outermost
    loop to the innermost; without names for the block, a tile's ``block``, which has x first, is taken, turned round.
    `kernel` is the number of the kernel in the program that PPCG generates.

    Raises `ConfigError` for a name that the tile does not have, for sizes that are not whole and positive, for more
    dimensions than PPCG has (a block has 3, a grid 2), and where there are no sizes at all.
    """
    found = best if isinstance(best, Mapping) else kept(ranking_of(best, tiles, options), 1, None)[0].tile
    if not isinstance(found, Mapping):
        raise ConfigError(f"tile {found!r:.60}: must be a mapping of names to sizes")
    check_int("kernel", kernel, 0)
    spaces = {"tile": _values(found, tile), "block": _values(found, block), "grid": _values(found, grid)}
    if not block and isinstance(found.get(BLOCK), list | tuple):
        spaces["block"] = [(BLOCK, size) for size in reversed(found[BLOCK])]
    parts = [f"kernel[{kernel}] -> {_tuple(space, values)}" for space, values in spaces.items() if values]
    if not parts:
        raise ConfigError(f"tile, block, grid: name at least one of {', '.join(found)}")
    return _union(parts)


def join(*several: str) -> str:
    """Return the sizes of several kernels as one argument."""
    parts = [part.strip() for text in several for part in text.strip(" {}").split(";") if part.strip()]
    return _union(parts)


def _values(found: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    if isinstance(names, str):
        raise ConfigError(f"{names!r}: must be a list of names")
    for name in names:
        if name not in found:
            raise ConfigError(unknown("size", name, found))
    return [(name, found[name]) for name in names]


def _tuple(space: str, values: Sequence[tuple[str, Any]]) -> str:
    most = MOST[space]
    if most is not None and len(values) > most:
        raise ConfigError(f"{space}: {len(values)} sizes; PPCG has at most {most}")
    plain = []
    for name, value in values:
        # Sizes of other kinds than Python's, such as NumPy's, are whole numbers too.
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        size = operator.index(value) if whole else value
        check_int(name, size, 1)
        plain.append(str(size))
    return f"{space}[{', '.join(plain)}]"


def _union(parts: Sequence[str]) -> str:
    return "{ " + "; ".join(parts) + " }"
