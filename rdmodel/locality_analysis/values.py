"""What a locality says, as frozen values: who uses a kernel's lines again, and how far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.results.simulation import Simulation

TYPES = ("streaming", "inter_warp", "intra_warp", "inter_intra_warp")
"""Types of lines, in the order of Koo et al., table 2; `Locality.reuse_distances` has them as keys."""


@dataclass(frozen=True, slots=True)
class ReReferences:
    """Load transactions to lines touched before, by who touched the line last (Khairy et al., 2015, section 3.1).

    On the same SM: a thread of the transaction itself (`intra_thread`), other threads of its warp (`inter_thread`),
    another warp of its block (`intra_block`), another block (`intra_core`). `inter_core`: nobody on this SM, but
    somebody on another one.
    """

    intra_thread: int
    inter_thread: int
    intra_block: int
    intra_core: int
    inter_core: int

    @property
    def intra_warp(self) -> int:
        """Those within a warp: intra-thread and inter-thread."""
        return self.intra_thread + self.inter_thread

    @property
    def total(self) -> int:
        """All of them."""
        return self.intra_warp + self.intra_block + self.intra_core + self.inter_core

    def to_dict(self) -> dict[str, int]:
        """Return the five counts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LineTypes:
    """Lines by the accesses that they had in all, and by the warp that brought them (Koo et al., 2017, table 2).

    One access: `streaming`. Several, one by the warp that brought the line: `inter_warp`; all by it: `intra_warp`;
    some by it: `inter_intra_warp`. A line counts once for every SM that loads it.
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
        """The type (of `TYPES`) that most lines have, the first of equals; None without lines."""
        return max(TYPES, key=lambda name: getattr(self, name)) if self.total else None

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

    `accesses` are its transactions, `hits` those that the L1 served (pending hits included), `lines` those that it
    brought: was the first to touch on an SM. `concentration` is the mean of its transactions per set they fall in
    (`rdmodel.concentration_by_load`).
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
        """The type that most of its lines have; None if it brings no line."""
        return self.lines.dominant

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the similarity and the dominant type."""
        return {**asdict(self), "similarity": self.similarity, "dominant": self.dominant}


@dataclass(frozen=True, slots=True, eq=False)
class AccessCounts:
    """How often lines are accessed (Koo et al., figure 4): `lines` of them `counts` times (int64, ascending)."""

    counts: NDArray[np.int64]
    lines: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Accesses per line; 0 without lines."""
        return float(self.counts @ self.lines) / int(self.lines.sum()) if len(self.lines) else 0.0

    def by_power(self) -> dict[str, int]:
        """Return how many lines have 1, 2, 3-4, 5-8, ... accesses, by those names, up to the most."""
        return _ranges(sums(_bit_lengths(self.counts - 1), self.lines), lambda k: ((1 << k) // 2 + 1, 1 << k))

    def __eq__(self, other: object) -> bool:
        """Two are equal if all their numbers are."""
        return self.to_dict() == other.to_dict() if isinstance(other, AccessCounts) else NotImplemented

    def to_dict(self) -> dict[str, int]:
        """Return the lines by their number of accesses."""
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
        """All of them."""
        return sum(self.buckets)

    def by_power(self) -> dict[str, int]:
        """Return how many are 0, 1, 2-3, 4-7, ..., by those names, up to the longest."""
        return _ranges(self.buckets, lambda k: ((1 << k) // 2, (1 << k) - 1))

    def to_dict(self) -> dict[str, Any]:
        """Return how many there are, their mean, and `by_power`."""
        return {"total": self.total, "mean": self.mean, "buckets": self.by_power()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """How a kernel's load transactions use lines again.

    `accesses` = `first_touches` + ``unbounded.total``, always. `unbounded` has all re-references, `bounded` those
    that the simulated L1s served (hits and pending hits). `lines` and `loads` have the types of lines in an L1 that
    never forgets, `reuse_distances` those of the accesses to lines of each type. `accesses_per_line` counts over the
    whole run, `accesses_per_stay` from one miss of a line to its next. `balance` is 1 where accesses are spread over
    the sets as by chance, more where some sets have more: the mean over SMs, weighted by accesses. `simulation` is
    the run that the accesses are from; ``simulation.contention`` has the classes of its evictions.
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
        """The access pattern similarity APS (Koo et al., equation 1): lines of their load's dominant type, by all."""
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
            "reuse_distances": {name: found.to_dict() for name, found in self.reuse_distances.items()},
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
        row |= {f"reuse_distance_{name}": found.mean for name, found in self.reuse_distances.items()}
        row["accesses_per_line"] = self.accesses_per_line.mean
        row["accesses_per_stay"] = self.accesses_per_stay.mean
        return row


# ---- numbers


def sums(at: NDArray[np.int64], values: NDArray[np.int64], length: int = 0) -> NDArray[np.int64]:
    """Return the sums of the values at 0, 1, 2, ..."""
    sums = np.zeros(max(length, int(at.max(initial=-1)) + 1), np.int64)
    np.add.at(sums, at, values)
    return sums


def _bit_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array([value.bit_length() for value in values.tolist()], np.int64)


def _ranges(numbers: Iterable[int], limits: Callable[[int], tuple[int, int]]) -> dict[str, int]:
    """Return numbers under the names of their ranges: "3" or "5-8"."""
    named = ((limits(k), n) for k, n in enumerate(numbers))
    return {str(low) if low == high else f"{low}-{high}": int(n) for (low, high), n in named}


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %"
