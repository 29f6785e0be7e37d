"""Read the tables of the documentation that tests compare with the code."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def checked_table(page: str, name: str) -> list[list[str]]:
    """Return the rows, without the head, of the table after ``<!-- checked: NAME -->``."""
    _, _, text = (DOCS / page).read_text().partition(f"<!-- checked: {name} -->\n")
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def quoted(cell: str) -> list[str]:
    """Return the texts in backticks of a cell."""
    return re.findall(r"`([^`]+)`", cell)
