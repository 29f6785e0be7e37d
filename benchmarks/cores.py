"""Measure `predict` in one thread and in one thread per core, as a ratio in one run.

The speed-up that the machine allows is measured beside it: SHA-256 of the same bytes, computed in one thread per core
and one after the other, which needs no lock and little memory. If other work occupies the cores, neither can gain. The
benchmark checks that the results are equal. ``python benchmarks/cores.py [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rdmodel as rd
import tracegen
from rdmodel.execution.threads import available_cores

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemm", {"model_sms": 4}),
    ("atax.1", {"model_sms": 4}),
    ("gesummv", {"seeds": 2}),
    ("gemm", {"ablation": True}),
    ("2dconv", {"model_sms": 4}),
    ("fdtd2d.3", {"model_sms": 2}),
]
BYTES = bytes(100_000_000)


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def one_by_one() -> None:
    for _ in range(available_cores()):
        hashlib.sha256(BYTES).digest()


def side_by_side() -> None:
    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(lambda _: hashlib.sha256(BYTES).digest(), range(available_cores())))


def measure(kernel: str, options: dict[str, Any], repeat: int) -> dict[str, float]:
    """Return the seconds in one thread, and how many times faster all cores are, here and for SHA-256 (medians)."""
    trace = tracegen.kernel(kernel)
    assert rd.predict(trace, GPU, n_jobs=1, **options) == rd.predict(trace, GPU, n_jobs=-1, **options)
    times: dict[str, list[float]] = {"one": [], "all": [], "plain one": [], "plain all": []}
    for _ in range(repeat):
        times["one"].append(seconds(lambda: rd.predict(trace, GPU, n_jobs=1, **options)))
        times["all"].append(seconds(lambda: rd.predict(trace, GPU, n_jobs=-1, **options)))
        times["plain one"].append(seconds(one_by_one))
        times["plain all"].append(seconds(side_by_side))
    middle = {name: statistics.median(took) for name, took in times.items()}
    return {
        "seconds": middle["one"],
        "faster": middle["one"] / middle["all"],
        "sha256": middle["plain one"] / middle["plain all"],
    }


def main() -> None:
    """Measure every case and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = [(kernel, given, measure(kernel, given, options.repeat)) for kernel, given in CASES]
    if options.json:
        print(json.dumps([{"kernel": kernel, "options": given, **row} for kernel, given, row in rows], indent=2))
        return
    print(f"medians of {options.repeat}; {available_cores()} cores")
    print(f"{'kernel':12}{'runs':20}{'one thread':>12}{'all cores':>12}{'sha256':>12}")
    for kernel, given, row in rows:
        what = ", ".join(f"{name}={value}" for name, value in given.items())
        figures = f"{row['seconds']:>10.2f} s{row['faster']:>11.2f}x{row['sha256']:>11.2f}x"
        print(f"{kernel:12}{what:20}{figures}")


if __name__ == "__main__":
    main()
