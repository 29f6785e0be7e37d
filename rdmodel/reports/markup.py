"""Build HTML and SVG as trees, so that names from files are always text and never tags.

`xml.etree` writes the trees: it closes every tag and escapes every text. Invisible characters, such as marks that
reverse the direction of the text, become escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from rdmodel.common.text import visible_text

Node = Element | str
"""A part of an element: another element, or text."""


def element(tag: str, *children: Node, **attributes: str) -> Element:
    """Return an element; in the name of an attribute, ``_`` means ``-``, and one at its end is dropped (``class_``)."""
    root = Element(tag, {name.rstrip("_").replace("_", "-"): visible_text(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            root.append(child)
        elif len(root):
            root[-1].tail = (root[-1].tail or "") + visible_text(child)
        else:
            root.text = (root.text or "") + visible_text(child)
    return root


def to_html(root: Element) -> str:
    """Return a tree as HTML, including SVG."""
    return tostring(root, encoding="unicode", method="html")


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Node]], words: Iterable[int] = ()) -> Element:
    """Return a table; the first cell of a row is its head, and the others are numbers except in the columns `words`."""
    kinds = ["" if column == 0 or column in words else "n" for column in range(len(head))]
    root = element("table", element("caption", caption))
    top = (_cell("th", *pair, scope="col") for pair in zip(head, kinds, strict=True))
    root.append(element("thead", element("tr", *top)))
    body = element("tbody")
    for row in rows:
        first, *others = zip(row, kinds, strict=True)
        body.append(element("tr", _cell("th", *first, scope="row"), *(_cell("td", *pair) for pair in others)))
    root.append(body)
    # On a narrow screen a wide table scrolls within its frame; `tabindex` makes that work with the keyboard as well.
    return element("div", root, class_="wide", role="region", aria_label=caption, tabindex="0")


def _cell(tag: str, content: Node, kind: str, **attributes: str) -> Element:
    return element(tag, content, **attributes, **({"class_": kind} if kind else {}))


def paragraph(*parts: Node) -> Element:
    """Return a paragraph."""
    return element("p", *parts)


def details(summary: str, *children: Node) -> Element:
    """Return content that is hidden until its summary is opened."""
    return element("details", element("summary", summary), *children)
