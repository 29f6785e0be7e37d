"""Represent where misses come from: the counters of a prediction by source line, array and instruction."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rdmodel.common.axes import draw_shares, given_or_new, literal, nothing_to_draw
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.rates import plain_rate, rate_of
from rdmodel.errors import ConfigError, escape_unprintable, unknown
from rdmodel.results.counts import MissCounts, StoreCounts
from rdmodel.results.origin_kinds import ORIGINS, Origin
from rdmodel.trace import ArrayInfo, InstructionSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginCounts:
    """The counters of a prediction for one origin.

    They have the names, and the meanings, of the counters of `Prediction`: summed over all origins, they are those. A
    request whose transactions have several origins counts for that of the last one. `sector_bytes` are the bytes that a
    sector moves between the L1 and the L2.
    """

    requests: float
    transactions: float
    hits: float
    latency_misses: float
    misses: MissCounts
    tag_misses: float
    sector_misses: float
    stores: StoreCounts
    bypassed_requests: float
    bypassed_transactions: float
    bypassed_sectors: float
    sector_bytes: int

    @property
    def sectors(self) -> float:
        """Sectors that the transactions of loads ask for."""
        return self.hits + self.latency_misses + self.misses.total

    @property
    def miss_rate(self) -> float:
        """Misses per sector, 0 to 1, latency misses left out; NaN without loads that look into the L1."""
        return rate_of(self.misses.total, self.sectors)

    @property
    def all_transactions(self) -> float:
        """Transactions of loads, of loads past the L1, and of stores."""
        return self.transactions + self.bypassed_transactions + self.stores.transactions

    @property
    def missed_sectors(self) -> float:
        """Sectors that loads fetch from the L2: those that miss, and those of loads past the L1."""
        return self.misses.total + self.bypassed_sectors

    @property
    def l2_bytes(self) -> float:
        """Bytes that move between the L1 and the L2: loads that miss or do not look, and stores that look up lines."""
        return self.sector_bytes * (self.missed_sectors + self.stores.sectors)

    def to_dict(self) -> dict[str, Any]:
        """Return the counters as plain numbers and dicts."""
        return {
            "requests": self.requests,
            "transactions": self.transactions,
            "sectors": self.sectors,
            "hits": self.hits,
            "latency_misses": self.latency_misses,
            "misses": self.misses.to_dict(),
            "miss_rate": plain_rate(self.miss_rate),
            "tag_misses": self.tag_misses,
            "sector_misses": self.sector_misses,
            "stores": self.stores.to_dict(),
            "bypassed_requests": self.bypassed_requests,
            "bypassed_transactions": self.bypassed_transactions,
            "bypassed_sectors": self.bypassed_sectors,
            "l2_bytes": self.l2_bytes,
        }


MAX_DRAWN_ORIGINS = 20
"""Origins in a figure."""

TALLIED_COUNTERS = (
    "requests",
    "transactions",
    "hits",
    "latency_misses",
    *MissCounts.CAUSES,
    "tag_misses",
    "sector_misses",
    *(f"store_{name}" for name in StoreCounts.COUNTS),
    "bypassed_requests",
    "bypassed_transactions",
    "bypassed_sectors",
)
"""Names of the numbers of an `OriginEntry`."""


@dataclass(frozen=True, slots=True)
class OriginEntry:
    """The `numbers` of an instruction and a place, by `TALLIED_COUNTERS`; `Origins` says what a place is."""

    pc: int
    place: int
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRow:
    """One origin: its `name`, its `counts`, and its `source` if it is an instruction or line whose source is known."""

    name: str
    counts: OriginCounts
    pc: int | None = None
    source: InstructionSource | None = None
    arrays: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the origin and its counters as plain values: `file`, `line`, `text` and `pc` where they are known."""
        plain: dict[str, Any] = {"name": self.name}
        if self.pc is not None:
            plain["pc"] = self.pc
        if self.source is not None:
            if self.source.line:
                plain |= {"file": self.source.file, "line": self.source.line}
            if self.source.text:
                plain["text"] = self.source.text
        if self.arrays:
            plain["arrays"] = list(self.arrays)
        return plain | self.counts.to_dict()


