"""Hold the locality of a kernel as frozen values: classes of re-references, types of lines, and reuse distances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.axes import draw_groups, given_or_new, literal
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.results.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_TYPES = ("streaming", "inter_warp", "intra_warp", "inter_intra_warp")
"""Types of lines, in the order of Koo et al., table 2; the keys of `Locality.reuse_distances`."""


@dataclass(frozen=True, slots=True)
class ReReferences:
    """Load transactions to lines touched before, by the last access to the line (Khairy et al., 2015, section 3.1).

    If the line was touched on the same SM, the last access was by a thread of the transaction itself (`intra_thread`),
    by other threads of its warp (`inter_thread`), by another warp of its block (`intra_block`) or by another block
    (`intra_core`). Otherwise only other SMs have touched the line (`inter_core`).
    """

    intra_thread: int
    inter_thread: int
    intra_block: int
    intra_core: int
    inter_core: int

    @property
    def intra_warp(self) -> int:
        """Re-references within a warp: intra-thread and inter-thread."""
        return self.intra_thread + self.inter_thread

    @property
    def total(self) -> int:
        """All re-references."""
        return self.intra_warp + self.intra_block + self.intra_core + self.inter_core

    def to_dict(self) -> dict[str, int]:
        """Return the five counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LineTypes:
    """Number of lines of each type, by their accesses and the warp that brought them (Koo et al., 2017, table 2).

    A `streaming` line has one access. Of several accesses, the warp that brought the line made one (`inter_warp`), all
    (`intra_warp`), or some (`inter_intra_warp`). A line counts once for every SM that loads it.
    """

    streaming: int
    inter_warp: int
    intra_warp: int
    inter_intra_warp: int

    @property
    def total(self) -> int:
        """All lines."""
        return self.streaming + self.inter_warp + self.intra_warp + self.inter_intra_warp

    @property
    def dominant(self) -> str | None:
        """Most frequent type, one of `LINE_TYPES` and the first of equals; None without lines."""
        return max(LINE_TYPES, key=lambda name: getattr(self, name)) if self.total else None

    @property
    def similarity(self) -> float | None:
        """Share of the lines that have the dominant type, 0.25 to 1; None without lines."""
        return max(asdict(self).values()) / self.total if self.total else None

    def to_dict(self) -> dict[str, int]:
        """Return the four counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LoadLocality:
    """One load instruction of the kernel, over all warps and SMs.

    `accesses` are its transactions, and `hits` those that the L1 served, pending hits included. `lines` are the lines
    that it brought, by being the first to touch them on an SM. `concentration` is the mean number of its transactions
    per set that they fall in (`rdmodel.concentration_by_load`).
    """

    pc: int
    accesses: int
    hits: int
    lines: LineTypes
    concentration: float

    @property
    def similarity(self) -> float | None:
        """Share of its lines that have its dominant type; None if it brings no line."""
        return self.lines.similarity

    @property
    def dominant(self) -> str | None:
        """Type of most of its lines; None if it brings no line."""
        return self.lines.dominant

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the similarity and the dominant type."""
        return {**asdict(self), "similarity": self.similarity, "dominant": self.dominant}


