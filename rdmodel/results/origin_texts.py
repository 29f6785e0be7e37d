"""Add the lines of source files to rows of origins."""

from __future__ import annotations

from typing import Any

from rdmodel.common.source_texts import SourceTexts
from rdmodel.results.origins import OriginTable


def rows_with_texts(table: OriginTable, texts: SourceTexts) -> list[dict[str, Any]]:
    """Return the rows of a table, ready for JSON, with the `source` of those whose line can be read."""
    rows = []
    for row, plain in zip(table.rows, table.to_dict(), strict=True):
        if row.source is not None and row.source.line and (text := texts.line(row.source.file, row.source.line)):
            name = plain.pop("name")
            plain = {"name": name, "source": text, **plain}
        rows.append(plain)
    return rows
