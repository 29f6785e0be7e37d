"""Parse a page of HTML into headings, tables by caption, figures and links, and check its tags."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

VOID = {"meta", "br", "hr", "img", "link", "input"}
SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """The contents of a page; raises `AssertionError` for tags that are not closed in order, or for equal ids."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = text
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.every_table: list[tuple[str, list[list[str]]]] = []
        self.commands: dict[str, list[str]] = {}
        self.items: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: list[str] = []
        self._words: list[str] = []
        self._caption = ""
        self._rows: list[list[str]] = []
        assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
        self.feed(text)
        self.close()
        assert self._open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag in ("caption", "th", "td", "h1", "h2", "h3", "code", "li"):
            self._words = []
        if tag == "tr":
            self._rows.append([])
        if tag == "table":
            self._rows = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/> is no way to close a tag in HTML")

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop() == tag
        text = "".join(self._words)
        if tag in ("h1", "h2", "h3"):
            self.headings.append((int(tag[1]), text))
        elif tag == "caption":
            self._caption = text
        elif tag in ("th", "td"):
            self._rows[-1].append(text)
        elif tag == "table":
            self.tables[self._caption] = self._rows
            self.every_table.append((self._caption, self._rows))
        elif tag == "code" and text.startswith("$ "):
            self.commands[self.headings[-1][1]] = [line.removeprefix("$ ") for line in text.split("\n")]
        elif tag == "li":
            self.items.append(text)

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    def column(self, caption: str, number: int = 1) -> dict[str, str]:
        """Return a column of a table by the names of its rows, without the head."""
        return {row[0]: row[number] for row in self.tables[caption][1:]}

    @property
    def figures(self) -> dict[str, ElementTree.Element]:
        """The drawings by their titles, as XML."""
        parts = self.text.split("<svg ")[1:]
        roots = [ElementTree.fromstring("<svg " + part.partition("</svg>")[0] + "</svg>") for part in parts]
        return {root.findtext(f"{SVG}title") or "": root for root in roots}
