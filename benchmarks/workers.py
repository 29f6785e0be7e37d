"""Compare sweeps on Dask workers and in own processes with one process: overhead of a point, and gain of two workers.

A scheduler and two workers start as from a shell (`pip install 'rdmodel[dask]'`). Overhead is the time that the workers
take for a point, both counted, beyond that in one process, for short points. The gain is the time of a sweep of long
points in one process, by that on two workers. A sweep begins in its own process, and goes on there if it is short; not
so here, where the workers run all points. Every sweep runs once before the measurement, so that the workers have loaded
their code.
``python benchmarks/workers.py [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

import rdmodel as rd
import tracegen
from rdmodel.execution.threads import available_cores
from rdmodel.sweeps import sweep

GPU = "gtx470-16k"
WORKERS = 2
SHORT = tracegen.kernel("atax.1", NX=128, NY=128)
SHORT_GRID: dict[str, Any] = {"lat_min": list(range(100, 120)), "seed": list(range(10))}
LONG = tracegen.kernel("gemm")
LONG_GRID: dict[str, Any] = {"sched": ["random", "gto"], "seed": list(range(100))}


@contextmanager
def cluster() -> Iterator[Path]:
    """Start a scheduler and the workers on this machine, and yield the scheduler's file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        commands = [["scheduler", "--host", "127.0.0.1", "--port", "0"]]
        commands += [["worker", "--nthreads", "1", "--no-nanny"]] * WORKERS
        running: list[subprocess.Popen[bytes]] = []
        try:
            for program, *options in commands:
                command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(file)]
                running.append(subprocess.Popen([*command, *options, "--no-dashboard"], stderr=subprocess.DEVNULL))
                while not file.exists() or not file.read_text():
                    time.sleep(0.05)
            yield file
        finally:
            for process in reversed(running):
                process.kill()
                process.wait()


def sweep_seconds(trace: rd.Trace, grid: dict[str, Any], n_jobs: int, wanted: Sequence[rd.SweepRow]) -> float:
    """Return the wall time of a sweep; stop if its results are not those wanted."""
    if n_jobs != 1:
        vars(sweep).update(SINGLE_PROCESS_SECONDS=0.0, PROCESS_STARTUP_SECONDS=0.0)
    start = time.perf_counter()
    found = rd.sweep(trace, GPU, n_jobs=n_jobs, **grid)
    took = time.perf_counter() - start
    if list(found.rows) != list(wanted):
        sys.exit("the results differ")
    return took


def median_seconds(run: Callable[[], float], repeat: int) -> float:
    """Return the median of repeated runs, after one that is not measured."""
    run()
    return statistics.median(run() for _ in range(repeat))


def on_dask(trace: rd.Trace, grid: dict[str, Any], wanted: Sequence[rd.SweepRow], repeat: int) -> float:
    """Return the median time of a sweep on Dask workers."""
    import distributed

    client_class: Any = distributed.Client
    with cluster() as file, client_class(scheduler_file=str(file)) as client:
        client.wait_for_workers(WORKERS)
        with joblib.parallel_config(backend="dask"):
            return median_seconds(lambda: sweep_seconds(trace, grid, -1, wanted), repeat)


def measure(repeat: int) -> dict[str, float]:
    """Return the numbers by their names."""
    short, long = (rd.sweep(t, GPU, n_jobs=1, **grid).rows for t, grid in ((SHORT, SHORT_GRID), (LONG, LONG_GRID)))
    one = median_seconds(lambda: sweep_seconds(SHORT, SHORT_GRID, 1, short), repeat)
    dask = on_dask(SHORT, SHORT_GRID, short, repeat)
    found = {
        f"{len(short)} short points in one process, ms each": 1000 * one / len(short),
        "overhead of a point on two Dask workers, ms": 1000 * (WORKERS * dask - one) / len(short),
    }
    one = median_seconds(lambda: sweep_seconds(LONG, LONG_GRID, 1, long), repeat)
    own = median_seconds(lambda: sweep_seconds(LONG, LONG_GRID, WORKERS, long), repeat)
    return {
        **found,
        f"{len(long)} long points in one process, ms each": 1000 * one / len(long),
        "times as fast with two own processes": one / own,
        "times as fast on two Dask workers": one / on_dask(LONG, LONG_GRID, long, repeat),
    }


def main() -> None:
    """Measure, and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    measured = measure(options.repeat)
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value in measured.items()}, indent=2))
        return
    print(f"medians of {options.repeat}; {available_cores()} cores")
    for name, value in measured.items():
        print(f"{name:55}{value:8.2f}")


if __name__ == "__main__":
    main()
