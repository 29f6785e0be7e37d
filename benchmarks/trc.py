"""Measure the speed of reading ``.trc`` traces, as a ratio to a plain Python loop over the same file.

Both turn the text into warp instructions, and the results are compared. They run in turn in one process, so that the
ratio of their medians is meaningful on a busy machine. ``python benchmarks/trc.py [--accesses N] [--repeat R]
[--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.formats._trc import render
from tracegen.formats.trc import read_trc

TARGET_RATIO = 10.0
"""Wanted ratio, at least."""

BLOCK = 256
BLOCKS = 16

Instruction = tuple[int, int, int, list[int]]
"""Direction, bytes, active mask, addresses."""


def lockstep(accesses: int) -> NDArray[np.int64]:
    """Return the thread of every access for blocks that run in lock step, as an emulator writes them."""
    steps = -(-accesses // (BLOCKS * BLOCK))
    block, _, thread = np.indices((BLOCKS, steps, BLOCK))
    threads: NDArray[np.int64] = (block * BLOCK + thread).ravel()
    return threads


def scattered(accesses: int) -> NDArray[np.int64]:
    """Return the thread of every access in random order: the hardest file to sort."""
    thread = lockstep(accesses)
    np.random.default_rng(1).shuffle(thread)
    return thread


ORDERS: dict[str, Callable[[int], NDArray[np.int64]]] = {f.__name__: f for f in (lockstep, scattered)}


def write(path: Path, thread: NDArray[np.int64]) -> None:
    """Write a file with one access of 4 bytes per entry of `thread`, every fourth one a store."""
    n = len(thread)
    out = np.empty(46 * n, np.uint8)
    address = (1 << 32) + 4 * thread + (np.arange(n) // BLOCK << 12)
    store = (np.arange(n) // BLOCK % 4 == 3).astype(np.uint8)
    used = render(thread, store, address, np.full(n, 4, np.uint8), out)
    path.write_bytes(b"blocksize: %d 1 1\n" % BLOCK + out[:used].tobytes())


def read_plainly(path: Path) -> dict[int, list[Instruction]]:
    """Return the instructions of every warp, by the rules of `tracegen.formats.trc`, in a plain loop."""
    warps: defaultdict[int, defaultdict[int, list[tuple[int, int, int]]]]
    warps = defaultdict(lambda: defaultdict(list))
    with path.open() as file:
        file.readline()
        for line in file:
            thread, direction, address, size = map(int, line.split())
            warps[thread // 32][thread % 32].append((direction, address, size))
    return {warp: pair(lanes) for warp, lanes in warps.items()}


def pair(lanes: dict[int, list[tuple[int, int, int]]]) -> list[Instruction]:
    """Return the instructions of one warp from the accesses of its lanes."""
    queues: list[dict[int, list[tuple[int, int, int]]]] = [{}, {}]
    for lane in sorted(lanes):
        for direction in (0, 1):
            queues[direction][lane] = [access for access in lanes[lane] if access[0] == direction]
    instructions: list[Instruction] = []
    done = [0, 0]
    for lane in sorted(lanes):
        seen = [0, 0]
        for direction, _, _ in lanes[lane]:
            k = seen[direction]
            seen[direction] += 1
            if k == done[direction]:
                done[direction] += 1
                part = {n: queue[k] for n, queue in queues[direction].items() if len(queue) > k}
                for size in dict.fromkeys(access[2] for access in part.values()):
                    same = {n: access[1] for n, access in part.items() if access[2] == size}
                    instructions.append((direction, size, sum(1 << n for n in same), list(same.values())))
    return instructions


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of one call, and its result."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def measure(path: Path, repeat: int) -> dict[str, float]:
    """Return thousands of lines per second of both readers (medians of `repeat` runs) and their ratio."""
    lines = path.read_bytes().count(b"\n") - 1
    plain, compiled = [], []
    for _ in range(repeat):
        took, warps = seconds(lambda: read_plainly(path))
        plain.append(took)
        took, trace = seconds(lambda: read_trc(path))
        compiled.append(took)
        expected = [address for warp in sorted(warps) for row in warps[warp] for address in row[3]]
        if not np.array_equal(trace.columns.addresses, expected):
            raise SystemExit("the two readers disagree")
    slow, fast = statistics.median(plain), statistics.median(compiled)
    return {"plain": lines / slow / 1e3, "compiled": lines / fast / 1e3, "ratio": slow / fast}


def main() -> None:
    """Measure every order and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--accesses", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, order in ORDERS.items():
            path = Path(folder) / f"{name}.trc"
            write(path, order(options.accesses))
            rows[name] = measure(path, options.repeat)
    if options.json:
        print(json.dumps({"accesses": options.accesses, "target": TARGET_RATIO, "orders": rows}, indent=2))
        return
    print(f"{options.accesses:,} accesses, medians of {options.repeat}; 1000 lines/s")
    print(f"a ratio of at least {TARGET_RATIO:g} is wanted")
    print(f"{'order':12}{'plain':>10}{'compiled':>10}{'ratio':>8}")
    for name, row in rows.items():
        print(f"{name:12}{row['plain']:>10.0f}{row['compiled']:>10.0f}{row['ratio']:>8.1f}")


if __name__ == "__main__":
    main()
