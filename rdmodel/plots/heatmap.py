"""Draw a ranking of tiles as a heat map into a file; requires matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.plots.charts import check_path, figure
from rdmodel.tiling.values import Ranking, tile_size_text

MAX_PANELS = 16
"""Maximum number of panels side by side: more would be illegible."""

MAX_COLUMNS_WITH_NUMBERS = 10
"""Number of columns up to which the cells show their values."""

Size = Any
"""A number, a text, or a shape such as ``[32, 8]``."""


def heat_map(ranking: Ranking | Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Draw the value of every tile relative to the best one into a file, one cell per tile.

    `ranking` is a `Ranking` or its `to_dict`. The last two sizes that vary are the horizontal and the vertical axis;
    every combination of the others has a panel. The best tile has a frame, and a tile that cannot run has a cross.
    Equal rankings give equal files.

    Raises `ConfigError` if there is nothing to draw, if the tiles are not sizes by name, or if there would be more than
    16 panels. Raises any error of `check_path`.
    """
    check_path(path)
    plain = ranking.to_dict() if isinstance(ranking, Ranking) else ranking
    feasible, infeasible = plain["tiles"], plain["infeasible"]
    tiles = [entry["tile"] for entry in (*feasible, *infeasible)]
    if not feasible or not all(isinstance(tile, Mapping) and tile for tile in tiles):
        raise ConfigError("ranking: there is nothing to draw; a heat map needs tiles with sizes by name")
    try:
        grid = _Grid.of(tiles)
    except TypeError:
        raise ConfigError("ranking: sizes must be numbers, texts, or shapes such as [32, 8]") from None
    if len(grid.panels) > MAX_PANELS:
        raise ConfigError(f"ranking: has {len(grid.panels)} panels; a heat map has at most {MAX_PANELS}")
    least = feasible[0]["value"]
    times = {
        grid.cell_of(entry["tile"]): entry["value"] / least if least > 0 else 1 + entry["value"] - least
        for entry in feasible
    }
    crosses = {grid.cell_of(entry["tile"]) for entry in infeasible}
    best = grid.cell_of(feasible[0]["tile"])
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


Cell = tuple[int, int, int]
"""Position of a tile: panel, row and column."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The axes of a heat map: names and values of the sizes along columns, rows and panels."""

    across: str
    upwards: str | None
    others: tuple[str, ...]
    columns: list[Size]
    rows: list[Size]
    panels: list[tuple[Size, ...]]

    @classmethod
    def of(cls, tiles: Iterable[Mapping[str, Size]]) -> _Grid:
        sizes = _sizes_by_name(tiles)
        names = [name for name, values in sizes.items() if len(values) > 1] or list(sizes)[-1:]
        *others, upwards, across = [None, *names] if len(names) == 1 else names
        assert across is not None
        outer = tuple(name for name in others if name is not None)
        panels = list(product(*(sizes[name] for name in outer)))
        return cls(across, upwards, outer, sizes[across], sizes[upwards] if upwards else [None], panels)

    def cell_of(self, tile: Mapping[str, Size]) -> Cell:
        panel = self.panels.index(tuple(_hashable(tile.get(name)) for name in self.others))
        row = self.rows.index(_hashable(tile.get(self.upwards))) if self.upwards else 0
        return panel, row, self.columns.index(_hashable(tile.get(self.across)))


def _sizes_by_name(tiles: Iterable[Mapping[str, Size]]) -> dict[str, list[Size]]:
    """Return the values of every size in the tiles by name; numbers are in ascending order."""
    every = list(tiles)
    names = dict.fromkeys(name for tile in every for name in tile)
    values = {name: list(dict.fromkeys(_hashable(tile.get(name)) for tile in every)) for name in names}
    return {
        name: sorted(sizes) if all(type(size) is int for size in sizes) else sizes for name, sizes in values.items()
    }


def _hashable(size: Size) -> Size:
    """Return a size as a hashable value: the shape of a block from JSON is a list."""
    return tuple(size) if isinstance(size, list) else size


def _draw(axis: Any, grid: _Grid, number: int, times: Mapping[Cell, float], worst: float) -> Any:
    from matplotlib.colors import LogNorm

    cells = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for (panel, row, column), value in times.items():
        if panel == number:
            cells[row, column] = value
    # A range of no width would have no colours.
    image = axis.pcolormesh(cells, cmap="viridis_r", norm=LogNorm(1.0, max(worst, 1.001)), edgecolors="white")
    title = ", ".join(
        f"{name}={tile_size_text(size)}" for name, size in zip(grid.others, grid.panels[number], strict=True)
    )
    axis.set_title(title, fontsize=8)
    _label_axis(axis.set_xticks, grid.columns)
    _label_axis(axis.set_yticks, grid.rows)
    axis.set_xlabel(grid.across, fontsize=8)
    axis.set_ylabel(grid.upwards or "", fontsize=8)
    if len(grid.columns) <= MAX_COLUMNS_WITH_NUMBERS:
        for row, column in zip(*np.nonzero(~np.isnan(cells)), strict=True):
            dark = cells[row, column] > worst**0.5
            text = f"{cells[row, column]:.2f}"
            colour = "white" if dark else "black"
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6, color=colour)
    return image


def _label_axis(set_ticks: Any, sizes: Sequence[Size]) -> None:
    names = ["" if size is None else tile_size_text(size) for size in sizes]
    set_ticks([at + 0.5 for at in range(len(sizes))], names, fontsize=7)


def _mark(axis: Any, grid: _Grid, number: int, crosses: Iterable[Cell], best: Cell) -> None:
    from matplotlib.patches import Rectangle

    for panel, row, column in sorted(crosses):
        if panel == number:
            axis.plot(column + 0.5, row + 0.5, marker="x", color="0.5")
    panel, row, column = best
    if panel == number:
        axis.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor="red", linewidth=1.5, zorder=3))
