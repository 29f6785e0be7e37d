"""Present results: a short `repr`, a table in notebooks, and rows of a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from rdmodel.common.text import visible_text
from rdmodel.errors import RdmodelError

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]
"""Values by the names of their columns."""

MAX_ROWS = 40
"""Rows of a table in a notebook; of a longer result, the first ones are shown."""

DIGITS = 6
"""Significant digits of a number that is not whole."""


def frame(rows: Sequence[Row] | Mapping[str, Any]) -> pd.DataFrame:
    """Return rows, or columns by name, as a data frame; raise `RdmodelError` without pandas (extra ``frame``)."""
    try:
        import pandas as pd
    except ImportError:
        raise RdmodelError("to_frame() needs pandas: pip install 'rdmodel[frame]'") from None
    return pd.DataFrame(rows)


class Presented:
    """A result that a notebook shows as a table. Subclasses define `__str__`, which is one line, and `to_rows`."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the result as flat rows: for CSV and data frames."""
        raise NotImplementedError(f"{type(self).__name__}.to_rows")

    def to_frame(self) -> pd.DataFrame:
        """Return `to_rows` as a data frame; needs pandas (extra ``frame``)."""
        return frame(self.to_rows())

    def shown_rows(self) -> Iterable[Row]:
        """Return the rows of the table in a notebook; a single one is shown as a list of names and values."""
        return self.to_rows()

    def __repr__(self) -> str:
        """Return the class and the one line of `str`."""
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        """Return a heading and a table; notebooks call this."""
        return table_html(repr(self), list(self.shown_rows()))


def table_html(heading: str, rows: Sequence[Row]) -> str:
    """Return rows as an HTML table without styles of its own, below a heading.

    Of more than `MAX_ROWS` rows, the first ones are shown. A single row becomes a list of names and values.
    """
    head = f"<p><strong>{_text(heading)}</strong></p>"
    if not rows:
        return f"<div>{head}</div>"
    if len(rows) == 1:
        body = "".join(f'<tr><th scope="row">{_text(name)}</th>{_cell(value)}</tr>' for name, value in rows[0].items())
        return f"<div>{head}<table><tbody>{body}</tbody></table></div>"
    names = list(dict.fromkeys(name for row in rows[:MAX_ROWS] for name in row))
    top = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in names)}</tr>" for row in rows[:MAX_ROWS])
    more = f"<p>{len(rows) - MAX_ROWS:,} more rows</p>" if len(rows) > MAX_ROWS else ""
    return f"<div>{head}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}</div>"


def value_text(value: Any) -> str:
    """Return a value for readers: numbers with thousands separators, and nothing for None and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (isfinite(value) and value == int(value)):
        return f"{value:,.0f}"
    return f"{value:,.{DIGITS}g}"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align: right"' if number else ' style="text-align: left"'
    return f"<td{style}>{_text(value_text(value))}</td>"


def _text(text: str) -> str:
    from html import escape  # most results are never shown in a notebook

    return escape(visible_text(text))
