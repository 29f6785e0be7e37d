"""Compare two predictions counter by counter: the function `diff`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from math import isfinite
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.comparison.conditions import counter_value, read_condition, relative_change
from rdmodel.comparison.origin_changes import OriginChange, compare_origins
from rdmodel.errors import ConfigError
from rdmodel.results.origin_kinds import Origin
from rdmodel.results.prediction import Prediction

L1_COUNTERS = ("requests", "transactions", "sectors", "hits", "latency_misses")
"""Counters of the L1s, by their names in `Prediction`."""

MISS_COUNTERS = {
    "misses": "total",
    "compulsory": "compulsory",
    "capacity": "capacity",
    "associativity": "associativity",
}
"""Misses of the L1s and their causes, by their names in `MissCounts.to_dict`."""

STORE_COUNTERS = {"store_transactions": "transactions", "store_sectors": "sectors"}
"""Counters of stores, by their names in `StoreCounts`."""

L2_COUNTERS = {
    "l2_reads": "reads",
    "l2_misses": "misses",
    "l2_writes": "writes",
    "l2_bytes": "bytes",
    "dram_read_sectors": "dram_read_sectors",
    "dram_write_sectors": "dram_write_sectors",
    "dram_bytes": "dram_bytes",
}
"""Counters of the L2 and the DRAM, by their names in `L2Prediction.to_dict`."""

SETTINGS = ("gpu", "definition", "seed", "sms_modelled")
"""Properties of predictions that should agree."""

Result = Prediction | Mapping[str, Any]
"""A prediction, or its `to_dict`, for example from a file that ``rdmodel predict --json`` wrote."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Difference(Presented):
    """The counters of two predictions, `old` and `new`, which have the same names.

    `kernels` are the names of both kernels, and `settings` the properties in which the runs differ besides: their
    values by name. `by` has the changes by line, array and instruction, if both predictions have them; those that
    change most come first.
    """

    kernels: tuple[str, str]
    old: Mapping[str, float]
    new: Mapping[str, float]
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    by: Mapping[Origin, tuple[OriginChange, ...]] = field(default_factory=dict)

    def change(self, counter: str) -> float:
        """Return the change of a counter in percent; infinite if it was 0 and is not any more."""
        return relative_change(self.old[counter], self.new[counter])

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the counters that differ."""
        return tuple(name for name in self.new if self.old[name] != self.new[name])

    def broken(self, conditions: Iterable[str]) -> list[str]:
        """Return a sentence for each condition that holds, such as "dram_bytes > +5%: 8,388,608, was ...".

        Raises `ConfigError` for a text that is no condition, and for a counter that the results do not have.
        """
        return [
            f"{text}: {describe_change(self.old[condition.counter], new)}"
            for text in conditions
            for condition in [read_condition(text)]
            for new in [counter_value(self.new, condition)]
            if condition.holds(self.old[condition.counter], new)
        ]

    def __str__(self) -> str:
        """Return the kernels, and the number of counters that differ, in one line."""
        old, new = self.kernels
        names = old if old == new else f"{old} and {new}"
        number = len(self.changed)
        return f"{names}: {f'{number} of {len(self.new)} counters differ' if number else 'no counter differs'}"

    def to_dict(self) -> dict[str, Any]:
        """Return kernels, settings and counters as plain values, ready for JSON: a change from 0 is None."""
        return {
            "old": self.kernels[0],
            "new": self.kernels[1],
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "counters": {str(row.pop("counter")): row for row in self.to_rows()},
            **({"by": by} if (by := {kind: [one.to_dict() for one in some] for kind, some in self.by.items()}) else {}),
        }

    def origin_rows(self) -> list[dict[str, Any]]:
        """Return one row for every origin of every kind in `by`, with both values of each counter."""
        return [{"by": kind, **change.to_row()} for kind, changes in self.by.items() for change in changes]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every counter, with its change in percent (None: it was 0)."""
        rows = []
        for name, value in self.new.items():
            change = self.change(name)
            change_or_none = change if isfinite(change) else None
            rows.append({"counter": name, "old": self.old[name], "new": value, "change": change_or_none})
        return rows


def diff(old: Result, new: Result) -> Difference:
    """Compare two predictions, counter by counter: transactions, sectors, misses by cause, and the traffic of the L2.

    Parameters
    ----------
    old, new : Prediction or mapping
        Predictions, or what `Prediction.to_dict` returned for them.

    Returns
    -------
    Difference
        All counters that both have; those of the L2 if it was modelled in both, and those by origin if both counted
        them (``origins=True``). Lines are matched by their texts, which are read from the files.

    Raises
    ------
    ConfigError
        If a mapping is not that of a prediction.
    """
    plain = [result.to_dict() if isinstance(result, Prediction) else result for result in (old, new)]
    counters = [traffic_counters(one) for one in plain]
    names = [name for name in counters[1] if name in counters[0]]
    pairs = {name: (plain[0].get(name), plain[1].get(name)) for name in SETTINGS}
    return Difference(
        kernels=(str(plain[0]["kernel"]), str(plain[1]["kernel"])),
        old={name: counters[0][name] for name in names},
        new={name: counters[1][name] for name in names},
        settings={name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
        by=compare_origins(old, new),
    )


def traffic_counters(result: Result) -> dict[str, float]:
    """Return the counters of a prediction that `diff` compares, by name; a rate without loads is 0.

    Raises `ConfigError` for a mapping that is not that of a prediction.
    """
    plain = result.to_dict() if isinstance(result, Prediction) else result
    try:
        counters = {name: plain[name] for name in L1_COUNTERS}
        counters |= {name: plain["misses"][key] for name, key in MISS_COUNTERS.items()}
        counters["miss_rate"] = plain["miss_rate"] or 0.0
        counters |= {name: plain["stores"][key] for name, key in STORE_COUNTERS.items()}
        if (l2 := plain.get("l2")) is not None:
            counters |= {name: l2[key] for name, key in L2_COUNTERS.items()}
    except (KeyError, TypeError, AttributeError):
        raise ConfigError("the result lacks counters of predict; rdmodel predict --json writes such a result") from None
    if wrong := next((name for name, value in counters.items() if not _is_count(value)), None):
        raise ConfigError(f"{wrong}={counters[wrong]!r}: must be a number")
    return counters


def describe_change(old: float, new: float) -> str:
    """Return a new value with its change, such as "1,024, was 512 (+100.00 %)"."""
    change = relative_change(old, new)
    percent = f" ({change:+.2f} %)" if isfinite(change) and change else ""
    return f"{number_text(new)}, was {number_text(old)}{percent}"


def number_text(value: float) -> str:
    """Return a count with thousands separators, or a rate with six digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
