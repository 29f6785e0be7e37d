"""Format a sweep as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rdmodel.cli.text_tables import format_gpu, format_kernel, format_table
from rdmodel.common.text import count, percent
from rdmodel.errors import escape_unprintable
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation
from rdmodel.sweeps.values import Result, Sweep, SweepRow

MAX_REASONS = 12
"""Number of points that cannot be run whose reasons are printed."""


def format_sweep(result: Sweep) -> str:
    """Return a line for each point that has a result, and the reasons why the others have none."""
    ran = [row for row in result.rows if row.result is not None]
    if not ran:
        return "\n".join(["no point of the shard has a result", "", *_format_infeasible(result.infeasible)]).rstrip()
    several_kernels = len({row.trace for row in result.rows}) > 1
    names = list(result.axes)
    results = [row.result for row in ran if row.result is not None]
    sectors = any(one.unit == "sectors" for one in results)
    numbers = [_columns_of(one, sectors) for one in results]
    head = [*(["kernel"] if several_kernels else []), *names, *numbers[0]]
    rows = [
        [
            *([_kernel_of(row)] if several_kernels else []),
            *(format_value(name, row.point[name]) for name in names),
            *columns.values(),
        ]
        for row, columns in zip(ran, numbers, strict=True)
    ]
    first = 1 if several_kernels else 0
    body = format_table(
        [[f"  {head[0]}", *head[1:]], *([f"  {row[0]}", *row[1:]] for row in rows)],
        right=range(first, len(head)),
        keys=first + len(names),
    )
    lines = [_format_heading(result, ran[0], several_kernels), "", body, "", _format_times(result)]
    return "\n".join([*lines, *_format_infeasible(result.infeasible)])


def format_value(name: str, value: Any) -> str:
    """Return a value as the command line takes it: sizes in K, ``none`` and ``true`` for None and True."""
    if name.endswith("size") and isinstance(value, int) and value % 1024 == 0 and value:
        return f"{value // 1024}K"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def format_point(point: Mapping[str, Any]) -> str:
    """Return a point as the command line takes it: ``l1_size=16K ways=4``."""
    return " ".join(f"{name}={format_value(name, value)}" for name, value in point.items())


def _format_heading(result: Sweep, first: SweepRow, several_kernels: bool) -> str:
    assert first.result is not None
    kernels = f"{len({row.trace for row in result.rows})} kernels" if several_kernels else _kernel_of(first)
    on = "" if "gpu" in result.axes else f" on {format_gpu(first.result.gpu)}"
    fixed = {name: value for name, value in result.fixed.items() if name != "gpu"}
    part = "" if result.shard is None else f", shard {result.shard[0]} of {result.shard[1]}"
    return f"{kernels}{on}, {result.engine}" + (f", {format_point(fixed)}" if fixed else "") + part


def _kernel_of(row: SweepRow) -> str:
    assert row.result is not None
    return format_kernel(row.kernel, row.result.config)


def _columns_of(result: Result, sectors: bool) -> dict[str, str]:
    """Return the columns of a result by their heads; with `sectors`, some result of the sweep counts sectors."""
    if isinstance(result, Simulation):
        return {
            **({"sectors": count(result.sectors)} if sectors else {"loads": count(result.loads)}),
            "miss rate": percent(result.misses.total, result.sectors),
            "cycles": count(result.cycles),
            "IPC": f"{result.ipc:,.2f}",
        }
    return {
        **({"sectors": count(result.sectors)} if sectors else {"transactions": count(result.transactions)}),
        **(_estimated_columns(result) if result.estimates else _exact_columns(result)),
    }


def _exact_columns(result: Prediction) -> dict[str, str]:
    requests, misses = result.sectors, result.misses
    parts = {
        "hits": result.hits,
        "compulsory": misses.compulsory,
        "capacity": misses.capacity,
        "associativity": misses.associativity,
        "miss rate": misses.total,
    }
    return {name: percent(part, requests) for name, part in parts.items()}


def _estimated_columns(result: Prediction) -> dict[str, str]:
    if "miss_rate" not in result.estimates:
        return dict.fromkeys(("miss rate", "at least", "at most"), "-")
    rate = result.estimates["miss_rate"]
    columns = {"miss rate": rate.value, "at least": rate.low, "at most": rate.high}
    return {name: f"{100 * value:.2f} %" for name, value in columns.items()}


def _format_times(result: Sweep) -> str:
    computed = len(result.rows) - len(result.infeasible) - result.kept
    kept = f", {result.kept:,} taken from answers files" if result.kept else ""
    return f"{computed:,} {'point' if computed == 1 else 'points'} run{kept}, {result.seconds:.2f} s"


def _format_infeasible(rows: Sequence[SweepRow]) -> Iterable[str]:
    """Yield a line for each point that has no result, up to `MAX_REASONS`."""
    several_kernels = len({row.trace for row in rows}) > 1
    for row in rows[:MAX_REASONS]:
        point = f"{row.kernel} {format_point(row.point)}" if several_kernels else format_point(row.point)
        yield escape_unprintable(f"cannot be run: {point}: {row.reason}")
    if len(rows) > MAX_REASONS:
        yield f"and {len(rows) - MAX_REASONS:,} more (--csv has all)"
