"""Format the difference of two predictions as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from rdmodel.cli.text_origins import MAX_SHOWN_ORIGINS, shorten_text
from rdmodel.cli.text_tables import format_table
from rdmodel.comparison.conditions import relative_change
from rdmodel.comparison.differences import Difference, number_text
from rdmodel.comparison.origin_changes import OriginChange


def format_difference(result: Difference) -> str:
    """Return both kernels, the settings in which the runs differ, and a table of the counters."""
    old, new = result.kernels
    head = [f"old  {old}", f"new  {new}"] if old != new else [old]
    head += [f"{name}: {before}, now {now}" for name, (before, now) in result.settings.items()]
    rows = [("  counter", "old", "new", "change")]
    for name, value in result.new.items():
        before = result.old[name]
        rows.append((f"  {name}", number_text(before), number_text(value), _change(before, value, result.change(name))))
    tables = [_format_changes(kind, changes) for kind, changes in result.by.items()]
    return "\n".join([*head, "", "\n\n".join([format_table(rows, right=(1, 2, 3)), *tables])])


def _format_changes(kind: str, changes: Sequence[OriginChange]) -> str:
    """Return the origins that differ, with their misses and the bytes between L1 and L2."""
    named = any(change.source for change in changes)
    shown = [change for change in changes if change.changed][:MAX_SHOWN_ORIGINS]
    head = (
        f"  by {kind}",
        "transactions, old",
        "new",
        "misses, old",
        "new",
        "change",
        "L2 bytes, old",
        "new",
        "change",
    )
    rows: list[tuple[str, ...]] = [head]
    rows[0] += ("source",) * named
    for change in shown:
        cells = [f"  {change.name}" + (f" (only {change.only})" if change.only else "")]
        cells += [number_text(side["transactions"]) for side in (change.old, change.new)]
        for name in ("misses", "l2_bytes"):
            old, new = change.old[name], change.new[name]
            cells += [number_text(old), number_text(new), _change(old, new, relative_change(old, new))]
        rows.append((*cells, *([shorten_text(change.source)] if named else [])))
    left = len(changes) - len(shown)
    notes = [f"  {left:,} not shown: they differ least, or not at all"] if left else []
    return "\n".join([format_table(rows, right=range(1, 9)) if shown else f"  by {kind}: no origin differs", *notes])


def _change(old: float, new: float, percent: float) -> str:
    """Return a change in percent; the difference if the old value is 0, and nothing if the values are equal."""
    if old == new:
        return ""
    return f"{percent:+.2f} %" if isfinite(percent) else f"{'+' if new > old else ''}{number_text(new - old)}"
