"""Format a ranking of tiles as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.cli.text_tables import format_gpu, format_table
from rdmodel.common.text import counted
from rdmodel.tiling.values import tile_size_text, tile_text

OBJECTIVE_LABELS: Mapping[str, str] = {
    "dram_bytes": "DRAM bytes",
    "l2_bytes": "L2 bytes",
    "miss_rate": "L1 miss rate",
    "time": "milliseconds",
}
"""Column heads of the objectives."""

Plain = Mapping[str, Any]
"""A ranking, or a part of one, as `Ranking.to_dict` returns it."""


def format_ranking(plain: Plain, top: int) -> str:
    """Return a table of the best `top` tiles of a ranking, and lines about the others."""
    tiles = plain["tiles"]
    name, per, units = str(plain["objective"]).partition(" per ")
    unit = OBJECTIVE_LABELS.get(name, name) + per + units
    best = tiles[:top]
    names = list(format_sizes(best[0]["tile"]))
    head = ["  rank", *names, unit, "at least", "at most", "L1 miss rate", ""]
    rows = [head, *(_tile_row(tile, name) for tile in best)]
    right = range(len(head) - 1)
    lines = [
        f"{plain['kernel']} on {format_gpu(plain['gpu'])}: {counted(len(tiles), 'tile')} by {unit}, "
        f"least first ({plain['effort']})",
        "",
        format_table(rows, right),
    ]
    return "\n".join([*lines, *_format_rest(plain, len(tiles) - len(best))])


def format_sizes(tile: Plain) -> dict[str, str]:
    """Return the sizes of a tile by name, as the command line takes them."""
    return {name: tile_size_text(size) for name, size in tile.items()}


def _tile_row(tile: Plain, objective: str) -> list[str]:
    numbers = [_format_value(tile[name], objective) for name in ("value", "low", "high")]
    tied = tile["tied"] and tile["rank"] > 1
    rough = "not estimated" if _is_expected(tile) else "rough estimate"
    note = rough if tile["pruned"] else "as good as the best" if tied else ""
    sizes = format_sizes(tile["tile"]).values()
    return [str(tile["rank"]), *sizes, *numbers, _format_miss_rate(tile["miss_rate"]), note]


def _format_value(value: float, objective: str) -> str:
    if objective == "miss_rate":
        return f"{100 * value:.2f} %"
    return f"{value:#.4g}" if objective == "time" and value < 1000 else f"{value:,.0f}"


def _format_rest(plain: Plain, hidden: int) -> list[str]:
    """Return lines about the tiles that are not in the table."""
    lines = []
    expected = sum(map(_is_expected, plain["tiles"]))
    pruned = sum(tile["pruned"] is not None for tile in plain["tiles"]) - expected
    if hidden:
        fates = _format_fate(pruned, "estimated roughly") + _format_fate(expected, "not estimated")
        lines.append(counted(hidden, "more tile") + fates)
    lines += [f"cannot run: {tile_text(tile['tile'])}: {tile['reason']}" for tile in plain["infeasible"]]
    return ["", *lines] if lines else []


def _format_fate(count: int, fate: str) -> str:
    return f"; {count} {'was' if count == 1 else 'were'} {fate}" if count else ""


def _is_expected(tile: Plain) -> bool:
    """Return whether other tiles told the value of a tile, which was not estimated."""
    return tile["pruned"] is not None and tile["transactions"] is None


def _format_miss_rate(rate: float | None) -> str:
    """Return a miss rate in percent; a dash for a tile without loads or an estimate."""
    return "-" if rate is None else f"{100 * rate:.2f} %"
