"""Format the counters of a prediction by origin."""

from __future__ import annotations

from rdmodel.cli.text_tables import format_table
from rdmodel.common.source_texts import SourceTexts
from rdmodel.common.text import count, percent
from rdmodel.results.counts import MissCounts
from rdmodel.results.origins import OriginRow, OriginTable

MAX_SHOWN_ORIGINS = 30
"""Origins in a table of text; JSON and CSV have all."""

MAX_SOURCE_CHARACTERS = 60
"""Characters of a line of source in a table."""


def format_origins(table: OriginTable, texts: SourceTexts) -> str:
    """Return the origins with most misses: transactions, missed sectors by cause, bytes to the L2, and source."""
    shown = table.rows[:MAX_SHOWN_ORIGINS]
    read = sum(row.counts.missed_sectors for row in table.rows)
    names_arrays = table.by != "array" and any(row.arrays for row in shown)
    rows: list[tuple[str, ...]] = [
        (f"  by {table.by}", "transactions", "misses", "of all", "miss rate", *MissCounts.CAUSES, "L2 bytes")
    ]
    rows[0] += ("arrays",) * names_arrays + ("source",) * (table.by != "array")
    for row in shown:
        counts = row.counts
        cells: tuple[str, ...] = (
            f"  {row.name}",
            count(counts.all_transactions),
            count(counts.missed_sectors),
            percent(counts.missed_sectors, read),
            percent(counts.missed_sectors, counts.sectors + counts.bypassed_sectors),
            *(count(getattr(counts.misses, cause)) for cause in MissCounts.CAUSES),
            count(counts.l2_bytes),
        )
        cells += (", ".join(row.arrays),) * names_arrays + (source_text(row, texts),) * (table.by != "array")
        rows.append(cells)
    lines = [format_table(rows, right=range(1, 9))]
    if any(row.counts.bypassed_sectors for row in table.rows):
        lines.append("  misses include the sectors of loads past the L1, which have no cause")
    if len(table.rows) > len(shown):
        lines.append(f"  and {len(table.rows) - len(shown):,} more (--json, --csv)")
    return "\n".join(lines)


def source_text(row: OriginRow, texts: SourceTexts) -> str:
    """Return the line of the source that a line or an instruction comes from; "" if it is unknown."""
    source = row.source
    if source is None or not source.line:
        return ""
    return shorten_text(texts.line(source.file, source.line))


def shorten_text(text: str) -> str:
    """Return a line of source as it is shown in a table."""
    return text if len(text) <= MAX_SOURCE_CHARACTERS else f"{text[: MAX_SOURCE_CHARACTERS - 3]}..."
