"""Measure the speed of `predict`, as a ratio to one plain hash-table pass over the same lines.

Each kernel has its default sizes and 8192 threads, and runs with both definitions, with and without the histogram of
reuse distances. `hardware` also runs on the same GPU with four sectors per line, where stores write through as on
current GPUs, with groups of lanes of 128 bytes and of 32; its stores count as transactions, too. Times include
generating and coalescing the trace, which is also measured alone. The plain pass (`unique_pass`) only stores the last
occurrence of each line. All run in turn in one process, in processor time, so that the ratio of their medians is
meaningful on a busy machine. ``python benchmarks/predict.py [--kernels KERNEL ...] [--gpu GPU] [--repeat R] [--json]``;
``--against CHECKOUT`` measures another checkout in turn with this one.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from children import output_of
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
KERNELS = (
    "gemm",
    "atax.1",
    "atax.2",
    "syrk",
    "syr2k",
    "gesummv",
    "2dconv",
    "fdtd2d.3",
    "2mm.1",
    "2mm.2",
    "3mm.1",
    "3mm.2",
    "3mm.3",
    "bicg.1",
    "bicg.2",
    "mvt.1",
    "mvt.2",
    "kmeans.invert",
    "kmeans.row",
    "ss",
    "iix",
)
"""Kernels of at least 10^5 transactions and fewer than 10^7 on SM 0, and two short ones."""

SECTORS = {"l1.sector": 32, "l1.stores": "through"}
"""Changes of the GPU for the run with sectors."""

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "hardware": ("hardware", {}),
    "sectors": ("hardware", SECTORS),
    "sectors, 32 B": ("hardware", {**SECTORS, "l1.request_bytes": 32}),
    "paper": ("paper", {}),
}
"""Definition of the model, and changes of the GPU, by name."""


def streams_of(trace: rd.Trace, gpu: str) -> Iterable[list[Any]]:
    """Yield the streams of each block that `predict` reads."""
    machine = rd.presets.gpu(gpu)
    for block in modelled_blocks(trace.launch, rd.Options().resolve(machine)):
        yield open_block(trace, block, machine.l1.line, StoreRule.DROP)


def lines_of(trace: rd.Trace, gpu: str) -> NDArray[np.int64]:
    """Return the lines that `predict` reads, block by block, with the warps of a block in turn."""
    chunk, parts = Chunk(), []
    for streams in streams_of(trace, gpu):
        warps = []
        for stream in streams:
            pieces, more = [], True
            while more:
                more = stream.fill(chunk)
                pieces.append(chunk.lines[: chunk.used].copy())
            warps.append(np.concatenate(pieces))
        turn = np.concatenate([np.arange(len(warp)) for warp in warps])
        parts.append(np.concatenate(warps)[np.argsort(turn, kind="stable")])
    return np.concatenate(parts)


def generate(trace: rd.Trace, gpu: str) -> None:
    """Generate and coalesce what `predict` reads."""
    chunk = Chunk()
    for streams in streams_of(trace, gpu):
        for stream in streams:
            while stream.fill(chunk):
                pass


def seconds(run: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def label(name: str, track: bool) -> str:
    return name if track else f"{name}, rate only"


LABELS = [label(name, track) for name, track in itertools.product(RUNS, (True, False))]


def measure(kernel: str, gpu: str, repeat: int) -> dict[str, float]:
    """Return the transactions of loads, and millions of transactions per second of each run (medians of `repeat`)."""
    trace = tracegen.kernel(kernel)
    lines = lines_of(trace, gpu)
    times: dict[str, list[float]] = {"plain": [], "trace": []}
    done = {"plain": float(len(lines)), "trace": float(len(lines))}
    for _ in range(repeat):
        times["plain"].append(seconds(lambda: unique_pass(lines)))
        times["trace"].append(seconds(lambda: generate(trace, gpu)))
        for (run_name, (definition, changes)), track in itertools.product(RUNS.items(), (True, False)):
            machine, name = override(rd.presets.gpu(gpu), changes), label(run_name, track)
            results: list[rd.Prediction] = []
            run = functools.partial(rd.predict, trace, machine, definition=definition, histogram=track)
            times.setdefault(name, []).append(seconds(lambda run=run, into=results: into.append(run())))
            done[name] = results[0].transactions + results[0].stores.transactions
    rates = {name: done[name] / statistics.median(took) / 1e6 for name, took in times.items()}
    return {"transactions": len(lines), **rates}


def measure_checkout(kernel: str, gpu: str, repeat: int, checkout: str) -> dict[str, float]:
    """Return what `measure` does for the package of another checkout."""
    arguments = [__file__, "--kernels", kernel, "--gpu", gpu, "--repeat", str(repeat), "--json"]
    return dict(json.loads(output_of(arguments, checkout))["kernels"][kernel])


def print_table(rows: Mapping[str, Mapping[str, float]], before: Mapping[str, Mapping[str, float]]) -> None:
    """Print the rates of all kernels; in brackets how many times the other checkout, or else the plain pass."""
    print(f"{'kernel':14}{'transactions':>13}{'plain':>8}{'trace':>8}" + "".join(f"{name:>25}" for name in LABELS))
    for kernel, row in rows.items():
        cells = (f"{row[name]:.2f} ({ratio(kernel, name, rows, before):.2f}x)" for name in LABELS)
        figures = "".join(f"{cell:>25}" for cell in cells)
        print(f"{kernel:14}{row['transactions']:>13,}{row['plain']:>8.1f}{row['trace']:>8.1f}{figures}")
    for title, summary in (("geometric mean", statistics.geometric_mean), ("worst", min)):
        cells = (
            f"{summary([row[name] for row in rows.values()]):.2f} "
            f"({summary([ratio(kernel, name, rows, before) for kernel in rows]):.2f}x)"
            for name in LABELS
        )
        print(f"{title:43}" + "".join(f"{cell:>25}" for cell in cells))


def ratio(
    kernel: str, name: str, rows: Mapping[str, Mapping[str, float]], before: Mapping[str, Mapping[str, float]]
) -> float:
    """Return the speed of a run as a multiple of that of the other checkout, or of the plain pass without one."""
    return rows[kernel][name] / (before[kernel][name] if before else rows[kernel]["plain"])


def main() -> None:
    """Measure every kernel and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", default=KERNELS, metavar="KERNEL")
    parser.add_argument("--gpu", default=GPU, help=f"preset on which all run (default: {GPU})")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows, before = {}, {}
    for kernel in options.kernels:
        rows[kernel] = measure(kernel, options.gpu, options.repeat)
        if options.against:
            before[kernel] = measure_checkout(kernel, options.gpu, options.repeat, options.against)
    if options.json:
        print(json.dumps({"target": TARGET_MILLIONS_PER_SECOND, "kernels": rows, "against": before}, indent=2))
        return
    print(f"{options.gpu}; medians of {options.repeat}; M transactions/s of processor time, in brackets times the")
    print("speed of the other checkout" if before else "speed of the plain pass")
    print(f"wanted: gemm at {TARGET_MILLIONS_PER_SECOND:g} M/s or more by every definition")
    print_table(rows, before)


if __name__ == "__main__":
    main()
