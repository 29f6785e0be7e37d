"""Speed of `simulate`, as ratios to `predict` in the same run, and how time and memory grow with the trace.

The suite `polybench` (cut sizes) goes through the simulator and through `predict` with its defaults; both include
generating and coalescing the trace. `--growth` simulates gemm with 1, 4 and 16 times the transactions, each in a
process of its own, and reports time and peak memory per transaction.
``python benchmarks/simulate.py [--kernels KERNEL ...] [--repeat R] [--growth] [--json]``
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

TARGET = 1.0
"""Millions of L1 transactions per second on gemm and atax.1 that count as fast enough."""

RATIO = 5.0
"""How many times faster `predict` should be over the suite."""

GPU = "gtx470-16k"
NAMED = ("gemm", "atax.1")
GROWTH = {
    1: {"NI": 128, "NJ": 256, "NK": 256},
    4: {"NI": 512, "NJ": 256, "NK": 256},
    16: {"NI": 2048, "NJ": 256, "NK": 256},
}


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(kernel: str, sizes: Mapping[str, int], repeat: int) -> dict[str, float]:
    """Return transactions, median seconds of both, millions of transactions simulated per second, and the ratio."""
    import rdmodel as rd
    import tracegen

    trace = tracegen.kernel(kernel, **sizes)
    simulated, predicted, transactions = [], [], 0.0
    for _ in range(repeat):
        start = time.perf_counter()
        transactions = rd.simulate(trace, GPU).transactions
        simulated.append(time.perf_counter() - start)
        predicted.append(seconds(lambda: rd.predict(trace, GPU)))
    took, other = statistics.median(simulated), statistics.median(predicted)
    return {
        "transactions": transactions,
        "simulate_s": took,
        "predict_s": other,
        "millions_per_s": transactions / took / 1e6,
        "ratio": took / other,
    }


CHILD = """
import sys, time, rdmodel as rd, tracegen
trace = tracegen.kernel("gemm", NI=int(sys.argv[1]), NJ=int(sys.argv[2]), NK=int(sys.argv[3]))
start = time.perf_counter()
transactions = rd.simulate(trace, sys.argv[4]).transactions
print(transactions, time.perf_counter() - start)
"""


def grow(factor: int) -> dict[str, float]:
    """Return transactions, seconds and peak memory in MB of gemm, `factor` times larger, in a process of its own."""
    arguments = [*map(str, GROWTH[factor].values()), GPU]
    with subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        transactions, took = map(float, child.stdout.read().split())
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    return {"transactions": transactions, "seconds": took, "peak_mb": usage.ru_maxrss * 1024 / 1e6}


def print_suite(rows: Mapping[str, Mapping[str, float]], repeat: int) -> None:
    """Print the table of kernels and what it comes to."""
    print(f"medians of {repeat}, {GPU}; wanted: {' and '.join(NAMED)} at {TARGET:g} M/s or more")
    print(f"{'kernel':14}{'transactions':>14}{'simulate s':>12}{'predict s':>12}{'M/s':>8}{'ratio':>8}")
    for kernel, row in rows.items():
        print(
            f"{kernel:14}{row['transactions']:>14,.0f}{row['simulate_s']:>12.2f}{row['predict_s']:>12.3f}"
            f"{row['millions_per_s']:>8.2f}{row['ratio']:>8.1f}"
        )
    simulated, predicted = (sum(row[name] for row in rows.values()) for name in ("simulate_s", "predict_s"))
    print(f"suite: simulate {simulated:.1f} s, predict {predicted:.1f} s, {simulated / predicted:.1f} times faster")
    print(f"wanted: {RATIO:g} times")


def main() -> None:
    """Measure and print tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", help="only these of the suite (default: all)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--growth", action="store_true", help="measure growth with the trace instead of the suite")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.growth:
        grown = {factor: grow(factor) for factor in GROWTH}
        if options.json:
            print(json.dumps(grown, indent=2))
            return
        print(f"gemm on {GPU}; {'size':>4}{'transactions':>14}{'s':>8}{'ns each':>10}{'peak MB':>10}")
        for factor, row in grown.items():
            each = row["seconds"] / row["transactions"] * 1e9
            figures = f"{row['transactions']:>14,.0f}{row['seconds']:>8.2f}{each:>10.0f}{row['peak_mb']:>10.0f}"
            print(f"{'':20}{factor:>3}x{figures}")
        return
    from tracegen.kernels.suites import POLYBENCH

    rows = {name: measure(name, POLYBENCH[name], options.repeat) for name in options.kernels or POLYBENCH}
    if options.json:
        print(json.dumps({"target": TARGET, "ratio": RATIO, "kernels": rows}, indent=2))
    else:
        print_suite(rows, options.repeat)


if __name__ == "__main__":
    main()
