"""Measure the speed of `simulate`, as a ratio to `predict` in the same run, and the growth with the trace.

The suite `polybench`, with its small sizes, runs in the simulator and in `predict` with its defaults; both times
include generating and coalescing the trace. `--growth` simulates gemm with 1, 4 and 16 times the transactions, each in
a separate process, and reports time per transaction and peak memory. `--policies` simulates with cache-management
policies in turn, as ratios to a run without any. `--against CHECKOUT` compares with another built checkout: processes
of both take turns, and the CPU seconds of the fastest count. ``python benchmarks/simulate.py [--kernels KERNEL ...]
[--repeat R] [--json] [--growth | --policies | --against CHECKOUT]``
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from children import environment_of

TARGET_MILLIONS_PER_SECOND = 1.0
"""Wanted millions of L1 transactions per second on gemm and atax.1."""

TARGET_RATIO = 5.0
"""Wanted speed of `predict` over the suite, as a multiple of that of `simulate`."""

GPU = "gtx470-16k"
NAMED = ("gemm", "atax.1")
COMPARED = ("gemm", "atax.1", "syr2k")
POLICIES = (
    "swl:warps=4",
    "pcal:tokens=2,extra=4",
    "dwt-cs",
    "bypass-all",
    "bypass-on-stall:on=all",
    "streaming-bypass",
    "pd",
    "mrpb",
)
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
    """Return transactions, median seconds of both, simulated transactions in millions per second, and the ratio."""
    import rdmodel as rd
    import tracegen

    trace = tracegen.kernel(kernel, **sizes)
    simulated, predicted, transactions = [], [], 0.0
    for _ in range(repeat):
        start = time.perf_counter()
        result = rd.simulate(trace, GPU)
        simulated.append(time.perf_counter() - start)
        transactions = result.transactions + result.stores
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
result = rd.simulate(trace, sys.argv[4])
print(result.transactions + result.stores, time.perf_counter() - start)
"""


def grow(factor: int) -> dict[str, float]:
    """Return transactions, seconds and peak memory in MB of gemm, `factor` times larger, in a separate process."""
    arguments = [*map(str, GROWTH[factor].values()), GPU]
    with subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        transactions, took = map(float, child.stdout.read().split())
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    return {"transactions": transactions, "seconds": took, "peak_mb": usage.ru_maxrss * 1024 / 1e6}


TIMED = """
import sys, time, rdmodel as rd, tracegen
from tracegen.kernel_library.suites import POLYBENCH
trace = tracegen.kernel(sys.argv[1], **POLYBENCH[sys.argv[1]])
start = time.process_time()
cycles = rd.simulate(trace, sys.argv[2]).cycles
print(cycles, time.process_time() - start)
"""


def timed(checkout: str, kernel: str) -> tuple[float, float]:
    """Return cycles and CPU seconds of one simulation with the code of a checkout, in a separate process."""
    arguments = [sys.executable, "-c", TIMED, kernel, GPU]
    done = subprocess.run(
        arguments, env=environment_of(checkout), cwd=checkout, stdout=subprocess.PIPE, text=True, check=True
    )
    cycles, took = map(float, done.stdout.split())
    return cycles, took