@dataclass(frozen=True, slots=True, repr=False)
class OriginTable(Presented):
    """The origins of one kind (`by`), those with most misses first; loads that do not look into the L1 miss as well."""

    by: Origin
    kernel: str
    rows: tuple[OriginRow, ...]

    def __str__(self) -> str:
        """Return the kind, the kernel, and the origin with most misses."""
        most = f", most misses at {self.rows[0].name}" if self.rows else ""
        return f"{self.kernel} by {self.by}: {len(self.rows)} origins{most}"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a list with a dict per origin, ready for JSON."""
        return [row.to_dict() for row in self.rows]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row per origin: for CSV and data frames."""
        rows = []
        for row in self.rows:
            flat: dict[str, Any] = {"kernel": self.kernel, "by": self.by}
            for name, value in row.to_dict().items():
                if isinstance(value, Mapping):
                    flat |= {f"{name}_{part}": number for part, number in value.items()}
                else:
                    flat[name] = ", ".join(value) if isinstance(value, list) else value
            rows.append(flat)
        return rows

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the main counters of each origin."""
        return [
            {
                self.by: row.name,
                "transactions": row.counts.transactions + row.counts.bypassed_transactions,
                "sectors": row.counts.sectors + row.counts.bypassed_sectors,
                **{f"{cause} misses": getattr(row.counts.misses, cause) for cause in MissCounts.CAUSES},
                "L1 miss rate (%)": 100 * row.counts.miss_rate,
                "stored sectors": row.counts.stores.sectors,
                "L2 bytes": row.counts.l2_bytes,
            }
            for row in self.rows
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the missed sectors of the origins with most of them on axes, new ones by default, and return them.

        Needs matplotlib (extra ``plot``). Raises `ConfigError` without misses.
        """
        missed = [(row.name, row.counts.missed_sectors) for row in self.rows]
        missed = [(name, number) for name, number in missed if number][:MAX_DRAWN_ORIGINS]
        if not missed:
            raise nothing_to_draw(self, "no load misses")
        ax = given_or_new(ax)
        draw_shares(ax, [name for name, _ in missed], [number for _, number in missed], "missed sectors")
        ax.set_title(literal(f"{self.kernel} by {self.by}"))
        return ax


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origins:
    """The counters of a prediction by instruction and place.

    Place i is array i of `arrays`, which are ascending. Of n arrays, place ``n + p`` has the other addresses that,
    divided by `place_bytes`, are p.
    """

    kernel: str
    entries: tuple[OriginEntry, ...]
    sources: Mapping[int, InstructionSource] = field(repr=False)
    arrays: tuple[ArrayInfo, ...]
    place_bytes: int
    sector_bytes: int

    def by(self, kind: Origin) -> OriginTable:
        """Return the counters by ``"line"``, ``"array"`` or ``"instruction"``.

        An instruction without a known line is a line of its own. Lines outside all arrays belong to ranges of
        addresses. Raises `ConfigError` for another kind.
        """
        if kind not in ORIGINS:
            raise ConfigError(unknown("origin", str(kind), ORIGINS))
        keys: Mapping[str, Callable[[OriginEntry], Any]] = {
            "line": lambda entry: self._line_of(entry.pc),
            "array": lambda entry: self._names[entry.place],
            "instruction": lambda entry: entry.pc,
        }
        groups: dict[Any, list[OriginEntry]] = {}
        for entry in self.entries:
            groups.setdefault(keys[kind](entry), []).append(entry)
        rows = [self._row(kind, entries) for entries in groups.values()]
        return OriginTable(kind, self.kernel, tuple(sorted(rows, key=_rank)))

    def _row(self, kind: Origin, entries: Sequence[OriginEntry]) -> OriginRow:
        first, counts = entries[0], self._counts(entries)
        if kind == "array":
            return OriginRow(name=self._names[first.place], counts=counts)
        source = self.sources.get(first.pc)
        arrays = tuple(dict.fromkeys(self._names[place] for place in sorted({entry.place for entry in entries})))
        if kind == "instruction" or source is None or not source.line:
            name = source.text if source is not None and source.text else f"pc {first.pc}"
            return OriginRow(name=escape_unprintable(name), counts=counts, pc=first.pc, source=source, arrays=arrays)
        name = f"{PurePath(source.file).name}:{source.line}"
        return OriginRow(name=escape_unprintable(name), counts=counts, source=replace(source, text=""), arrays=arrays)

    def _line_of(self, pc: int) -> tuple[str, int]:
        source = self.sources.get(pc)
        return (source.file, source.line) if source is not None and source.line else ("", -1 - pc)

    def _counts(self, entries: Iterable[OriginEntry]) -> OriginCounts:
        sums = dict(
            zip(TALLIED_COUNTERS, map(sum, zip(*(entry.numbers for entry in entries), strict=True)), strict=True)
        )
        misses = MissCounts(*(sums.pop(cause) for cause in MissCounts.CAUSES))
        stores = StoreCounts(*(sums.pop(f"store_{name}") for name in StoreCounts.COUNTS))
        return OriginCounts(misses=misses, stores=stores, sector_bytes=self.sector_bytes, **sums)

    @cached_property
    def _names(self) -> dict[int, str]:
        """The names of places: of arrays, and of the ranges that neighbouring places outside arrays make up."""
        repeated = Counter(array.name for array in self.arrays)
        names = {
            place: array.name if repeated[array.name] == 1 else f"{array.name} at {array.base:#x}"
            for place, array in enumerate(self.arrays)
        }
        outside = sorted({entry.place - len(self.arrays) for entry in self.entries if entry.place >= len(self.arrays)})
        runs: list[list[int]] = []
        for number in outside:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        for run in runs:
            name = f"{run[0] * self.place_bytes:#x} to {(run[-1] + 1) * self.place_bytes - 1:#x}"
            names |= {len(self.arrays) + number: name for number in run}
        return names


def _rank(row: OriginRow) -> tuple[float, ...]:
    """Return the key by which origins are ordered: misses first, then what stores move, then transactions."""
    counts = row.counts
    return (
        -counts.missed_sectors,
        -counts.stores.sectors,
        -counts.transactions,
    )


def add_origins(parts: Sequence[Origins], runs: int = 1) -> Origins:
    """Return the sums over parts of a run, divided by a number of runs."""
    sums: dict[tuple[int, int], list[float]] = {}
    for part in parts:
        for entry in part.entries:
            numbers = sums.setdefault((entry.pc, entry.place), [0] * len(TALLIED_COUNTERS))
            for at, number in enumerate(entry.numbers):
                numbers[at] += number
    entries = (
        OriginEntry(*key, tuple(numbers if runs == 1 else (number / runs for number in numbers)))
        for key, numbers in sorted(sums.items())
    )
    sources = {pc: source for part in parts for pc, source in part.sources.items()}
    return replace(parts[0], entries=tuple(entries), sources=sources)
