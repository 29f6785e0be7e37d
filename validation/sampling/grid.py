"""Compare samples of whole grids, with the L2, with runs of everything: ``python -m validation.sampling --grid``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Any

import tracegen
from rdmodel import Prediction, predict
from rdmodel.errors import ConfigError
from validation.common import records
from validation.common.estimated import EstimatedRow

FOLDER = Path(__file__).parent
MEASURED, RESULTS = FOLDER / "grid.csv", FOLDER / "GRID.md"

GPUS = ("t4", "rtx3070", "p100")
WORK = 500_000
SEEDS = (0, 1, 2)
CASES: Mapping[str, Mapping[str, int]] = {
    "vectoradd": {"N": 1 << 22},
    "2dconv": {"NI": 2048, "NJ": 1024},
    "gemm": {"NI": 256, "NJ": 512, "NK": 384},
    "gemm.tiled": {"NI": 512, "NJ": 512, "NK": 384},
    "syrk": {"N": 256, "M": 128},
    "syr2k": {"N": 256, "M": 64},
    "fdtd2d.1": {"NX": 2048, "NY": 1024},
    "fdtd2d.3": {"NX": 2048, "NY": 1024},
    "3dconv": {"NI": 128, "NJ": 1024, "NK": 1024},
    "atax.2": {"NX": 8192, "NY": 4096},
    "transpose.tiled": {"NI": 2048, "NJ": 2048},
    "hotspot": {"ROWS": 1024, "COLS": 1024},
}
"""Kernels and their sizes."""

COUNTS = ("sectors", "misses", "l2_reads", "l2_misses", "l2_writes", "dram_read_sectors", "dram_write_sectors")
QUICK = ("vectoradd", "t4")
"""The case that a test runs again."""

DIGITS = 7
"""Significant digits of recorded counts."""


@dataclass(frozen=True, slots=True)
class GridRow(EstimatedRow):
    """A counter of one kernel on one GPU, exact and estimated; `time`: processor time relative to the exact run.

    Where there is no sample, `count` is "whole" (everything was run) or "refused".
    """

    gpu: str
    kernel: str
    seed: int
    count: str
    exact: float
    value: float
    low: float
    high: float
    time: float


def measure_case(task: tuple[str, str], seeds: Sequence[int] = SEEDS) -> list[GridRow]:
    """Return the rows of (kernel, GPU): samples with several seeds, and a run of everything with the first one."""
    kernel, gpu = task
    sizes: Mapping[str, Any] = CASES[kernel]
    trace = tracegen.kernel(kernel, **sizes)
    started = process_time()
    exact = _counts(predict(trace, gpu, l2=True, histogram=False, n_jobs=1, work=None))
    whole = process_time() - started
    rows = []
    for seed in seeds:
        started = process_time()
        try:
            found = predict(trace, gpu, l2=True, n_jobs=1, work=WORK, seed=seed)
        except ConfigError:
            return [GridRow(gpu, kernel, 0, "refused", 0.0, 0.0, 0.0, 0.0, 0.0)]
        time = round((process_time() - started) / whole, 2)
        if not found.estimates:
            return [GridRow(gpu, kernel, 0, "whole", 0.0, 0.0, 0.0, 0.0, 0.0)]
        for name in COUNTS:
            one = found.estimates[name]
            true, value, low, high = (float(f"{x:.{DIGITS}g}") for x in (exact[name], one.value, one.low, one.high))
            rows.append(GridRow(gpu, kernel, seed, name, true, value, low, high, time))
    return rows


def _counts(found: Prediction) -> dict[str, float]:
    assert found.l2 is not None
    return {
        "sectors": found.sectors,
        "misses": found.misses.total,
        "l2_reads": found.l2.reads,
        "l2_misses": found.l2.misses,
        "l2_writes": found.l2.writes,
        "dram_read_sectors": found.l2.dram_read_sectors,
        "dram_write_sectors": found.l2.write_backs,
    }


def measure(jobs: int) -> Iterator[GridRow]:
    """Yield the rows of all cases."""
    for rows in records.run_all(measure_case, [(kernel, gpu) for gpu in GPUS for kernel in CASES], jobs):
        yield from rows


def differences(rows: Sequence[GridRow], recorded: Sequence[GridRow]) -> list[str]:
    """Return a line for each row that differs from the recorded one in more than time."""
    before = {replace(row, time=0.0) for row in recorded}
    return [f"not as recorded: {row}" for row in rows if replace(row, time=0.0) not in before]


def results(rows: Sequence[GridRow]) -> str:
    """Return the page in Markdown."""
    sampled = [row for row in rows if row.count in COUNTS]
    others = [row for row in rows if row.count not in COUNTS]
    measured = len({(row.gpu, row.kernel) for row in rows})
    lines = [
        "# Coverage of the intervals of sampled grids",
        "",
        "Written by `python -m validation.sampling --grid --record`, with `grid.csv`. `predict` with `l2=True` and",
        f"`work={WORK}` and the seeds {', '.join(map(str, SEEDS))} is compared with a run of everything with the first",
        f"seed, on {', '.join(GPUS)}. The record has {measured} of the {len(CASES) * len(GPUS)} cases (kernel and GPU)",
        "that the command runs.",
        "Errors and half widths of intervals are relative to the exact count, in percent (medians). Intervals are",
        "meant to hold the exact count in 95 % of all cases.",
        "",
        "| count | samples | intervals that hold | median error | largest error | median half width | time |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for count in COUNTS:
        some = [row for row in sampled if row.count == count]
        real = [row for row in some if row.exact]
        if some:
            errors, widths = [100 * abs(row.error) for row in real], [100 * row.width for row in real]
            held, time = fmean(row.holds for row in some), median(row.time for row in some)
            lines.append(
                f"| {count} | {len(some)} | {100 * held:.0f} % | {median(errors):.1f} | {max(errors):.0f} "
                f"| {median(widths):.1f} | {time:.2f} |"
            )
    held = fmean(row.holds for row in sampled)
    lines += [f"| all | {len(sampled)} | {100 * held:.1f} % | | | | |", "", "## Intervals that do not hold", ""]
    lines += ["| GPU | kernel | seed | count | exact | estimate | interval |", "|---|---|---:|---|---:|---:|---:|"]
    lines += [
        f"| {row.gpu} | {row.kernel} | {row.seed} | {row.count} | {row.exact:.4g} | {row.value:.4g} "
        f"| {row.low:.4g} to {row.high:.4g} |"
        for row in sampled
        if not row.holds
    ]
    lines += ["", "## Without a sample", "", "| GPU | kernel | |", "|---|---|---|"]
    lines += [f"| {row.gpu} | {row.kernel} | {row.count} |" for row in others]
    return "\n".join(lines) + "\n"


def write(rows: Sequence[GridRow]) -> None:
    """Renew the committed record."""
    MEASURED.write_text(records.to_csv(GridRow, rows))
    RESULTS.write_text(results(records.from_csv(GridRow, records.to_csv(GridRow, rows))))
