"""Define the result of a sweep: a row for every kernel and point of the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from math import isnan, nan
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rdmodel.common.axes import draw_groups, draw_lines, given_or_new, literal, nothing_to_draw
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.text import counted
from rdmodel.errors import ConfigError
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def plot(self, ax: Axes | None = None, *, measure: str | Callable[[Any], float] = "miss_rate") -> Axes:
        """Draw a measure of the results over the last axis of the grid, and return the axes.

        Every kernel and combination of the other axes has a line, or bars if the values of the last axis are no
        numbers; points that could not be run, and rates without loads, leave gaps. `measure` is as in `best`. The axes
        are new ones by default; needs matplotlib (extra ``plot``). Raises `ConfigError` for a measure that the results
        do not have, and if there is nothing to draw.
        """
        value = attrgetter(measure) if isinstance(measure, str) else measure
        if self.axes:
            *others, across = self.axes
            places: tuple[Any, ...] = self.axes[across]
        else:
            others, across, places = [], "", ("",)
        series: dict[str, list[float | None]] = {}
        for row in self.rows:
            try:
                number = nan if row.result is None else float(value(row.result))
            except (AttributeError, TypeError):
                raise ConfigError(f"measure={measure!r}: the results have no such number") from None
            line = series.setdefault(self._line_name(row, others), [None] * len(places))
            line[places.index(row.point[across]) if across else 0] = None if isnan(number) else number
        series = {name: numbers for name, numbers in series.items() if any(one is not None for one in numbers)}
        if not series:
            raise nothing_to_draw(self, "no point has a result")
        ax = given_or_new(ax)
        label = (measure if isinstance(measure, str) else getattr(measure, "__name__", "measure")).replace("_", " ")
        if all(isinstance(place, int | float) and not isinstance(place, bool) for place in places):
            draw_lines(ax, places, series, label)
        else:
            draw_groups(ax, [str(place) for place in places], series, label)
        ax.set_xlabel(literal(across))
        return ax

    def _line_name(self, row: SweepRow, others: Sequence[str]) -> str:
        """Return the name of the line of a row: its kernel, if there are several, and its place on other axes."""
        traces = {each.trace: each.kernel for each in self.rows}
        same = sum(kernel == row.kernel for kernel in traces.values()) > 1
        kernel = [f"{row.kernel} ({row.trace})" if same else row.kernel] if len(traces) > 1 or not others else []
        return ", ".join([*kernel, *(f"{name}={row.point[name]}" for name in others)])

    def __str__(self) -> str:
        """Return the numbers of kernels, points and results in one line."""
        kernels = len({row.trace for row in self.rows})
        ran = len(self.rows) - len(self.infeasible)
        return f"{counted(kernels, 'kernel')}, {counted(len(self.rows), 'point')} ({self.engine}), {ran} with a result"

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
