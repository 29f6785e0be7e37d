"""Renew the tables of a committed page, and keep the text before them."""

from __future__ import annotations

from pathlib import Path

START = "<!-- tables -->\n\n"
"""The text before the first table of a page."""


def tables_of(page: Path) -> str:
    """Return the part of a page that is written from records."""
    return page.read_text().partition(START)[2]


def renew_tables(page: Path, tables: str) -> None:
    """Replace the part of a page that is written from records."""
    page.write_text(page.read_text().partition(START)[0] + START + tables)


def renew_or_check(page: Path, tables: str, check: bool) -> int:
    """Replace the part of a page that is written from records, or return 1 if that is to be checked and differs."""
    if check:
        return int(tables_of(page) != tables)
    renew_tables(page, tables)
    return 0
