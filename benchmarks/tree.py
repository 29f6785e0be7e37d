"""Measure the speed of exact reuse distances, as a ratio to one plain hash-table pass over the same stream.

The plain pass (`unique_pass`: one open-addressing table without prefetching) stores the last occurrence of each line,
which every exact method needs. Both run in turn in one process, so that the ratio of their medians is meaningful on a
busy machine. ``python benchmarks/tree.py [--accesses N] [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rdmodel._tree import Distances, unique_pass

TARGET_RATIO = 3.0
"""Wanted ratio, at most."""

Lines = NDArray[np.int64]


def zipf(n: int) -> Lines:
    """Make few hot lines and a long tail, as in a graph or a hash table."""
    ranks = np.random.default_rng(1).zipf(1.2, n) % (1 << 20)
    return scatter(ranks.astype(np.int64))


def cyclic(n: int) -> Lines:
    """Read an array of 2^18 lines again and again: every distance is the largest possible."""
    return np.arange(n, dtype=np.int64) % (1 << 18)


def loop(n: int) -> Lines:
    """Read 130,000 lines as in `cyclic`: the plain pass stays within the caches and is as fast as possible."""
    return np.arange(n, dtype=np.int64) % 130_000


def uniform(n: int) -> Lines:
    """Draw lines uniformly from 2^20."""
    return scatter(np.random.default_rng(2).integers(0, 1 << 20, n))


def gemm(n: int, size: int = 512, warps: int = 48) -> Lines:
    """Multiply matrices by waves of `warps` warps in turn: per k, each reads one line of A (broadcast) and one of B."""
    columns = size // 32
    wave, k, warp = np.ogrid[: -(-n // (2 * size * warps)), :size, :warps]
    row, column = np.divmod(wave * warps + warp, columns)
    a = (row * size + k) // 32
    b = size * columns + k * columns + column
    return np.stack(np.broadcast_arrays(a, b), axis=2).ravel()[:n].astype(np.int64)


def scatter(lines: Lines) -> Lines:
    """Map `lines` one to one to scattered addresses, so that neighbours in rank are not neighbours in memory."""
    return (lines * 0x2545F491) % (1 << 31)


STREAMS: dict[str, Callable[[int], Lines]] = {f.__name__: f for f in (zipf, cyclic, loop, uniform, gemm)}


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(lines: Lines, repeat: int) -> dict[str, float]:
    """Return millions of accesses per second of both passes (medians of `repeat` runs) and their ratio."""
    distances = np.empty_like(lines)
    plain, tree = [], []
    for _ in range(repeat):
        plain.append(seconds(lambda: unique_pass(lines)))
        tree.append(seconds(lambda: Distances().feed(lines, distances)))
    slow, fast = statistics.median(tree), statistics.median(plain)
    return {
        "distinct": unique_pass(lines),
        "plain": len(lines) / fast / 1e6,
        "tree": len(lines) / slow / 1e6,
        "ratio": slow / fast,
    }


def main() -> None:
    """Measure every stream and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--accesses", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = {name: measure(stream(options.accesses), options.repeat) for name, stream in STREAMS.items()}
    if options.json:
        print(json.dumps({"accesses": options.accesses, "target": TARGET_RATIO, "streams": rows}, indent=2))
        return
    print(f"{options.accesses:,} accesses, medians of {options.repeat}; M/s; wanted: ratio <= {TARGET_RATIO:g}")
    print(f"{'stream':10}{'distinct':>10}{'plain':>9}{'tree':>9}{'ratio':>8}")
    for name, row in rows.items():
        print(f"{name:10}{row['distinct']:>10,}{row['plain']:>9.1f}{row['tree']:>9.1f}{row['ratio']:>8.2f}")


if __name__ == "__main__":
    main()
