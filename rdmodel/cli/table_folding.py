"""Fold tables and sentences that are wider than the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
from textwrap import wrap

GAP = "  "
"""Separator of columns."""

LEAST_WIDTH = 40
"""Smallest number of characters to which a table is folded; a narrower terminal breaks the lines."""

LEAST_TEXT_WIDTH = 24
"""Smallest number of characters to which a column of texts is narrowed before the table is divided."""

Rows = Sequence[Sequence[str]]
"""Rows of a table, all of one length; the first holds the heads of the columns."""


def terminal_width() -> int | None:
    """Return the number of characters in a line of the terminal; None if stdout is no terminal.

    The environment variable ``COLUMNS`` overrides the width of the terminal.
    """
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # loads modules of compression, too

    return max(LEAST_WIDTH, get_terminal_size().columns)


def fold_table(rows: Rows, right: Collection[int], keys: int, width: int | None) -> str:
    """Return a table whose lines have at most `width` characters.

    A table that is too wide breaks the lines of its texts. If that does not suffice, it is divided into blocks of
    columns. Each block starts with the columns that name a row.

    Parameters
    ----------
    rows
        Rows of printable texts; the first holds the heads.
    right
        Columns that are flush right.
    keys
        Number of leading columns that name a row.
    width
        Number of characters, or None for a table that is never folded.
    """
    columns = range(len(rows[0]))
    widths = [max(len(row[i]) for row in rows) for i in columns]
    if width is None or _total(widths, columns) <= width:
        return _draw(rows, widths, right, columns)
    texts = {i for i in columns[keys:] if i not in right and any(" " in row[i].strip() for row in rows)}
    narrowed = _narrow(widths, columns, texts, width)
    if _total(narrowed, columns) <= width:
        return _draw(rows, narrowed, right, columns)
    return "\n\n".join(_draw(rows, sizes, right, block) for block, sizes in _divide(rows, widths, right, keys, width))


def fold_prose(text: str, width: int | None) -> str:
    """Return a text whose lines have at most `width` characters (None: any number); broken lines go on indented."""
    if width is None:
        return text
    folded: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())] + GAP
        folded += wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(folded)


def _divide(
    rows: Rows, widths: Sequence[int], right: Collection[int], keys: int, width: int
) -> Iterable[tuple[list[int], list[int]]]:
    """Yield the columns of each block of a table that is too wide, and the widths of all columns in it."""
    if _total(widths, range(keys)) > width // 2:
        keys = 1  # names of several columns would fill the blocks
    sizes = list(widths)
    if keys == 1:
        sizes[0] = min(sizes[0], width // 2)
    names = list(range(keys))
    block = list(names)
    for group in _groups(rows[0], keys):
        parts = [group] if _total(sizes, [*names, *group]) <= width else [[column] for column in group]
        for part in parts:
            if len(block) > keys and _total(sizes, [*block, *part]) > width:
                yield block, sizes
                block = list(names)
            block += part
            sizes = _narrow(sizes, block, {i for i in part if i not in right}, width, least=1)
    yield block, sizes


def _groups(heads: Sequence[str], keys: int) -> list[list[int]]:
    """Return the columns after the keys; one without a head of its own stays with the column on its left."""
    times = Counter(heads)
    groups: list[list[int]] = []
    for column in range(keys, len(heads)):
        if groups and (not heads[column] or times[heads[column]] > 1):
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _narrow(
    widths: Sequence[int], columns: Sequence[int], texts: Collection[int], width: int, least: int = LEAST_TEXT_WIDTH
) -> list[int]:
    """Return widths whose `columns` fit into `width`, as far as `texts`, the widest first, can be narrowed."""
    sizes = list(widths)
    while texts and _total(sizes, columns) > width:
        widest = max(texts, key=lambda i: sizes[i])
        if sizes[widest] <= least:
            break
        sizes[widest] -= 1
    return sizes


def _total(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[i] for i in columns) + len(GAP) * (len(columns) - 1)


def _draw(rows: Rows, widths: Sequence[int], right: Collection[int], columns: Sequence[int]) -> str:
    """Return aligned columns; the texts that exceed the width of their column continue on further lines."""
    lines = []
    for row in rows:
        cells = [_break(row[i], widths[i]) for i in columns]
        for parts in zip_longest(*cells, fillvalue=""):
            aligned = (
                part.rjust(widths[i]) if i in right else part.ljust(widths[i])
                for i, part in zip(columns, parts, strict=True)
            )
            lines.append(GAP.join(aligned).rstrip())
    return "\n".join(lines)


def _break(text: str, width: int) -> list[str]:
    """Return the lines of a text in a column; those after the first are indented like it."""
    if len(text) <= width:
        return [text]
    indent = " " * min(len(text) - len(text.lstrip()), width // 4)
    return [indent + line for line in wrap(text.strip(), width - len(indent), break_on_hyphens=False)] or [""]
