"""Draw lines and bars on the axes of matplotlib, which is imported when something is drawn (extra ``plot``).

Texts may come from files: they are shown as they are, never read as formulas, and no legend leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp
from typing import TYPE_CHECKING, Any

from rdmodel.common.text import visible_text
from rdmodel.errors import ConfigError, RdmodelError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUP_WIDTH = 0.8
"""Width of a group of bars; the distance of groups is 1."""

LEGEND_ROOM = 6
"""Number of series up to which the legend lies within the axes."""


def load_matplotlib() -> Any:
    """Import matplotlib; raise `RdmodelError` if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise RdmodelError("plots need matplotlib: pip install 'rdmodel[plot]'") from None
    return matplotlib


def given_or_new(ax: Axes | None) -> Axes:
    """Return axes, or those of a new figure of pyplot if there are none."""
    load_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, new = pyplot.subplots(layout="constrained")
    return new


def literal(text: str) -> str:
    """Return a text that matplotlib draws as it is."""
    visible = visible_text(text).replace("$", r"\$")
    # Legends leave out labels that begin with an underscore.
    return f" {visible}" if visible.startswith("_") else visible


def draw_shares(ax: Axes, names: Sequence[str], values: Sequence[float], label: str) -> None:
    """Draw named numbers as horizontal bars, from top to bottom, with their values beside them."""
    bars = ax.barh(range(len(names)), list(values))
    ax.set_yticks(range(len(names)), [literal(name) for name in names])
    ax.invert_yaxis()
    ax.bar_label(bars, fmt="%.4g", padding=3)
    ax.margins(x=0.15)
    ax.set_xlabel(label)


def draw_groups(
    ax: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    label: str,
    *,
    turned_from: int = 5,
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] | None = None,
    colours: Mapping[str, Any] | None = None,
) -> None:
    """Draw a group of bars for each name in `groups`, with one bar of each series; None leaves a gap.

    From `turned_from` groups on, their names stand upright. `intervals` has the ends of an interval for each bar, or
    None for one that has none. `colours` has the colour of each series; by default, they are those of `series_colour`.
    """
    width = GROUP_WIDTH / max(1, len(series))
    for number, (name, heights) in enumerate(series.items()):
        drawn = [(at, height) for at, height in enumerate(heights) if height is not None]
        places = [at - GROUP_WIDTH / 2 + width * (number + 0.5) for at, _ in drawn]
        colour = series_colour(number) if colours is None else colours[name]
        ax.bar(places, [height for _, height in drawn], width=width, label=literal(name), color=colour)
        for place, (at, _) in zip(places, drawn, strict=True):
            if intervals is not None and (ends := intervals[name][at]) is not None:
                ax.plot([place, place], ends, color="0.2", linewidth=0.8)
    names = [literal(name) for name in groups]
    ax.set_xticks(range(len(groups)), names, rotation=90 if len(groups) >= turned_from else 0)
    ax.set(ylabel=label, xlim=(-0.5, len(groups) - 0.5))
    add_legend(ax, len(series))


def draw_lines(ax: Axes, xs: Sequence[float], series: Mapping[str, Sequence[float | None]], label: str) -> None:
    """Draw a line with marks for each series over `xs`; None leaves a gap. Powers of two have a logarithmic axis."""
    for number, (name, ys) in enumerate(series.items()):
        drawn = [(x, y) for x, y in sorted(zip(xs, ys, strict=True)) if y is not None]
        ax.plot(
            [x for x, _ in drawn],
            [y for _, y in drawn],
            marker="o",
            label=literal(name),
            color=series_colour(number),
        )
    if len(xs) > 1 and all(x > 0 and frexp(x)[0] == 0.5 for x in xs):
        ax.set_xscale("log", base=2)
        ax.set_xticks(list(xs), [f"{x:,}" for x in xs])
        ax.minorticks_off()
    ax.set(ylabel=label, ylim=(0, None))
    add_legend(ax, len(series))


def draw_steps(ax: Axes, sizes: Sequence[int], ratios: Sequence[float]) -> None:
    """Draw a function of sizes that stays the same until the next size, with a logarithmic axis."""
    ax.step(sizes, ratios, where="post", marker=".")
    if all(size > 0 for size in sizes):
        ax.set_xscale("log", base=2)
    ax.set_ylim(0, 1.02)


def add_legend(ax: Axes, series: int) -> None:
    """Add a legend if there are several series, beside the axes if these are many."""
    if series > LEGEND_ROOM:
        ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    elif series > 1:
        ax.legend(frameon=False)


def series_colour(number: int) -> Any:
    """Return one of twenty distinguishable colours, the strong ones first."""
    from matplotlib import colormaps

    return colormaps["tab20"]((2 * number) % 20 + (number // 10) % 2)


def nothing_to_draw(result: object, reason: str) -> ConfigError:
    """Return the error for a result without anything to draw."""
    return ConfigError(f"{type(result).__name__}: there is nothing to draw; {reason}")
