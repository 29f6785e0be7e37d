"""``python -m validation.hardware --simulator``: simulate the measured rows, on machines and under schedulers.

The machines differ in the core alone. The steps from the preset to the last machine add one property at a time that a
Fermi SM has, so that the record shows the part of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

import rdmodel as rd
from validation.common import records
from validation.hardware import compiled
from validation.hardware import launches as python
from validation.hardware.rows import FOLDER, Row, read_rows
from validation.hardware.study import GPU, Source

CSV = FOLDER / "simulated.csv"
RESULTS = FOLDER / "RESULTS-simulator.md"

PASSES = 2
"""Passes that represent corr.corr and covar.covar: the simulator takes 20 times as long as the model."""

DEPENDENT = {"alu_latency": 9}
"""Dependent arithmetic: 18 cycles of the shader clock (Volkov, GTC 2010), which is twice the clock of the preset."""

QUEUE = {"ldst_queue": 8}
"""Inferred: room for several instructions between schedulers and L1, as in the pipelines of simulated Fermi GPUs."""

ACKNOWLEDGED = {"store_acks": True}

MACHINES: Mapping[str, Mapping[str, Any]] = {
    "preset": {},
    "+ dependent arithmetic": DEPENDENT,
    "+ queue of 8": {**DEPENDENT, **QUEUE},
    "+ store acknowledgements": {**DEPENDENT, **QUEUE, **ACKNOWLEDGED},
}
"""Fields of `core` that differ from the preset, by machine; each line adds to the one before."""

LAST = "+ store acknowledgements"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the record: a source of traces, a machine and a scheduler."""

    source: Source
    machine: str
    sched: str

    def __str__(self) -> str:
        """Return the head of the column."""
        return f"{self.source}, {self.machine}, {self.sched}"


COLUMNS = (
    Column("python", "preset", "lrr"),
    Column("python", "preset", "gto"),
    Column("python", LAST, "lrr"),
    *(Column("cuda", machine, "lrr") for machine in MACHINES),
    *(Column("cuda", LAST, sched) for sched in ("two-level", "gto")),
)


@dataclass(frozen=True, slots=True)
class Simulated:
    """A measured row in one column: rates in percent."""

    kernel: str
    source: str
    machine: str
    sched: str
    measured: float
    miss_rate: float
    pending_hit_rate: float

    @property
    def error(self) -> float:
        """Signed error in percentage points."""
        return self.miss_rate - self.measured


def tasks(rows: Sequence[Row]) -> list[tuple[Row, Column]]:
    """Return every pair of a row and a column."""
    return list(product(rows, COLUMNS))


def run(task: tuple[Row, Column]) -> Simulated:
    """Simulate a row on one machine, whole grids on all SMs, with counters summed over its launches."""
    row, column = task
    preset = rd.presets.gpu(GPU)
    gpu = preset.replace(core=dataclasses.replace(preset.core, **MACHINES[column.machine]))
    launches = compiled.launches if column.source == "cuda" else python.launches
    runs = [rd.simulate(trace, gpu, sched=column.sched) for trace in launches(row, 1, PASSES)]
    sectors = sum(found.sectors for found in runs)
    return Simulated(
        kernel=row.kernel,
        source=column.source,
        machine=column.machine,
        sched=column.sched,
        measured=row.measured,
        miss_rate=round(100 * sum(found.misses.total for found in runs) / sectors, 4),
        pending_hit_rate=round(100 * sum(found.pending_hits for found in runs) / sectors, 4),
    )


def simulate_rows(rows: Sequence[Row], jobs: int = 1) -> list[Simulated]:
    """Return all rows in all columns."""
    return list(records.run_all(run, tasks(rows), jobs))


def mean_error(found: Sequence[Simulated], column: Column) -> float:
    """Return the mean absolute error of a column in points."""
    return fmean(abs(each.error) for each in found if (each.source, each.machine, each.sched) == _key(column))


def _key(column: Column) -> tuple[str, str, str]:
    return column.source, column.machine, column.sched


def page(found: Sequence[Simulated]) -> str:
    """Return the tables in Markdown: mean errors by column, then the rows."""
    by_place = {(each.kernel, each.source, each.machine, each.sched): each for each in found}
    kernels = list(dict.fromkeys(each.kernel for each in found))
    lines = [
        "| column | traces | machine | scheduler | mean error | largest | without gemm |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for number, column in enumerate(COLUMNS, start=1):
        errors = {kernel: abs(by_place[(kernel, *_key(column))].error) for kernel in kernels}
        worst = max(errors, key=lambda kernel: errors[kernel])
        others = [error for kernel, error in errors.items() if kernel != "gemm"] or [0.0]
        lines.append(
            f"| {number} | {column.source} | {column.machine} | {column.sched} | {fmean(errors.values()):.2f} "
            f"| {errors[worst]:.1f} ({worst}) | {fmean(others):.2f} |"
        )
    heads = [str(number) for number in range(1, len(COLUMNS) + 1)]
    lines += ["", f"| kernel | measured | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    for kernel in kernels:
        own = [by_place[(kernel, *_key(column))] for column in COLUMNS]
        cells = [f"{each.miss_rate:.1f} ({each.error:+.1f})" for each in own]
        lines.append(f"| {kernel} | {own[0].measured:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(found: Sequence[Simulated]) -> None:
    """Renew the committed record."""
    CSV.write_text(records.to_csv(Simulated, found))
    RESULTS.write_text(
        "# GTX 570: measured and simulated L1 miss rates\n\n"
        "Written by `python -m validation.hardware --simulator --record`. Rates are in percent, errors in percentage\n"
        f"points in brackets. Whole grids run on all 15 SMs; {PASSES} passes represent corr.corr and covar.covar.\n"
        "Each machine with a plus adds to the one above it.\n\n" + page(found)
    )


def read() -> list[Simulated]:
    """Return the rows of the committed record."""
    return records.from_csv(Simulated, CSV.read_text())


def compare(rows: Sequence[Row] | None, jobs: int, *, record: bool, as_csv: bool) -> None:
    """Simulate some rows (None: all), and print or record them."""
    found = simulate_rows(read_rows() if rows is None else rows, jobs)
    if record:
        write(found)
    else:
        print(records.to_csv(Simulated, found) if as_csv else page(found), end="")
