"""Shapes of figures: SVG that takes its colours from the page, so that it follows light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rdmodel.reports.markup import Node, element

WIDTH = 440
"""Units across a figure; small, so that its letters can be read on a phone."""

LETTER = 6.4
"""Units that a letter of a label takes, about."""

Point = tuple[float, float]


def drawing(ident: str, title: str, description: str, height: float, *children: Node) -> Element:
    """Return a figure with a title and a description for those who do not see it; `ident` is unique on the page."""
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", description, id=f"{ident}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {number(height)}",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
    )


def label(x: float, y: float, text: str, anchor: str = "start") -> Element:
    """Return a text whose baseline is at y."""
    return element("text", text, x=number(x), y=number(y), text_anchor=anchor)


def line(start: Point, end: Point, class_: str) -> Element:
    """Return a straight line."""
    (x1, y1), (x2, y2) = start, end
    return element("line", x1=number(x1), y1=number(y1), x2=number(x2), y2=number(y2), class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str) -> Element:
    """Return a rectangle."""
    return element("rect", x=number(x), y=number(y), width=number(width), height=number(height), class_=class_)


def path(points: Sequence[Point], class_: str) -> Element:
    """Return a line through points."""
    (x, y), *others = points
    ways = "".join(f"L{number(x)} {number(y)}" for x, y in others)
    return element("path", d=f"M{number(x)} {number(y)}{ways}", class_=class_)


def mark(x: float, y: float, shape: str) -> Element:
    """Return a circle or a cross."""
    if shape == "circle":
        return element("circle", cx=number(x), cy=number(y), r="4", class_="mark")
    return element("path", d=f"M{number(x - 4)} {number(y - 4)}l8 8m0 -8l-8 8", class_="mark")


def number(value: float) -> str:
    """Return a coordinate to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
