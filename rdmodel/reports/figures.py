"""The figures of a report: shares as bars, the miss-ratio curve, the histogram of reuse distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from rdmodel.common.text import percent, size_text
from rdmodel.reports.drawing import LETTER, WIDTH, Point, box, drawing, label, line, mark, path
from rdmodel.reuse.histogram import Histogram, by_powers

LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 44.0, 44.0
"""Margins of the plane between two axes."""

HEIGHT = 270.0
ROW, NAMES, VALUES = 22.0, 172.0, 66.0
"""Of bars: how high a row is, and what names and values take of the width."""

STEPS = 8
"""Points of the curve between one power of two and the next."""

SHAPES = ("circle", "cross")

Marks = Mapping[str, int]
"""Capacities in lines, by what is written beside them."""


def bars(ident: str, title: str, rows: Sequence[tuple[str, float]]) -> Element:
    """Draw shares, 0 to 1, as bars with their names and values."""
    room = WIDTH - NAMES - VALUES
    shapes = [line((NAMES, 4), (NAMES, 4 + ROW * len(rows)), "axis")]
    for at, (name, share) in enumerate(rows):
        y = 4 + at * ROW
        length = room * min(max(share, 0.0), 1.0)
        shapes.append(label(NAMES - 6, y + 15, name, "end"))
        shapes.append(box(NAMES, y + 4, length, ROW - 8, "bar"))
        shapes.append(label(NAMES + length + 5, y + 15, percent(share, 1)))
    told = "; ".join(f"{name.strip()} {percent(share, 1)}" for name, share in rows)
    return drawing(ident, title, told, 8 + ROW * len(rows), *shapes)


def curve(
    ident: str, title: str, histogram: Histogram, line_bytes: int, caches: Marks, rates: Mapping[str, float]
) -> Element:
    """Draw the miss-ratio curve, with the capacities of caches, and predicted miss rates at the first of them."""
    found = histogram.miss_ratio_curve(_sizes(histogram, caches))
    end = math.log2(found.sizes[-1])
    plane = _Plane(end, 1.0)
    shapes = [*plane.grid(), *plane.sizes(line_bytes, found.sizes[-1])]
    points: list[Point] = []
    for size, ratio in found:
        x, y = plane.at(math.log2(size), ratio)
        # Between two sizes nothing changes before the larger one is reached.
        points += [(x, points[-1][1]), (x, y)] if points else [(x, y)]
    shapes += [*plane.caches(caches, math.log2), path(points, "curve")]
    first = math.log2(next(iter(caches.values())))
    lowest = math.inf
    for number, (name, rate) in sorted(enumerate(rates.items()), key=lambda item: item[1][1]):
        x, y = plane.at(first, rate)
        # From the lowest mark up: no text stands on the one before, or on the axis.
        lowest = min(y + 14, lowest - 14, HEIGHT - BOTTOM - 6)
        shapes += [mark(x, y, SHAPES[number % 2]), plane.beside(x, lowest, f"{name} {percent(rate, 1)}")]
    told = ", ".join(f"{percent(found.at(size), 1)} at the {name}" for name, size in caches.items())
    return drawing(ident, title, f"Falls from {percent(found.miss_ratios[0], 1)} at one line; {told}", HEIGHT, *shapes)


def distances(ident: str, title: str, histogram: Histogram, caches: Marks) -> Element:
    """Draw how many transactions have a reuse distance of 0, 1, 2 to 3, 4 to 7, ..., and first touches beside."""
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
    shapes += [label(x, y + 32, "first touch", "end"), label(LEFT, y + 32, "lines between, at least")]
    within = {name: size for name, size in caches.items() if _place(size) <= most}
    shapes += plane.caches(within, _place)
    told = ", ".join(f"{percent(share, 1)} from {(1 << b) // 2:,}" for b, share in sorted(shares.items()) if b < most)
    told = f"{told}, " if told else ""
    return drawing(ident, title, f"{told}first touches {percent(shares[most], 1)}", HEIGHT, *shapes)


# ---- parts


class _Plane:
    """The plane between two axes: 0 to `end` across, 0 to `top` upwards."""

    def __init__(self, end: float, top: float) -> None:
        self._end, self._top = max(end, 1.0), top

    def at(self, x: float, y: float) -> Point:
        """Return where a point lies in the figure."""
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / self._end
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / self._top

    def grid(self) -> list[Element]:
        """Return lines at quarters of the height, with their shares."""
        shapes = []
        for quarter in range(5):
            start, end = self.at(0, self._top * quarter / 4), self.at(self._end, self._top * quarter / 4)
            shapes.append(line(start, end, "grid" if quarter else "axis"))
            shapes.append(label(LEFT - 6, start[1] + 4, f"{100 * self._top * quarter / 4:g} %", "end"))
        return shapes

    def sizes(self, line_bytes: int, last: int) -> list[Element]:
        """Return the sizes of caches along the bottom."""
        whole = int(math.log2(last))
        shapes = []
        for power in range(0, whole + 1, 1 + whole // 6):
            x, y = self.at(power, 0)
            shapes += [line((x, y), (x, y + 4), "axis"), label(x, y + 17, size_text(line_bytes << power), "middle")]
        x, y = self.at(self._end, 0)
        return [*shapes, label(x, y + 36, "size of the cache", "end")]

    def caches(self, caches: Marks, place: Callable[[int], float]) -> list[Element]:
        """Return an upright line for each cache, with its name above, each in a line of its own."""
        shapes = []
        for number, (name, size) in enumerate(caches.items()):
            x, bottom = self.at(place(size), 0)
            top = TOP - 8 - 14 * (len(caches) - 1 - number)
            shapes.append(line((x, bottom), (x, top - 8), "cache" if number == 0 else "cache behind"))
            shapes.append(label(x - 4 if self._late(x) else x + 4, top, name, "end" if self._late(x) else "start"))
        return shapes

    def beside(self, x: float, y: float, text: str) -> Element:
        """Return a text to the right of a mark, or where there is no room to the left."""
        late = x + 10 + LETTER * len(text) > WIDTH
        return label(x - 7 if late else x + 7, y, text, "end" if late else "start")

    @staticmethod
    def _late(x: float) -> bool:
        return x > 0.7 * WIDTH


def _sizes(histogram: Histogram, caches: Marks) -> list[int]:
    """Return the sizes at which the curve is drawn, in lines: `STEPS` to each doubling, and those of the caches."""
    end = max(int(histogram.miss_ratio_curve().sizes[-1]), *caches.values())
    steps = np.unique(np.round(2.0 ** np.arange(0, math.log2(end) + 1 / STEPS, 1 / STEPS)).astype(np.int64))
    return sorted({*steps[steps < end].tolist(), end, *caches.values()})


def _place(distance: int) -> float:
    """Return where a distance stands among powers of two: at the left of its bar, or within it."""
    return 1 + math.log2(distance) if distance else 0.0


def _short(value: int) -> str:
    """Return a number of lines with K or M for binary thousands."""
    for unit, bits in (("M", 20), ("K", 10)):
        if value >= 1 << bits:
            return f"{value >> bits}{unit}"
    return str(value)