@dataclass(frozen=True, slots=True, eq=False)
class AccessCounts:
    """Accesses per line (Koo et al., figure 4): `lines` of them have `counts` accesses (int64, ascending)."""

    counts: NDArray[np.int64]
    lines: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Mean number of accesses per line; 0 without lines."""
        return float(self.counts @ self.lines) / int(self.lines.sum()) if len(self.lines) else 0.0

    def by_power(self) -> dict[str, int]:
        """Return the number of lines with 1, 2, 3-4, 5-8, ... accesses, by those names."""
        lines = sum_by_index(_bit_lengths(self.counts - 1), self.lines)
        return _name_ranges(lines, lambda k: ((1 << k) // 2 + 1, 1 << k))

    def __eq__(self, other: object) -> bool:
        """Compare all numbers."""
        return self.to_dict() == other.to_dict() if isinstance(other, AccessCounts) else NotImplemented

    def to_dict(self) -> dict[str, int]:
        """Return the number of lines by their number of accesses."""
        return {str(count): n for count, n in zip(self.counts.tolist(), self.lines.tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class ReuseDistances:
    """Reuse distances of accesses on their SM: ``buckets[k]`` of them have a bit length of k (0, 1, 2-3, 4-7, ...).

    A distance is the number of distinct other lines that the SM's loads touched in between.
    """

    buckets: tuple[int, ...]
    mean: float

    @property
    def total(self) -> int:
        """Number of distances."""
        return sum(self.buckets)

    def by_power(self) -> dict[str, int]:
        """Return the number of distances of 0, 1, 2-3, 4-7, ..., by those names."""
        return _name_ranges(self.buckets, lambda k: ((1 << k) // 2, (1 << k) - 1))

    def to_dict(self) -> dict[str, Any]:
        """Return the number of distances, their mean, and `by_power`."""
        return {"total": self.total, "mean": self.mean, "buckets": self.by_power()}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Locality(Presented):
    """Locality of a kernel's load transactions.

    `accesses` = `first_touches` + ``unbounded.total``, always. `unbounded` counts all re-references, `bounded` those
    that the simulated L1s served (hits and pending hits). `lines` and `loads` have the types of lines in an L1 that
    never evicts one, `reuse_distances` the distances of accesses to lines of each type. `accesses_per_line` counts over
    the whole run, `accesses_per_stay` from one miss of a line to its next. `balance` is 1 if accesses are spread over
    the sets as by chance, and more if some sets have more: the mean over SMs, weighted by accesses. `simulation` is the
    run that the accesses are from; ``simulation.contention`` has the classes of its evictions.
    """

    accesses: int
    first_touches: int
    unbounded: ReReferences
    bounded: ReReferences
    lines: LineTypes
    loads: tuple[LoadLocality, ...] = field(repr=False)
    accesses_per_line: AccessCounts = field(repr=False)
    accesses_per_stay: AccessCounts = field(repr=False)
    reuse_distances: Mapping[str, ReuseDistances] = field(repr=False)
    balance: float
    simulation: Simulation = field(repr=False)

    @property
    def similarity(self) -> float:
        """Access pattern similarity APS (Koo et al., equation 1): share of lines of their load's dominant type."""
        dominant = sum(max(load.lines.to_dict().values()) for load in self.loads)
        return dominant / self.lines.total if self.lines.total else 0.0

    def __str__(self) -> str:
        """Return the locality in one line."""
        run, on_sm = self.simulation, self.unbounded.total - self.unbounded.inter_core
        return (
            f"{run.kernel} on {run.gpu}: {_percent(on_sm, self.accesses)} of {self.accesses:,} load transactions use "
            f"a line of their SM again, {_percent(self.bounded.total, self.accesses)} while the L1 has it; "
            f"APS {self.similarity:.2f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts, ready for JSON."""
        run = self.simulation
        return {
            "kernel": run.kernel,
            "gpu": run.gpu,
            "seed": run.seed,
            "sms": run.sms,
            "accesses": self.accesses,
            "first_touches": self.first_touches,
            "unbounded": self.unbounded.to_dict(),
            "bounded": self.bounded.to_dict(),
            "lines": self.lines.to_dict(),
            "similarity": self.similarity,
            "balance": self.balance,
            "miss_rate": run.miss_rate,
            "contention": run.contention.to_dict(),
            "reuse_distances": {name: distances.to_dict() for name, distances in self.reuse_distances.items()},
            "accesses_per_line": self.accesses_per_line.to_dict(),
            "accesses_per_stay": self.accesses_per_stay.to_dict(),
            "loads": [load.to_dict() for load in self.loads],
            "trace_seconds": run.trace_seconds,
            "seconds": run.seconds,
            "config": dict(run.config),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the counts as one flat row: for CSV and data frames."""
        plain = self.to_dict()
        row = {name: value for name, value in plain.items() if isinstance(value, str | int | float)}
        for group in ("unbounded", "bounded", "lines", "contention"):
            row |= {f"{group}_{name}": value for name, value in plain[group].items()}
        row |= {f"reuse_distance_{name}": distances.mean for name, distances in self.reuse_distances.items()}
        row["accesses_per_line"] = self.accesses_per_line.mean
        row["accesses_per_stay"] = self.accesses_per_stay.mean
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the classes of re-references: their accesses, and those that the L1s served."""
        bounded = self.bounded.to_dict()
        return [
            {"re-references": name.replace("_", "-"), "accesses": n, "served by the L1": bounded[name]}
            for name, n in self.unbounded.to_dict().items()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the re-references by class, and those that the L1s served, as shares of the load transactions.

        Returns the axes, new ones by default; needs matplotlib (extra ``plot``).
        """
        ax, total = given_or_new(ax), max(1, self.accesses)
        classes = {"all": self.unbounded.to_dict(), "served by the L1": self.bounded.to_dict()}
        shares = {name: [100 * n / total for n in counts.values()] for name, counts in classes.items()}
        names = [name.replace("_", "-") for name in self.unbounded.to_dict()]
        draw_groups(ax, names, shares, "% of the load transactions", turned_from=len(names) + 1)
        ax.set_title(literal(f"{self.simulation.kernel} on {self.simulation.gpu}"))
        return ax


# ---- numbers


def sum_by_index(at: NDArray[np.int64], values: NDArray[np.int64], length: int = 0) -> NDArray[np.int64]:
    """Return the sum of the values at each index 0, 1, 2, ..."""
    totals = np.zeros(max(length, int(at.max(initial=-1)) + 1), np.int64)
    np.add.at(totals, at, values)
    return totals


def _bit_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array([value.bit_length() for value in values.tolist()], np.int64)


def _name_ranges(numbers: Iterable[int], limits: Callable[[int], tuple[int, int]]) -> dict[str, int]:
    """Return numbers by the names of their ranges, such as "3" or "5-8"."""
    named = ((limits(k), n) for k, n in enumerate(numbers))
    return {str(low) if low == high else f"{low}-{high}": int(n) for (low, high), n in named}


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %"
