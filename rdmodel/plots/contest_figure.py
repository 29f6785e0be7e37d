"""Draw a contest of policies into a file: speed and L1 hit rate; requires matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rdmodel.common.axes import draw_groups, literal, series_colour
from rdmodel.plots.charts import check_path, figure

if TYPE_CHECKING:
    from rdmodel.contests.contest import Contest

MAX_BARS = 60
"""Number of bars up to which a figure has bars. A figure with more runs has a table of coloured numbers."""

FONT = 7
"""Size of the names of kernels and of titles, in points; numbers in cells are smaller."""

FAR_SPEED = 4.0
"""Relative IPC from which, and below whose inverse, colours no longer change."""

Rows = Mapping[str, Sequence[float | None]]
"""Numbers by the name of a combination, one for each kernel; None where a run is missing."""


def contest_figure(contest: Contest, path: str | os.PathLike[str]) -> None:
    """Draw the IPC relative to no policies, and below it the L1 hit rate, under every combination into a file.

    Up to 60 bars are drawn as bars, in a group for each kernel. More are drawn as a table of coloured numbers: the
    combinations are its rows, the kernels its columns. If several kernels are complete, a last group or column shows
    their means: geometric ones of the IPC, arithmetic ones of the hit rates. A missing run leaves a gap. Equal contests
    give equal files.

    Raises `ConfigError` if there is nothing to draw, and any error of `charts.check_path`.
    """
    groups = len(contest.kernels) + _has_means(contest)
    if groups * (len(contest.names) - 1) <= MAX_BARS:
        _draw_bars(contest, groups, path)
    else:
        _draw_tables(contest, path)


def _has_means(contest: Contest) -> bool:
    return sum(contest.complete) > 1


def _draw_bars(contest: Contest, groups: int, path: str | os.PathLike[str]) -> None:
    check_path(path)
    inches = max(4.5, 1.5 + 0.09 * groups * (len(contest.names) + 1))
    with figure(path, (inches, 5.5), 2, stacked=True) as (above, below):
        contest.plot(above)
        above.tick_params(axis="x", labelbottom=False)
        if above.get_legend() is not None:
            above.get_legend().remove()
        # The bars of a combination have the same colour in both panels, of which only one has the baseline.
        baseline, *others = contest.names
        colours = {baseline: "0.6", **{name: series_colour(number) for number, name in enumerate(others)}}
        draw_groups(below, *_hit_rates(contest), "L1 hit rate (%)", colours=colours)
        below.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
        below.set_ylim(0, 100)
        below.tick_params(axis="x", labelsize=FONT)


def _hit_rates(contest: Contest) -> tuple[list[str], dict[str, list[float | None]]]:
    """Return the names of the kernels and, by combination, their hit rates in percent, with the means at the end."""
    means = _has_means(contest)
    rows = {name: _percent([*contest.hit_rate(name), *[contest.mean_hit_rate(name)] * means]) for name in contest.names}
    return [*contest.kernels, *["mean"] * means], rows


def _percent(shares: Sequence[float | None]) -> list[float | None]:
    return [None if share is None else 100 * share for share in shares]


def _draw_tables(contest: Contest, path: str | os.PathLike[str]) -> None:
    means = _has_means(contest)
    speeds = {name: [*contest.relative_ipc(name), *[contest.geometric_mean(name)] * means] for name in contest.names}
    kernels, rates = _hit_rates(contest)
    tables_figure(kernels, speeds, rates, path, means=means)


def tables_figure(
    kernels: Sequence[str], speeds: Rows, rates: Rows, path: str | os.PathLike[str], *, means: bool
) -> None:
    """Draw tables of coloured numbers into a file: IPC relative to no policies, and below it L1 hit rates in percent.

    `speeds` and `rates` have a row for each combination, with a number for each of `kernels`; with `means`, the last of
    these are means. Equal numbers give equal files. Raises any error of `charts.check_path`.
    """
    from matplotlib.colors import LogNorm, Normalize

    check_path(path)
    size = 1.5 + 0.42 * len(kernels), 2 * (0.9 + 0.17 * len(speeds))
    with figure(path, size, 2, stacked=True) as (above, below):
        _draw_table(above, speeds, "PuOr", LogNorm(1 / FAR_SPEED, FAR_SPEED), "{:.2f}".format)
        _draw_table(below, rates, "viridis", Normalize(0, 100), "{:.0f}".format)
        above.set_title("IPC relative to none; in the last column the geometric mean" if means else
                        "IPC relative to none", fontsize=FONT, loc="left")  # fmt: skip
        below.set_title("L1 hit rate (% of loads)", fontsize=FONT, loc="left")
        names = [literal(name) for name in kernels]
        for axis in (above, below):
            axis.set_xticks([at + 0.5 for at in range(len(kernels))], names, rotation=90, fontsize=FONT)
        above.tick_params(axis="x", labelbottom=False)


def _draw_table(axis: Any, rows: Rows, colours: str, scale: Any, text: Callable[[float], str]) -> None:
    """Draw rows of numbers, each in a cell whose colour shows it, from top to bottom."""
    cells = np.array([[np.nan if value is None else value for value in row] for row in rows.values()])
    image = axis.pcolormesh(cells, cmap=colours, norm=scale, edgecolors="white", linewidth=0.3)
    axis.set_yticks([at + 0.5 for at in range(len(rows))], [literal(name) for name in rows], fontsize=FONT)
    axis.invert_yaxis()
    axis.tick_params(length=0)
    for row, column in zip(*np.nonzero(~np.isnan(cells)), strict=True):
        red, green, blue, _ = image.cmap(scale(cells[row, column]))
        colour = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else "black"
        where = (column + 0.5, row + 0.5)
        axis.text(*where, text(cells[row, column]), ha="center", va="center", fontsize=FONT - 2, color=colour)
