"""Match the origins of misses of two predictions, and compare their counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.source_texts import SourceTexts
from rdmodel.errors import ConfigError
from rdmodel.results.origin_kinds import ORIGINS, Origin
from rdmodel.results.origin_texts import rows_with_texts
from rdmodel.results.prediction import Prediction

COMPARED_COUNTERS = ("transactions", "misses", "compulsory", "capacity", "associativity", "store_sectors", "l2_bytes")
"""Counters of an origin that are compared; `misses` have those of loads past the L1."""

Row = Mapping[str, Any]
"""An origin with its counters, as JSON has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginChange:
    """The counters of one origin in two predictions; 0 in one that does not have it.

    `name` is that in the new prediction, or in the old one if only this has it. `source` is the line of the source,
    and `only` is "old" or "new" if one prediction alone has the origin; both are "" otherwise.
    """

    name: str
    source: str
    only: str
    old: Mapping[str, float]
    new: Mapping[str, float]

    @property
    def changed(self) -> bool:
        """Whether a counter differs."""
        return self.old != self.new

    def to_dict(self) -> dict[str, Any]:
        """Return the names and both values of each counter as plain values."""
        counters = {name: {"old": self.old[name], "new": self.new[name]} for name in COMPARED_COUNTERS}
        return {"name": self.name, "source": self.source, "only": self.only, "counters": counters}

    def to_row(self) -> dict[str, Any]:
        """Return the names and both values of each counter as one flat row."""
        counters = {
            f"{name}_{side}": getattr(self, side)[name] for name in COMPARED_COUNTERS for side in ("old", "new")
        }
        return {"name": self.name, "source": self.source, "only": self.only, **counters}


def compare_origins(
    old: Prediction | Mapping[str, Any], new: Prediction | Mapping[str, Any]
) -> dict[Origin, tuple[OriginChange, ...]]:
    """Return the changes by each kind of origin that both predictions have, those that change most first.

    Lines are matched by their text, because their numbers move when lines are inserted; where a text is unknown, and
    for other origins, by name. Of several with the same text or name, the n-th ones belong together. Raises
    `ConfigError` for rows that are not those of a prediction.
    """
    sides = [_rows_by_kind(result) for result in (old, new)]
    return {kind: _changes(sides[0][kind], sides[1][kind]) for kind in ORIGINS if all(kind in side for side in sides)}


def _rows_by_kind(result: Prediction | Mapping[str, Any]) -> Mapping[Origin, Sequence[Row]]:
    if not isinstance(result, Prediction):
        return result.get("by") or {}
    if result.origins is None:
        return {}
    texts = SourceTexts()
    return {kind: rows_with_texts(result.by(kind), texts) for kind in ORIGINS}


def _changes(old: Sequence[Row], new: Sequence[Row]) -> tuple[OriginChange, ...]:
    try:
        by_text = all(any("source" in row for row in rows) for rows in (old, new))
        before, after = (_numbered(rows, by_text) for rows in (old, new))
        changes = [_change(before.get(key), after.get(key)) for key in dict.fromkeys((*after, *before))]
    except (KeyError, TypeError, AttributeError):
        raise ConfigError("by: lacks counters of origins; rdmodel predict --by ... --json writes them") from None
    return tuple(sorted(changes, key=_weight, reverse=True))


def _numbered(rows: Sequence[Row], by_text: bool) -> dict[tuple[str, int], Row]:
    """Return rows by text, or by name without one, and by their number among the rows with the same one."""
    seen: Counter[str] = Counter()
    found = {}
    for row in sorted(rows, key=lambda row: (row.get("line", 0), row.get("pc", 0))):
        key = str((by_text and row.get("source")) or row["name"])
        found[key, seen[key]] = row
        seen[key] += 1
    return found


def _change(old: Row | None, new: Row | None) -> OriginChange:
    row = new or old
    assert row is not None
    return OriginChange(
        name=str(row["name"]),
        source=str(row.get("source", "")),
        only="new" if old is None else "old" if new is None else "",
        old=_counters(old),
        new=_counters(new),
    )


def _counters(row: Row | None) -> dict[str, float]:
    if row is None:
        return dict.fromkeys(COMPARED_COUNTERS, 0)
    misses = row["misses"]
    values = {
        "transactions": row["transactions"] + row["bypassed_transactions"] + row["stores"]["transactions"],
        "misses": misses["total"] + row["bypassed_sectors"],
        **{cause: misses[cause] for cause in ("compulsory", "capacity", "associativity")},
        "store_sectors": row["stores"]["sectors"],
        "l2_bytes": row["l2_bytes"],
    }
    return {name: values[name] + 0 for name in COMPARED_COUNTERS}


def _weight(change: OriginChange) -> tuple[float, ...]:
    """Return the sizes of the changes by which origins are ordered."""
    return tuple(abs(change.new[name] - change.old[name]) for name in ("misses", "l2_bytes", "transactions"))
