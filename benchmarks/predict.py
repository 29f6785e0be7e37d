"""Measure the speed of `predict`, as a ratio to one plain hash-table pass over the same lines.

Each kernel has its default sizes and 8192 threads, and runs with both definitions, with and without the histogram of
reuse distances. `hardware` also runs on the same GPU with four sectors per line, where stores write through as on
current GPUs; its stores count as transactions, too. Times include generating and coalescing the trace. The plain pass
(`unique_pass`) only stores the last occurrence of each line. All run in turn in one process, so that the ratio of their
medians is meaningful on a busy machine. ``python benchmarks/predict.py [--kernels KERNEL ...] [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rdmodel as rd
import tracegen
from rdmodel._tree import unique_pass
from rdmodel.gpu.overrides import override
from rdmodel.model.dealing import modelled_blocks
from rdmodel.trace.coalescing import Chunk, StoreRule, open_block

TARGET_MILLIONS_PER_SECOND = 10.0
"""Wanted millions of transactions per second of `predict` on gemm."""

GPU = "gtx470-16k"
KERNELS = ("gemm", "atax.1", "atax.2", "syrk", "syr2k", "gesummv", "2dconv", "fdtd2d.3")
SECTORS = {"l1.sector": 32, "l1.stores": "through"}
"""Changes of the GPU for the run with sectors."""

RUNS = [("hardware", {}), ("hardware", SECTORS), ("paper", {})]
"""Definition of the model, and changes of the GPU."""


def lines_of(trace: rd.Trace) -> NDArray[np.int64]:
    """Return the lines that `predict` reads, block by block, with the warps of a block in turn."""
    machine = rd.presets.gpu(GPU)
    chunk, parts = Chunk(), []
    for block in modelled_blocks(trace.launch, rd.Options().resolve(machine)):
        warps = []
        for stream in open_block(trace, block, machine.l1.line, StoreRule.DROP):
            pieces, more = [], True
            while more:
                more = stream.fill(chunk)
                pieces.append(chunk.lines[: chunk.used].copy())
            warps.append(np.concatenate(pieces))
        turn = np.concatenate([np.arange(len(warp)) for warp in warps])
        parts.append(np.concatenate(warps)[np.argsort(turn, kind="stable")])
    return np.concatenate(parts)


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def label(definition: str, changes: Mapping[str, Any], track: bool) -> str:
    return f"{definition}{', sectors' if changes else ''}{'' if track else ', rate only'}"


def measure(kernel: str, repeat: int) -> dict[str, float]:
    """Return the transactions of loads, and millions of transactions per second of each run (medians of `repeat`)."""
    trace = tracegen.kernel(kernel)
    lines = lines_of(trace)
    times: dict[str, list[float]] = {"plain": []}
    done = {"plain": float(len(lines))}
    for _ in range(repeat):
        times["plain"].append(seconds(lambda: unique_pass(lines)))
        for (definition, changes), track in itertools.product(RUNS, (True, False)):
            gpu, name = override(rd.presets.gpu(GPU), changes), label(definition, changes, track)
            results: list[rd.Prediction] = []
            run = functools.partial(rd.predict, trace, gpu, definition=definition, histogram=track)
            times.setdefault(name, []).append(seconds(lambda run=run, into=results: into.append(run())))
            done[name] = results[0].transactions + results[0].stores.transactions
    rates = {name: done[name] / statistics.median(took) / 1e6 for name, took in times.items()}
    return {"transactions": len(lines), **rates}


def main() -> None:
    """Measure every kernel and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", default=KERNELS, metavar="KERNEL")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = {kernel: measure(kernel, options.repeat) for kernel in options.kernels}
    if options.json:
        print(json.dumps({"target": TARGET_MILLIONS_PER_SECOND, "kernels": rows}, indent=2))
        return
    labels = [label(*run, track) for run, track in itertools.product(RUNS, (True, False))]
    print(f"medians of {options.repeat}; M transactions/s, in brackets times slower than the plain pass")
    print(f"wanted: gemm at {TARGET_MILLIONS_PER_SECOND:g} M/s or more by every definition")
    print(f"{'kernel':12}{'transactions':>13}{'plain':>8}" + "".join(f"{name:>30}" for name in labels))
    for kernel, row in rows.items():
        cells = (f"{row[name]:.2f} ({row['plain'] / row[name]:.1f}x)" for name in labels)
        figures = "".join(f"{cell:>30}" for cell in cells)
        print(f"{kernel:12}{row['transactions']:>13,}{row['plain']:>8.1f}{figures}")


if __name__ == "__main__":
    main()
