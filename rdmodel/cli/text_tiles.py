"""A ranking of tiles as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.cli.text import table
from rdmodel.tiling.values import tile_size_text, tile_text

UNITS: Mapping[str, str] = {
    "dram_bytes": "DRAM bytes",
    "l2_bytes": "L2 bytes",
    "miss_rate": "L1 miss rate",
    "time": "cycles",
}
"""What the numbers of an objective are called."""

Plain = Mapping[str, Any]


def ranking(plain: Plain, top: int) -> str:
    """Return the best `top` tiles of what `Ranking.to_dict` returns, and what became of the others."""
    tiles, unit = plain["tiles"], UNITS.get(plain["objective"], str(plain["objective"]))
    shown = tiles[:top]
    names = list(sizes(shown[0]["tile"]))
    head = ["  rank", *names, unit, "at least", "at most", "L1 miss rate", ""]
    rows = [head, *(_row(one, plain["objective"]) for one in shown)]
    right = range(len(head) - 1)
    lines = [
        f"{plain['kernel']} on {plain['gpu']}: {_tiles(len(tiles))} by {unit}, least first ({plain['effort']})",
        "",
        table(rows, right),
    ]
    return "\n".join([*lines, *_rest(plain, len(tiles) - len(shown))])


def sizes(tile: Plain) -> dict[str, str]:
    """Return the sizes of a tile by name, as people write them."""
    return {name: tile_size_text(size) for name, size in tile.items()}


def _row(one: Plain, objective: str) -> list[str]:
    numbers = [_number(one[name], objective) for name in ("value", "low", "high")]
    notes = "given up early" if one["pruned"] else "as good as the best" if one["tied"] and one["rank"] > 1 else ""
    return [str(one["rank"]), *sizes(one["tile"]).values(), *numbers, f"{100 * one['miss_rate']:.2f} %", notes]


def _number(value: float, objective: str) -> str:
    return f"{100 * value:.2f} %" if objective == "miss_rate" else f"{value:,.0f}"


def _tiles(count: int, more: str = "") -> str:
    return f"{count:,} {more}{'tile' if count == 1 else 'tiles'}"


def _rest(plain: Plain, hidden: int) -> list[str]:
    """Return lines about tiles that are not in the table."""
    lines = []
    pruned = sum(one["pruned"] is not None for one in plain["tiles"])
    if hidden:
        given_up = f"; {pruned} {'was' if pruned == 1 else 'were'} given up early" if pruned else ""
        lines.append(f"{_tiles(hidden, 'more ')}{given_up}")
    lines += [f"cannot run: {tile_text(one['tile'])}: {one['reason']}" for one in plain["infeasible"]]
    return ["", *lines] if lines else []
