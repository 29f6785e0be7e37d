"""Compare `sweep` with single calls of `predict`, as a ratio in one run.

Every case is a grid over one kernel. The benchmark measures the points per second of single calls, of a sweep in one
process and in one process per core, and of the same sweep again, with all answers in the answers file. It checks that
the results are equal.
``python benchmarks/sweep.py [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rdmodel as rd
import tracegen
from rdmodel.execution.threads import available_cores
from rdmodel.sweeps.grid import grid_points, read_axes

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

GRID = {"index": "linear", "ways": [2, 4, 8], "l1_size": ["16K", "32K", "64K"], "sched": ["random", "gto"]}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemm", {**GRID, "seed": [0, 1, 2, 3]}),
    ("atax.2", {**GRID, "seed": [0, 1, 2, 3]}),
    ("2dconv", {**GRID, "seed": [0, 1, 2, 3]}),
    ("atax.1", GRID),
]
COLUMNS = ("single calls", "one process", "all cores", "kept")


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def single(trace: rd.Trace, grid: dict[str, Any]) -> list[rd.Prediction]:
    """Return the predictions of all points, each from a separate call."""
    return [
        rd.predict(trace, point.build_gpu(), histogram=False, n_jobs=1, **point.options)
        for point in grid_points(read_axes("predict", GPU, grid))
    ]


def measure(kernel: str, grid: dict[str, Any], repeat: int) -> dict[str, float]:
    """Return the number of points, and the points per second in each way (medians)."""
    trace = tracegen.kernel(kernel)
    wanted = single(trace, grid)
    times: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for _ in range(repeat):
        times["single calls"].append(seconds(lambda: single(trace, grid)))
        times["one process"].append(seconds(lambda: rd.sweep(trace, GPU, n_jobs=1, **grid)))
        times["all cores"].append(seconds(lambda: rd.sweep(trace, GPU, n_jobs=-1, **grid)))
        with tempfile.TemporaryDirectory() as folder:
            answers = Path(folder) / "answers.sqlite"
            first = rd.sweep(trace, GPU, n_jobs=1, answers=answers, **grid)
            times["kept"].append(seconds(lambda path=answers: rd.sweep(trace, GPU, n_jobs=1, answers=path, **grid)))  # type: ignore[misc]
        if [row.result for row in first.rows] != wanted:
            raise SystemExit(f"{kernel}: the results differ")
    return {"points": len(wanted), **{name: len(wanted) / statistics.median(took) for name, took in times.items()}}


def main() -> None:
    """Measure every case and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = [(kernel, measure(kernel, grid, options.repeat)) for kernel, grid in CASES]
    if options.json:
        print(json.dumps([{"kernel": kernel, **row} for kernel, row in rows], indent=2))
        return
    print(f"medians of {options.repeat}; {available_cores()} cores; points/s, and times as many as by single calls")
    print(f"{'kernel':10}{'points':>8}" + "".join(f"{name:>20}" for name in COLUMNS))
    for kernel, row in rows:
        one = row["single calls"]
        others = "".join(f"{row[name]:>10.1f}{row[name] / one:>9.2f}x" for name in COLUMNS[1:])
        print(f"{kernel:10}{row['points']:>8.0f}{one:>20.1f}{others}")


if __name__ == "__main__":
    main()
