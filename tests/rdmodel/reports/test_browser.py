"""The page of a report in a browser: it fits on a phone, in light and dark, and its figures are legible."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from tests.support.browser import DESKTOP, PHONE, open_browser, show

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

TEXTS = """
return [...document.querySelectorAll('main svg')].map(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    return {
      text: text.textContent, size: parseFloat(getComputedStyle(text).fontSize) * scale,
      left: box.left - frame.left, right: frame.right - box.right, top: box.top - frame.top,
      bottom: frame.bottom - box.bottom, box: [box.left, box.top, box.right, box.bottom],
    };
  });
});
"""
"""Returns the texts of each figure: their size in pixels, and their distances from the edges of the figure."""

BARS = """
return [...document.querySelectorAll('.bars')].flatMap(chart => {
  const frame = chart.getBoundingClientRect();
  return [...chart.querySelectorAll('span')].map(part => {
    const box = part.getBoundingClientRect();
    return {left: box.left - frame.left, right: frame.right - box.right,
            inner: part.scrollWidth - part.clientWidth, size: parseFloat(getComputedStyle(part).fontSize)};
  });
});
"""
"""Returns the parts of all bar charts: their distances from the edges of the chart, and how far a text sticks out."""

SMALLEST_TEXT_PIXELS = 11.0


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory, browser) -> str:
    sizes = {"NI": 64, "NJ": 64, "NK": 64}
    report = rd.report(tracegen.kernel("gemm", **sizes), "gtx470-16k", l2=True, simulate=True)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.to_html())
    return path.as_uri()


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_nothing_is_cut_off_or_too_small_to_read(browser, address, width):
    show(browser, address, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    figures = browser.execute_script(TEXTS)
    assert len(figures) == 2
    for texts in figures:
        for one in texts:
            assert min(one["left"], one["right"], one["top"], one["bottom"]) >= -0.5, one
            assert one["size"] >= SMALLEST_TEXT_PIXELS
        for at, one in enumerate(texts):
            assert not [other for other in texts[:at] if overlap(one["box"], other["box"])], one
    bars = browser.execute_script(BARS)
    assert len(bars) > 30
    for one in bars:
        assert min(one["left"], one["right"]) >= -0.5
        assert one["inner"] <= 0
        assert one["size"] >= SMALLEST_TEXT_PIXELS


def overlap(one: list[float], other: list[float]) -> bool:
    """Return whether two boxes share more than the margin around the letters."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    return across > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser, address, scheme):
    show(browser, address, DESKTOP, scheme)
    colours = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (luminance(colour) for colour in browser.execute_script(colours))
    assert (ink < paper) == (scheme == "light")
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7  # as the Web Content Accessibility Guidelines ask


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as ``rgb(1, 2, 3)``."""
    parts = (int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_link_leads_somewhere(browser, address):
    show(browser, address, PHONE)
    dead = """
      return [...document.querySelectorAll('a')].map(link => link.getAttribute('href'))
        .filter(target => !target.startsWith('#') || !document.getElementById(target.slice(1)))
    """
    assert browser.execute_script(dead) == []
