"""Define the result of a sweep: a row for every kernel and point of the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from rdmodel.common.presentation import Presented
from rdmodel.errors import ConfigError
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation

Result = Prediction | Simulation
"""The result of an engine at one point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """The `result` of one kernel at one `point` of the grid, which maps names to values.

    `trace` is the index of the kernel's trace in the arguments of `sweep`. If the point cannot be run, `result` is None
    and `reason` is the error message; otherwise `reason` is None.
    """

    trace: int
    kernel: str
    point: Mapping[str, Any]
    result: Result | None = field(repr=False)
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row in plain types, ready for JSON."""
        return {
            "trace": self.trace,
            "kernel": self.kernel,
            "point": dict(self.point),
            "result": None if self.result is None else self.result.to_dict(),
            "reason": self.reason,
        }

    def to_row(self) -> dict[str, Any]:
        """Return a flat row: the kernel, the point, the columns of the result, and the reason."""
        head = {"trace": self.trace, "kernel": self.kernel, **self.point}
        counts = {} if self.result is None else self.result.to_row()
        # Columns that are in both the point and the result appear once.
        return {**head, **{name: value for name, value in counts.items() if name not in head}, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sweep(Presented):
    """The results of kernels at every point of a grid.

    `rows` are in order of kernels, then of points; the values of the last name change fastest. `engine` is "predict",
    "estimate" or "simulate". `axes` has the values of each name that was given a list, `fixed` the names with a single
    value. `kept` is the number of results that were found in answers files, `trouble` the last problem with the answers
    file, or None, and `seconds` the duration of the sweep. Of a part of a sweep, `shard` is its number and that of all.
    """

    engine: str
    axes: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any]
    rows: tuple[SweepRow, ...]
    kept: int = field(default=0, compare=False)
    trouble: str | None = field(default=None, compare=False, repr=False)
    shard: tuple[int, int] | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def infeasible(self) -> tuple[SweepRow, ...]:
        """The rows that could not be run."""
        return tuple(row for row in self.rows if row.result is None)

    def best(self, measure: str | Callable[[Any], float] = "miss_rate") -> SweepRow:
        """Return the row with the least `measure`, the first of equal ones; rows without a rate (NaN) come last.

        `measure` is the name of a number of the result (``"miss_rate"``, ``"misses.total"``, ``"cycles"``), or a
        function of the result. Raises `ConfigError` for a name that the results do not have.
        """
        value = attrgetter(measure) if isinstance(measure, str) else measure
        try:
            numbers = [(row, value(row.result)) for row in self.rows if row.result is not None]
            # NaN differs from itself.
            return min(numbers, key=lambda pair: (pair[1] != pair[1], pair[1]))[0]
        except (AttributeError, TypeError):
            if not isinstance(measure, str):
                raise
            raise ConfigError(f"measure={measure!r}: the results have no such number") from None

    def __str__(self) -> str:
        """Return the numbers of kernels, points and results in one line."""
        kernels = len({row.trace for row in self.rows})
        ran = len(self.rows) - len(self.infeasible)
        return f"{_count(kernels, 'kernel')}, {_count(len(self.rows), 'point')} ({self.engine}), {ran} with a result"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain numbers, strings, lists and dicts, ready for JSON."""
        return {
            "engine": self.engine,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "fixed": dict(self.fixed),
            "rows": [row.to_dict() for row in self.rows],
            "kept": self.kept,
            **({} if self.shard is None else {"shard": list(self.shard)}),
            "seconds": self.seconds,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for every kernel and point."""
        return [row.to_row() for row in self.rows]

    def shown_rows(self) -> Iterator[dict[str, Any]]:
        """Yield for every kernel and point its place on the axes, the miss rate in percent, and the cycles or steps."""
        for row in self.rows:
            shown = {"kernel": row.kernel, **{name: row.point[name] for name in self.axes}}
            if row.result is None:
                yield {**shown, "reason": row.reason}
            elif isinstance(row.result, Simulation):
                yield {**shown, "L1 miss rate (%)": 100 * row.result.miss_rate, "cycles": row.result.cycles}
            else:
                yield {**shown, "L1 miss rate (%)": 100 * row.result.miss_rate, "steps": row.result.steps}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