def compare(other: str, kernels: Sequence[str], repeat: int) -> dict[str, dict[str, float]]:
    """Return the fastest of `repeat` runs of this checkout and of another one, for each kernel, and their ratio."""
    own = str(Path(__file__).parents[1])
    rows: dict[str, dict[str, float]] = {}
    for kernel in kernels:
        took: dict[str, list[float]] = {own: [], other: []}
        for i in range(2 * repeat):
            # A, B, B, A, ...: neither is always the first one of a pair.
            checkout = (own, other)[(i + 1) // 2 % 2]
            cycles, spent = timed(checkout, kernel)
            took[checkout].append(spent)
            assert cycles == rows.setdefault(kernel, {"cycles": cycles})["cycles"], f"{kernel}: cycles differ"
        mine, theirs = min(took[own]), min(took[other])
        rows[kernel] |= {"this_s": mine, "other_s": theirs, "ratio": mine / theirs}
    return rows


def print_compared(rows: Mapping[str, Mapping[str, float]], repeat: int) -> None:
    """Print the table of kernels by both checkouts."""
    print(f"fastest of {repeat}, CPU seconds, {GPU}")
    print(f"{'kernel':14}{'this s':>10}{'other s':>10}{'ratio':>8}")
    for kernel, row in rows.items():
        print(f"{kernel:14}{row['this_s']:>10.2f}{row['other_s']:>10.2f}{row['ratio']:>8.3f}")


def measure_policies(kernel: str, repeat: int) -> dict[str, dict[str, float]]:
    """Return median seconds and cycles with each policy, and their ratios to those without any."""
    import rdmodel as rd
    import tracegen
    from tracegen.kernel_library.suites import POLYBENCH

    trace = tracegen.kernel(kernel, **POLYBENCH[kernel])
    rows: dict[str, dict[str, float]] = {}
    rd.simulate(trace, GPU, blocks=1)  # work that is done only once must not count for the first policy
    for policy in ("none", *POLICIES):
        took, cycles = [], 0.0
        for _ in range(repeat):
            start = time.perf_counter()
            cycles = rd.simulate(trace, GPU, policies=[] if policy == "none" else [policy]).cycles
            took.append(time.perf_counter() - start)
        rows[policy] = {"seconds": statistics.median(took), "cycles": cycles}
    for row in rows.values():
        row |= {name + "_ratio": row[name] / rows["none"][name] for name in ("seconds", "cycles")}
    return rows


def print_policies(tables: Mapping[str, Mapping[str, Mapping[str, float]]], repeat: int) -> None:
    """Print a table of policies for each kernel."""
    print(f"medians of {repeat}, {GPU}; ratios to the run without policies")
    for kernel, rows in tables.items():
        print(f"{kernel:26}{'seconds':>9}{'ratio':>8}{'cycles':>14}{'ratio':>8}")
        for policy, row in rows.items():
            times = f"{row['seconds']:>9.2f}{row['seconds_ratio']:>8.2f}"
            print(f"  {policy:24}{times}{row['cycles']:>14,.0f}{row['cycles_ratio']:>8.2f}")


def print_suite(rows: Mapping[str, Mapping[str, float]], repeat: int) -> None:
    """Print the table of kernels and its sums."""
    print(f"medians of {repeat}, {GPU}; wanted: {' and '.join(NAMED)} at {TARGET_MILLIONS_PER_SECOND:g} M/s or more")
    print(f"{'kernel':14}{'transactions':>14}{'simulate s':>12}{'predict s':>12}{'M/s':>8}{'ratio':>8}")
    for kernel, row in rows.items():
        print(
            f"{kernel:14}{row['transactions']:>14,.0f}{row['simulate_s']:>12.2f}{row['predict_s']:>12.3f}"
            f"{row['millions_per_s']:>8.2f}{row['ratio']:>8.1f}"
        )
    simulated, predicted = (sum(row[name] for row in rows.values()) for name in ("simulate_s", "predict_s"))
    print(f"suite: simulate {simulated:.1f} s, predict {predicted:.1f} s, {simulated / predicted:.1f} times faster")
    print(f"wanted: {TARGET_RATIO:g} times")


def print_growth(grown: Mapping[int, Mapping[str, float]]) -> None:
    """Print the table of sizes."""
    print(f"gemm on {GPU}; {'size':>4}{'transactions':>14}{'s':>8}{'ns each':>10}{'peak MB':>10}")
    for factor, row in grown.items():
        each = row["seconds"] / row["transactions"] * 1e9
        figures = f"{row['transactions']:>14,.0f}{row['seconds']:>8.2f}{each:>10.0f}{row['peak_mb']:>10.0f}"
        print(f"{'':20}{factor:>3}x{figures}")


def print_result(what: str, measured: Any, repeat: int) -> None:
    """Print the tables of a mode."""
    if what == "growth":
        print_growth(measured)
    elif what == "policies":
        print_policies(measured, repeat)
    elif what == "against":
        print_compared(measured, repeat)
    else:
        print_suite(measured["kernels"], repeat)


def measured_suite(kernels: Sequence[str], repeat: int) -> dict[str, Any]:
    """Return the measurements of the suite, and the targets."""
    from tracegen.kernel_library.suites import POLYBENCH

    rows = {name: measure(name, POLYBENCH[name], repeat) for name in kernels or POLYBENCH}
    return {"target": TARGET_MILLIONS_PER_SECOND, "ratio": TARGET_RATIO, "kernels": rows}


def main() -> None:
    """Measure and print tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", help="only these kernels of the suite (default: all)")
    parser.add_argument("--repeat", type=int, default=3)
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--growth", action="store_true", help="measure growth with the trace instead of the suite")
    modes.add_argument("--policies", action="store_true", help=f"measure policies, by default on {' '.join(COMPARED)}")
    modes.add_argument("--against", metavar="CHECKOUT", help="compare with another checkout (same default)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    what = next((mode for mode in ("growth", "policies", "against") if getattr(options, mode)), "suite")
    compared = options.kernels or COMPARED
    measured: Any
    if what == "growth":
        measured = {factor: grow(factor) for factor in GROWTH}
    elif what == "policies":
        measured = {name: measure_policies(name, options.repeat) for name in compared}
    elif what == "against":
        measured = compare(options.against, compared, options.repeat)
    else:
        measured = measured_suite(options.kernels, options.repeat)
    if options.json:
        print(json.dumps(measured, indent=2))
    else:
        print_result(what, measured, options.repeat)


if __name__ == "__main__":
    main()
