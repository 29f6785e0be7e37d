"""Measure how much longer `predict` takes if it also counts by source line, array and instruction.

Each kernel has its default sizes, on a GPU whose lines have sectors and on one without, with the histogram of reuse
distances and without. Runs with and without origins alternate in one process, and their processor times make a ratio
of medians. ``python benchmarks/origins.py [--kernels KERNEL ...] [--repeat R] [--json]``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import rdmodel as rd
import tracegen

WANTED_RATIO = 1.15
"""Wanted processor time with origins, as a multiple of that without."""

GPUS = ("a100-80g", "gtx470-16k")
KERNELS = ("gemm", "atax.1", "atax.2", "syrk", "gesummv", "2mm.1", "kmeans.row", "spmv", "bfs.1", "hotspot", "srad.1")


def measure(kernel: str, gpu: str, histogram: bool, repeat: int) -> float:
    """Return the median time with origins over that without."""
    trace = tracegen.kernel(kernel)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(repeat):
        for origins, took in times.items():
            start = time.process_time()
            rd.predict(trace, gpu, origins=origins, histogram=histogram)
            took.append(time.process_time() - start)
    return statistics.median(times[True]) / statistics.median(times[False])


def main() -> None:
    """Measure every kernel and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", default=KERNELS, metavar="KERNEL")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    runs = {
        f"{gpu}{'' if histogram else ', rate only'}": (gpu, histogram) for gpu in GPUS for histogram in (True, False)
    }
    rows = {
        kernel: {name: measure(kernel, *run, options.repeat) for name, run in runs.items()}
        for kernel in options.kernels
    }
    mean = statistics.geometric_mean(ratio for row in rows.values() for ratio in row.values())
    if options.json:
        print(json.dumps({"wanted": WANTED_RATIO, "geometric_mean": mean, "kernels": rows}, indent=2))
        return
    print(
        f"processor time with origins over that without, medians of {options.repeat}; at most {WANTED_RATIO} is wanted"
    )
    print(f"{'kernel':14}" + "".join(f"{name:>24}" for name in runs))
    for kernel, row in rows.items():
        print(f"{kernel:14}" + "".join(f"{row[name]:>24.2f}" for name in runs))
    print(f"geometric mean {mean:.3f}")


if __name__ == "__main__":
    main()
