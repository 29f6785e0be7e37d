"""Draw the figures of a report that have axes: the miss-ratio curve, and the histogram of reuse distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

import numpy as np

from rdmodel.common.text import percent, size_text
from rdmodel.reports.drawing import FIGURE_WIDTH, LETTER_WIDTH, Point, box, draw_figure, label, line, mark, polyline
from rdmodel.reuse.histogram import Histogram, by_powers

LEFT, RIGHT, TOP, BOTTOM = 54.0, 16.0, 46.0, 46.0
"""Margins of the plane between the axes, in SVG units."""

HEIGHT = 270.0
"""Height of a figure with axes, in SVG units."""

POINTS_PER_DOUBLING = 8
"""Number of points of the curve between two powers of two."""

MARK_SHAPES = ("circle", "cross")
"""Shapes of the marks of the first and the second definition."""

Capacities = Mapping[str, int]
"""Capacities of caches in lines, by their labels."""


def draw_curve(
    ident: str, title: str, histogram: Histogram, line_bytes: int, caches: Capacities, rates: Mapping[str, float]
) -> Element:
    """Draw the miss-ratio curve and the capacities of `caches`, and mark predicted miss `rates` at the first cache."""
    curve = histogram.miss_ratio_curve(_sizes(histogram, caches))
    end = math.log2(curve.sizes[-1])
    plane = _Plane(end, 1.0)
    shapes = [*plane.grid(), *plane.sizes(line_bytes, curve.sizes[-1])]
    points: list[Point] = []
    for size, ratio in curve:
        x, y = plane.at(math.log2(size), ratio)
        # The ratio stays that of the smaller size until the larger one is reached.
        points += [(x, points[-1][1]), (x, y)] if points else [(x, y)]
    shapes += [*plane.caches(caches, math.log2), polyline(points, "curve")]
    first = math.log2(next(iter(caches.values())))
    lowest = math.inf
    for number, (name, rate) in sorted(enumerate(rates.items()), key=lambda item: item[1][1]):
        x, y = plane.at(first, rate)
        # Labels are placed upwards from the lowest mark, so that none covers the one below or the axis.
        lowest = min(y + 14, lowest - 14, HEIGHT - BOTTOM - 6)
        shapes += [mark(x, y, MARK_SHAPES[number % 2]), plane.beside(x, lowest, f"{name} {percent(rate, 1)}")]
    at_caches = ", ".join(f"{percent(curve.at(size), 1)} at the {name}" for name, size in caches.items())
    description = f"Falls from {percent(curve.miss_ratios[0], 1)} at one line; {at_caches}"
    return draw_figure(ident, title, description, HEIGHT, *shapes)


def draw_distances(ident: str, title: str, histogram: Histogram, caches: Capacities) -> Element:
    """Draw the shares of transactions with reuse distance 0, 1, 2 to 3, 4 to 7, ..., and of first touches."""
    rows, total = by_powers(histogram), histogram.total
    most = max((high.bit_length() for _, high, _ in rows), default=0) + 1
    shares = {high.bit_length(): n / total for _, high, n in rows}
    shares[most] = histogram.infinite / total
    top = next(part for part in (0.1, 0.25, 0.5, 1.0) if part >= max(shares.values()))
    plane = _Plane(most + 1, top)
    shapes = plane.grid()
    for bits, share in sorted(shares.items()):
        (x, y), (right, bottom) = plane.at(bits, share), plane.at(bits + 1, 0)
        shapes.append(box(x + 2, y, right - x - 4, bottom - y, "first" if bits == most else "bar"))
    every = 1 + most // 9
    for bits in range(0, most, every):
        x, y = plane.at(bits + 0.5, 0)
        shapes.append(label(x, y + 15, _short((1 << bits) // 2), "middle"))
    x, y = plane.at(most + 1, 0)
    shapes += [label(x, y + 32, "first touch", "end"), label(LEFT, y + 32, "reuse distance in lines, at least")]
    within = {name: size for name, size in caches.items() if _axis_position(size) <= most}
    shapes += plane.caches(within, _axis_position)
    parts = ", ".join(f"{percent(share, 1)} from {(1 << b) // 2:,}" for b, share in sorted(shares.items()) if b < most)
    parts = f"{parts}, " if parts else ""
    return draw_figure(ident, title, f"{parts}first touches {percent(shares[most], 1)}", HEIGHT, *shapes)


# ---- parts


class _Plane:
    """The plane between two axes: 0 to `end` to the right, 0 to `top` upwards."""

    def __init__(self, end: float, top: float) -> None:
        self._end, self._top = max(end, 1.0), top

    def at(self, x: float, y: float) -> Point:
        """Return the position of a point in the figure."""
        across = LEFT + (FIGURE_WIDTH - LEFT - RIGHT) * x / self._end
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / self._top

    def grid(self) -> list[Element]:
        """Return horizontal lines at quarters of the height, with their shares."""
        shapes = []
        for quarter in range(5):
            start, end = self.at(0, self._top * quarter / 4), self.at(self._end, self._top * quarter / 4)
            shapes.append(line(start, end, "grid" if quarter else "axis"))
            shapes.append(label(LEFT - 6, start[1] + 4, f"{100 * self._top * quarter / 4:g} %", "end"))
        return shapes

    def sizes(self, line_bytes: int, last: int) -> list[Element]:
        """Return the labels of the horizontal axis: cache sizes up to `last` lines."""
        whole = int(math.log2(last))
        shapes = []
        for power in range(0, whole + 1, 1 + whole // 6):
            x, y = self.at(power, 0)
            shapes += [line((x, y), (x, y + 4), "axis"), label(x, y + 17, size_text(line_bytes << power), "middle")]
        x, y = self.at(self._end, 0)
        return [*shapes, label(x, y + 36, "cache size", "end")]

    def caches(self, caches: Capacities, place: Callable[[int], float]) -> list[Element]:
        """Return a vertical line for each cache, with its label above; no two labels share a row."""
        shapes = []
        for number, (name, size) in enumerate(caches.items()):
            x, bottom = self.at(place(size), 0)
            top = TOP - 8 - 14 * (len(caches) - 1 - number)
            shapes.append(line((x, bottom), (x, top - 8), "cache" if number == 0 else "cache behind"))
            shapes.append(
                label(x - 4 if self._is_right(x) else x + 4, top, name, "end" if self._is_right(x) else "start")
            )
        return shapes

    def beside(self, x: float, y: float, text: str) -> Element:
        """Return a text to the right of a mark, or to the left if there is no room."""
        too_far_right = x + 10 + LETTER_WIDTH * len(text) > FIGURE_WIDTH
        return label(x - 7 if too_far_right else x + 7, y, text, "end" if too_far_right else "start")

    @staticmethod
    def _is_right(x: float) -> bool:
        return x > 0.7 * FIGURE_WIDTH


def _sizes(histogram: Histogram, caches: Capacities) -> list[int]:
    """Return the sizes in lines at which the curve is drawn, including those of the caches."""
    end = max(int(histogram.miss_ratio_curve().sizes[-1]), *caches.values())
    steps = np.unique(
        np.round(2.0 ** np.arange(0, math.log2(end) + 1 / POINTS_PER_DOUBLING, 1 / POINTS_PER_DOUBLING)).astype(
            np.int64
        )
    )
    return sorted({*steps[steps < end].tolist(), end, *caches.values()})


def _axis_position(distance: int) -> float:
    """Return the position of a distance on the axis of powers of two."""
    return 1 + math.log2(distance) if distance else 0.0


def _short(value: int) -> str:
    """Return a number of lines, with K for 1024 and M for 1024 squared."""
    for unit, bits in (("M", 20), ("K", 10)):
        if value >= 1 << bits:
            return f"{value >> bits}{unit}"
    return str(value)
