"""A ranking of tiles as a heat map in a file; needs matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.plots.charts import check_path, figure
from rdmodel.tiling.values import Ranking, tile_size_text

MOST_PANELS = 16
"""Parts of a heat map side by side; more could not be read."""

MOST_WRITTEN = 10
"""Columns of a panel up to which numbers stand in the cells."""

Size = Any


def heat_map(ranking: Ranking | Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Draw how many times the best tile's value the others have into a file: a cell for each tile.

    `ranking` is a `Ranking`, or what its `to_dict` returns.

    The last two names that vary are across and upwards; a panel stands for each choice of the others. The best tile has
    a frame, tiles that cannot run a cross. The same ranking gives the same file. Raises `ConfigError` for tiles that
    are not sizes by name, where there is nothing to draw or more than 16 panels, and what `check_path` raises.
    """
    check_path(path)
    plain = ranking.to_dict() if isinstance(ranking, Ranking) else ranking
    ran, could_not = plain["tiles"], plain["infeasible"]
    tiles = [one["tile"] for one in (*ran, *could_not)]
    if not ran or not all(isinstance(tile, Mapping) and tile for tile in tiles):
        raise ConfigError("ranking: there is nothing to draw; a heat map is of sizes by name")
    try:
        grid = _Grid.of(tiles)
    except TypeError:
        raise ConfigError("ranking: sizes have to be numbers, texts, or shapes such as [32, 8]") from None
    if len(grid.panels) > MOST_PANELS:
        raise ConfigError(f"ranking: has {len(grid.panels)} panels; a heat map has at most {MOST_PANELS}")
    least = ran[0]["value"]
    times = {grid.place(one["tile"]): one["value"] / least if least > 0 else 1 + one["value"] - least for one in ran}
    crosses = {grid.place(one["tile"]) for one in could_not}
    best = grid.place(ran[0]["tile"])
    width, height = 1.0 + 0.55 * len(grid.columns), max(1.9, 1.1 + 0.4 * len(grid.rows))
    with figure(path, (1.0 + width * len(grid.panels), height), len(grid.panels)) as axes:
        panels = list(np.atleast_1d(axes))
        for number, axis in enumerate(panels):
            drawn = _draw(axis, grid, number, times, max(times.values()))
            _mark(axis, grid, number, crosses, best)
        top = max(times.values())
        marks = [top ** (part / 3) for part in range(4)] if top > 1 else [1.0]
        bar = panels[-1].figure.colorbar(drawn, ax=panels, ticks=marks, format="%.3g")
        bar.ax.minorticks_off()
        bar.set_label(f"{plain['objective']}, times the best", fontsize=7)
        bar.ax.tick_params(labelsize=7)


Place = tuple[int, int, int]
"""Panel, row and column."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Which sizes are across, upwards, and in which panel."""

    across: str
    upwards: str | None
    others: tuple[str, ...]
    columns: list[Size]
    rows: list[Size]
    panels: list[tuple[Size, ...]]

    @classmethod
    def of(cls, tiles: Iterable[Mapping[str, Size]]) -> _Grid:
        sizes = _sizes_by_name(tiles)
        names = [name for name, found in sizes.items() if len(found) > 1] or list(sizes)[-1:]
        *others, upwards, across = [None, *names] if len(names) == 1 else names
        assert across is not None
        outer = tuple(name for name in others if name is not None)
        panels = list(product(*(sizes[name] for name in outer)))
        return cls(across, upwards, outer, sizes[across], sizes[upwards] if upwards else [None], panels)

    def place(self, tile: Mapping[str, Size]) -> Place:
        panel = self.panels.index(tuple(_plain(tile.get(name)) for name in self.others))
        row = self.rows.index(_plain(tile.get(self.upwards))) if self.upwards else 0
        return panel, row, self.columns.index(_plain(tile.get(self.across)))


def _sizes_by_name(tiles: Iterable[Mapping[str, Size]]) -> dict[str, list[Size]]:
    """Return the sizes that each name has in the tiles, ascending where they are numbers."""
    every = list(tiles)
    names = dict.fromkeys(name for tile in every for name in tile)
    found = {name: list(dict.fromkeys(_plain(tile.get(name)) for tile in every)) for name in names}
    return {name: sorted(sizes) if all(type(one) is int for one in sizes) else sizes for name, sizes in found.items()}


def _plain(size: Size) -> Size:
    """Return a size that can be looked up: a block's shape is a list when it comes from JSON."""
    return tuple(size) if isinstance(size, list) else size


def _draw(axis: Any, grid: _Grid, number: int, times: Mapping[Place, float], worst: float) -> Any:
    from matplotlib.colors import LogNorm

    cells = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for (panel, row, column), value in times.items():
        if panel == number:
            cells[row, column] = value
    # A range of no width has no colours.
    image = axis.pcolormesh(cells, cmap="viridis_r", norm=LogNorm(1.0, max(worst, 1.001)), edgecolors="white")
    title = ", ".join(
        f"{name}={tile_size_text(size)}" for name, size in zip(grid.others, grid.panels[number], strict=True)
    )
    axis.set_title(title, fontsize=8)
    _label(axis.set_xticks, grid.columns)
    _label(axis.set_yticks, grid.rows)
    axis.set_xlabel(grid.across, fontsize=8)
    axis.set_ylabel(grid.upwards or "", fontsize=8)
    if len(grid.columns) <= MOST_WRITTEN:
        for row, column in zip(*np.nonzero(~np.isnan(cells)), strict=True):
            dark = cells[row, column] > worst**0.5
            text = f"{cells[row, column]:.2f}"
            colour = "white" if dark else "black"
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6, color=colour)
    return image


def _label(set_ticks: Any, sizes: Sequence[Size]) -> None:
    names = ["" if size is None else tile_size_text(size) for size in sizes]
    set_ticks([at + 0.5 for at in range(len(sizes))], names, fontsize=7)


def _mark(axis: Any, grid: _Grid, number: int, crosses: Iterable[Place], best: Place) -> None:
    from matplotlib.patches import Rectangle

    for panel, row, column in sorted(crosses):
        if panel == number:
            axis.plot(column + 0.5, row + 0.5, marker="x", color="0.5")
    panel, row, column = best
    if panel == number:
        axis.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor="red", linewidth=1.5, zorder=3))
