"""Format the difference of two predictions as text."""

from __future__ import annotations

from math import isfinite

from rdmodel.cli.text_tables import format_table
from rdmodel.comparison.differences import Difference, number_text


def format_difference(result: Difference) -> str:
    """Return both kernels, the settings in which the runs differ, and a table of the counters."""
    old, new = result.kernels
    head = [f"old  {old}", f"new  {new}"] if old != new else [old]
    head += [f"{name}: {before}, now {now}" for name, (before, now) in result.settings.items()]
    rows = [("  counter", "old", "new", "change")]
    for name, value in result.new.items():
        before = result.old[name]
        rows.append((f"  {name}", number_text(before), number_text(value), _change(before, value, result.change(name))))
    return "\n".join([*head, "", format_table(rows, right=(1, 2, 3))])


def _change(old: float, new: float, percent: float) -> str:
    """Return a change in percent; the difference if the old value is 0, and nothing if the values are equal."""
    if old == new:
        return ""
    return f"{percent:+.2f} %" if isfinite(percent) else f"{'+' if new > old else ''}{number_text(new - old)}"
