"""Measure the speed of the emulator: recorded accesses of warps per second of processor time.

The kernels are CUDA sources of this package, which are compiled once. Blocks are executed one by one, until about
``--accesses`` accesses are recorded. ``--against CHECKOUT`` measures another checkout in turn with this one, five times
each by default, and prints ratios of medians; its modules must be compiled.
``python benchmarks/emulate.py [--kernels KERNEL ...] [--accesses N] [--repeat R] [--against CHECKOUT] [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from children import checkouts_with, output_of

from rdmodel.trace import Op, Trace
from tracegen import cuda
from tracegen.cuda.sources import source_path

TARGET_MILLIONS_PER_SECOND = 13.0
"""Wanted millions of accesses per second on gemm."""

N = 1024
"""Elements of each axis of an array."""


def gemm() -> Trace:
    """Return a product of matrices: loads in a loop."""
    a, b, c = (np.zeros((N, N), np.float32) for _ in range(3))
    source = Path(source_path("gemm")).read_text()
    sizes = {"NI": N, "NJ": N, "NK": N}
    return cuda.trace(source, "gemm", grid=(N // 32, N // 8), block=(32, 8), args=[a, b, c], defines=sizes)


def convolution() -> Trace:
    """Return a convolution of a picture: nine loads and a store."""
    a, b = (np.zeros((N, N), np.float32) for _ in range(2))
    source = Path(source_path("2dconv")).read_text()
    sizes = {"NI": N, "NJ": N}
    return cuda.trace(source, "conv2d_1", grid=(N // 32, N // 8), block=(32, 8), args=[a, b], defines=sizes)


KERNELS = {"gemm": gemm, "2dconv": convolution}


def measure(kernel: str, accesses: int) -> float:
    """Return millions of accesses per second of processor time."""
    trace = KERNELS[kernel]()
    trace.block(0)
    done, block, start = 0, 0, time.process_time()
    while done < accesses:
        block = (block + 1) % trace.launch.blocks
        done += int((trace.block(block).op != Op.BARRIER).sum())
    return done / (time.process_time() - start) / 1e6


def measure_apart(kernel: str, accesses: int, checkout: str) -> float:
    """Return what `measure` does in a process of its own, with the packages of a checkout."""
    arguments = [__file__, "--kernels", kernel, "--accesses", str(accesses), "--repeat", "0"]
    return float(output_of(arguments, checkout))


def main() -> None:
    """Measure every kernel and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS), metavar="KERNEL")
    parser.add_argument("--accesses", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.repeat == 0:  # one measurement, for `measure_apart`
        print(measure(options.kernels[0], options.accesses))
        return
    checkouts = checkouts_with(options.against)
    found: dict[str, list[float]] = {}
    for kernel in options.kernels:
        rates = [
            [measure_apart(kernel, options.accesses, checkout) for checkout in checkouts] for _ in range(options.repeat)
        ]
        found[kernel] = [statistics.median(column) for column in zip(*rates, strict=True)]
    if options.json:
        print(json.dumps({"target": TARGET_MILLIONS_PER_SECOND, "kernels": found}, indent=2))
        return
    print(f"medians of {options.repeat}; M accesses of warps per second of processor time; wanted: gemm at", end=" ")
    print(f"{TARGET_MILLIONS_PER_SECOND:g}")
    for kernel, (rate, *others) in found.items():
        print(f"{kernel:10}{rate:8.2f}" + "".join(f"  the other checkout {o:.2f} ({rate / o:.2f}x)" for o in others))


if __name__ == "__main__":
    main()
