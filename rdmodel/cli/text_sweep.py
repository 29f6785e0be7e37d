"""A sweep as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rdmodel.cli.text import count, percent, subject, table
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation
from rdmodel.sweeps.values import Result, Sweep, SweepRow

REASONS = 12
"""Points that cannot be run of which the reasons are shown."""


def sweep(result: Sweep) -> str:
    """Return a sweep: a line for each point that has a result, and the reasons of the others."""
    ran = [row for row in result.rows if row.result is not None]
    several = len({row.trace for row in result.rows}) > 1
    names = list(result.axes)
    numbers = [_numbers(row.result) for row in ran if row.result is not None]
    head = [*(["kernel"] if several else []), *names, *numbers[0]]
    rows = [
        [*([_subject(row)] if several else []), *(value_text(name, row.point[name]) for name in names), *one.values()]
        for row, one in zip(ran, numbers, strict=True)
    ]
    first = 1 if several else 0
    body = table([[f"  {head[0]}", *head[1:]], *([f"  {row[0]}", *row[1:]] for row in rows)], range(first, len(head)))
    lines = [_heading(result, ran[0], several), "", body, "", _times(result)]
    return "\n".join([*lines, *_left_out(result.infeasible)])


def value_text(name: str, value: Any) -> str:
    """Return a value as people write it: sizes in K, ``none`` and ``true`` for None and True."""
    if name.endswith("size") and isinstance(value, int) and value % 1024 == 0 and value:
        return f"{value // 1024}K"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def point_text(point: Mapping[str, Any]) -> str:
    """Return a point as people write it: ``l1_size=16K ways=4``."""
    return " ".join(f"{name}={value_text(name, value)}" for name, value in point.items())


def _heading(result: Sweep, first: SweepRow, several: bool) -> str:
    assert first.result is not None
    what = f"{len({row.trace for row in result.rows})} kernels" if several else _subject(first)
    on = "" if "gpu" in result.axes else f" on {first.result.gpu}"
    fixed = {name: value for name, value in result.fixed.items() if name != "gpu"}
    return f"{what}{on}, {result.engine}" + (f", {point_text(fixed)}" if fixed else "")


def _subject(row: SweepRow) -> str:
    assert row.result is not None
    return subject(row.kernel, row.result.config)


def _numbers(result: Result) -> dict[str, str]:
    """Return the columns of a result."""
    if isinstance(result, Simulation):
        return {
            "loads": count(result.loads),
            "miss rate": percent(result.misses.total, result.loads),
            "cycles": count(result.cycles),
            "IPC": f"{result.ipc:,.2f}",
        }
    return {"transactions": count(result.transactions), **(_estimated(result) if result.estimates else _causes(result))}


def _causes(result: Prediction) -> dict[str, str]:
    whole, misses = result.transactions, result.misses
    parts = {
        "hits": result.hits,
        "compulsory": misses.compulsory,
        "capacity": misses.capacity,
        "associativity": misses.associativity,
        "miss rate": misses.total,
    }
    return {name: percent(part, whole) for name, part in parts.items()}


def _estimated(result: Prediction) -> dict[str, str]:
    rate = result.estimates["miss_rate"]
    found = {"miss rate": rate.value, "at least": rate.low, "at most": rate.high}
    return {name: f"{100 * value:.2f} %" for name, value in found.items()}


def _times(result: Sweep) -> str:
    made = len(result.rows) - len(result.infeasible) - result.kept
    kept = f", {result.kept:,} kept from before" if result.kept else ""
    return f"{made:,} {'point' if made == 1 else 'points'} run{kept}, {result.seconds:.2f} s"


def _left_out(rows: Sequence[SweepRow]) -> Iterable[str]:
    """Yield lines about points that have no result."""
    several = len({row.trace for row in rows}) > 1
    for row in rows[:REASONS]:
        what = f"{row.kernel} {point_text(row.point)}" if several else point_text(row.point)
        yield f"cannot be run: {what}: {row.reason}"
    if len(rows) > REASONS:
        yield f"and {len(rows) - REASONS:,} more (--csv has all)"
