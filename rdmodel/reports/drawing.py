"""Draw shapes as SVG that takes its colours from the page, so that figures suit screens, dark mode and paper."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rdmodel.reports.markup import Node, element

FIGURE_WIDTH = 440
"""Width of a figure in SVG units; small, so that its text is legible on a phone."""

LETTER_WIDTH = 8.0
"""Approximate width of a letter in SVG units, on a phone, where letters are largest (style.css)."""

Point = tuple[float, float]
"""Position in a figure in SVG units: x to the right, y down."""


def draw_figure(ident: str, title: str, description: str, height: float, *children: Node) -> Element:
    """Return a figure with a title and a description for screen readers; `ident` must be unique on the page."""
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", description, id=f"{ident}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {FIGURE_WIDTH} {coordinate(height)}",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
    )


def label(x: float, y: float, text: str, anchor: str = "start") -> Element:
    """Return a text with its baseline at `y`."""
    return element("text", text, x=coordinate(x), y=coordinate(y), text_anchor=anchor)


def line(start: Point, end: Point, class_: str) -> Element:
    """Return a straight line."""
    (x1, y1), (x2, y2) = start, end
    return element("line", x1=coordinate(x1), y1=coordinate(y1), x2=coordinate(x2), y2=coordinate(y2), class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str) -> Element:
    """Return a rectangle."""
    return element(
        "rect", x=coordinate(x), y=coordinate(y), width=coordinate(width), height=coordinate(height), class_=class_
    )


def polyline(points: Sequence[Point], class_: str) -> Element:
    """Return a polyline through points."""
    (x, y), *others = points
    segments = "".join(f"L{coordinate(x)} {coordinate(y)}" for x, y in others)
    return element("path", d=f"M{coordinate(x)} {coordinate(y)}{segments}", class_=class_)


def mark(x: float, y: float, shape: str) -> Element:
    """Return a circle or a cross."""
    if shape == "circle":
        return element("circle", cx=coordinate(x), cy=coordinate(y), r="4", class_="mark")
    return element("path", d=f"M{coordinate(x - 4)} {coordinate(y - 4)}l8 8m0 -8l-8 8", class_="mark")


def coordinate(value: float) -> str:
    """Return a coordinate rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
