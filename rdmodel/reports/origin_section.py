"""Write the section of a page that says where the misses of a kernel come from, with its annotated source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from rdmodel.common.source_texts import SourceTexts
from rdmodel.common.text import count, percent
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.markup import Node, element, html_table, paragraph
from rdmodel.reports.model_sections import section
from rdmodel.results.origins import OriginCounts, OriginRow, OriginTable

CONTEXT = 3
"""Lines of a source that are shown before and after one with counters."""

MAX_LISTED_LINES = 100
"""Rows of a table, and lines of a source; those that are left out have fewer misses."""

NOTE = (
    "Counted by the definition {definition} {where}. Misses are the sectors that loads fetch from the "
    "L2{past}; bytes are those that loads and stores move between the L1 and the L2."
)
"""Explanation of the counters."""

HEAD = ("transactions", "misses", "of all", "L2 bytes")
"""Heads of the columns with the counters of an origin."""


def origin_section(kernel: KernelReport, ident: str) -> Element:
    """Return the misses by array, and by line of the source with the lines around them."""
    assert kernel.origins is not None
    lines, arrays = kernel.origins.by("line"), kernel.origins.by("array")
    texts = SourceTexts()
    past = ", those of loads past the L1 included" if any(row.counts.bypassed_sectors for row in arrays.rows) else ""
    where = "for the modelled SMs" if kernel.prediction.l2 is None else "for the SMs that a run without the L2 models"
    note = NOTE.format(definition=next(iter(kernel.predictions)), where=where, past=past)
    parts: list[Node] = [paragraph(note), _table("array", arrays)]
    listed = {file: rows for file, rows in _rows_by_file(lines).items() if texts.lines(file)}
    if any(row.source is None or row.source.file not in listed for row in lines.rows):
        parts.append(_table("line", lines))
    parts += [_listing(file, rows, texts, _missed(lines)) for file, rows in listed.items()]
    return section(ident, "Where the misses come from", *parts, commands=kernel.commands.get("origins", ()))


def _table(kind: str, table: OriginTable) -> Element:
    rows = [(row.name, *_cells(row.counts, _missed(table))) for row in table.rows[:MAX_LISTED_LINES]]
    return html_table(f"Misses by {kind}", (kind, *HEAD), rows)


def _cells(counts: OriginCounts, missed: float) -> tuple[str, ...]:
    own = counts.missed_sectors
    return count(counts.all_transactions), count(own), percent(own, missed), count(counts.l2_bytes)


def _missed(table: OriginTable) -> float:
    return sum(row.counts.missed_sectors for row in table.rows)


# ---- the source


def _rows_by_file(table: OriginTable) -> dict[str, dict[int, OriginRow]]:
    """Return the rows of known lines, by file and number; those with most misses come first."""
    files: dict[str, dict[int, OriginRow]] = {}
    for row in table.rows:
        if row.source is not None and row.source.line:
            files.setdefault(row.source.file, {})[row.source.line] = row
    return files


def _listing(file: str, rows: Mapping[int, OriginRow], texts: SourceTexts, missed: float) -> Element:
    """Return the lines of a file with counters, and those around them."""
    source = texts.lines(file)
    listed: list[tuple[Node, ...]] = []
    for number in _shown_lines(rows, len(source)):
        if number is None:
            listed.append(("", *[""] * len(HEAD), "..."))
            continue
        cells = _cells(rows[number].counts, missed) if number in rows else ("",) * len(HEAD)
        text = source[number - 1].expandtabs(4) if number <= len(source) else ""
        listed.append((str(number), *cells, element("code", text, class_="line")))
    name = next(iter(rows.values())).name.rpartition(":")[0]
    return html_table(f"Misses by line of {name}", ("line", *HEAD, "source"), listed, words=(5,))


def _shown_lines(rows: Mapping[int, OriginRow], end: int) -> Iterator[int | None]:
    """Yield the numbers of the lines to show, and None for those that are left out between them."""
    shown: set[int] = set()
    for line in rows:
        around = range(max(1, line - CONTEXT), min(end, line + CONTEXT) + 1)
        if len(shown | {*around}) <= MAX_LISTED_LINES:
            shown |= {line, *around}
    last = None
    for number in sorted(shown):
        if last is not None and number > last + 1:
            yield None
        yield number
        last = number
