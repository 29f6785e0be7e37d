"""Draw bar charts as text and boxes of the page, whose names wrap where a narrow screen has little room."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rdmodel.common.text import percent
from rdmodel.reports.markup import element


def draw_bars(title: str, rows: Sequence[tuple[str, float]]) -> Element:
    """Draw shares, 0 to 1, as horizontal bars with names and values."""
    parts = []
    for name, share in rows:
        length = f"--share: {min(max(share, 0.0), 1.0):.4f}"
        bar = element("span", element("span", class_="bar", style=length), percent(share, 1), class_="track")
        parts += [element("span", name, class_="name"), bar]
    told = "; ".join(f"{name.strip()} {percent(share, 1)}" for name, share in rows)
    return element("div", *parts, class_="bars", role="img", aria_label=f"{title}: {told}")
