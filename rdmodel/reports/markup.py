"""HTML and SVG as trees: what comes from a file ends up as text, whatever it looks like.

`xml.etree` writes the trees, so that every tag is closed and every text escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from rdmodel.errors import escape_unprintable

Node = Element | str


def element(tag: str, *children: Node, **attributes: str) -> Element:
    """Return an element; in names of attributes ``_`` stands for ``-``, and a last one for nothing (``class_``)."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): _plain(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _plain(child)
        else:
            made.text = (made.text or "") + _plain(child)
    return made


def _plain(text: str) -> str:
    """Return a text with escapes for what is not visible, such as marks that turn the direction of what follows."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def written(root: Element) -> str:
    """Return a tree as HTML, SVG included."""
    return tostring(root, encoding="unicode", method="html")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Node]], words: Iterable[int] = ()) -> Element:
    """Return a table; the first cell of a row names it, all others are numbers but for the columns in `words`."""
    kinds = ["" if column == 0 or column in words else "n" for column in range(len(head))]
    made = element("table", element("caption", caption))
    top = (_cell("th", *pair, scope="col") for pair in zip(head, kinds, strict=True))
    made.append(element("thead", element("tr", *top)))
    body = element("tbody")
    for row in rows:
        first, *others = zip(row, kinds, strict=True)
        body.append(element("tr", _cell("th", *first, scope="row"), *(_cell("td", *pair) for pair in others)))
    made.append(body)
    # On a narrow screen a wide table scrolls by itself, by keyboard too.
    return element("div", made, class_="wide", role="region", aria_label=caption, tabindex="0")


def _cell(tag: str, content: Node, kind: str, **attributes: str) -> Element:
    return element(tag, content, **attributes, **({"class_": kind} if kind else {}))


def paragraph(*parts: Node) -> Element:
    """Return a paragraph."""
    return element("p", *parts)


def details(summary: str, *children: Node) -> Element:
    """Return what is shown when it is asked for."""
    return element("details", element("summary", summary), *children)
