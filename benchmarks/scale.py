"""Measure ``rdmodel mrc`` and ``rdmodel predict`` on traces of 10^7 to 10^9 transactions, within ``--memory``.

Each trace is written to a folder, at about 8.7 bytes per transaction, and removed after use. Half of all instructions
stream through 2 million lines again and again; the others pick among 2 million lines by Zipf's law. Every lane of a
warp requests another line, so that an instruction makes 32 transactions. A longer trace has more blocks and is
otherwise the same.
``python benchmarks/scale.py [--transactions N ...] [--memory SIZE] [--folder FOLDER] [--json]``
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from children import measure

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

SIZES = (10**7, 10**8, 10**9)
COMMANDS = ("mrc", "predict")
MAX_SLOWDOWN = 1.5
"""Wanted ratio, at most, of the time per transaction in the longest trace to that in the shortest."""

WARPS, INSTRUCTIONS, LANES = 8, 64, 32
BLOCK = WARPS * INSTRUCTIONS * LANES
HALF = 1 << 21
"""Number of streamed lines, and number of picked lines."""

EXTENT = ("--sms", "1", "--threads", "all")
"""Options that put all blocks on one SM."""


def write(path: Path, transactions: int) -> None:
    """Write a trace of `transactions`, rounded up to whole blocks."""
    from rdmodel.trace import ArrayInfo, Launch, Program, Trace, storage

    class Mixture(Trace):
        """A trace whose blocks are made on demand."""

        def __init__(self, blocks: int) -> None:
            arrays = (ArrayInfo("mixture", 0, 2 * HALF * 128),)
            self.launch = Launch(kernel="mixture", grid=(blocks, 1, 1), block=(32 * WARPS, 1, 1), arrays=arrays)
            self.blocks = range(blocks)

        def block(self, block: int) -> Program:
            return list(segments(block))

    storage.save(Mixture(-(-transactions // BLOCK)), path)


def segments(block: int) -> Iterator[object]:
    """Yield the instructions of a block: one that streams and one that picks, in turn."""
    import numpy as np

    from rdmodel.trace import ALL_NEEDS, Op, Segment, Space

    n, lane = INSTRUCTIONS, np.arange(LANES)
    draw = np.random.default_rng(block).random((WARPS, n, LANES), dtype=np.float32)
    # 2^u is distributed by Zipf's law with exponent 1. Each lane picks among other lines.
    picked = HALF + LANES * (np.exp2(16 * draw).astype(np.int64) - 1) + lane
    first = (block * WARPS + np.arange(WARPS)[:, None]) * n + np.arange(n)
    streamed = (LANES * (first[:, :, None] // 2) + lane) % HALF
    lines = np.where(np.arange(n)[:, None] % 2, picked, streamed)
    yield Segment(
        trips=1,
        pc=np.arange(n, dtype=np.int32),
        op=np.full(n, Op.LOAD, np.uint8),
        space=np.full(n, Space.GLOBAL, np.uint8),
        size=np.full(n, 4, np.uint8),
        gap=np.full(n, 4, np.int32),
        loop_exit=np.zeros(n, np.bool_),
        step=np.zeros(n, np.int64),
        needs=np.full((WARPS, n), ALL_NEEDS, np.uint64),
        mask=np.full((WARPS, n), 0xFFFFFFFF, np.uint32),
        base=128 * lines,
    )


def run(command: str, path: Path, memory: str) -> dict[str, float]:
    """Return time and memory of a command on a trace."""
    output = "--csv" if command == "mrc" else "--json"
    return measure(["-m", "rdmodel", command, str(path), "--gpu", GPU, *EXTENT, "--memory", memory, output])


def measure_length(transactions: int, folder: Path, memory: str) -> dict[str, dict[str, float]]:
    """Write a trace, run every command on it, remove it."""
    path = folder / f"mixture-{transactions}"
    try:
        # A separate process writes the trace, since the peak memory of a child starts from that of its parent.
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, __file__, "--write", str(path), "--transactions", str(transactions)], check=True
        )
        size = sum(file.stat().st_size for file in path.iterdir())
        rows = {"write": {"seconds": time.perf_counter() - started, "disk_mb": size / 1e6}}
        return rows | {command: run(command, path, memory) for command in COMMANDS}
    finally:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Measure every length and print a table as it goes, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--transactions", type=int, nargs="+", default=SIZES, metavar="N", help="lengths of the traces")
    parser.add_argument("--memory", default="2G", metavar="SIZE", help="memory limit of the commands (default: 2G)")
    parser.add_argument("--folder", type=Path, help="folder for the traces (default: the system's temporary folder)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write, *options.transactions)
        return
    if not options.json:
        print(f"--memory {options.memory}; wanted: no more than {MAX_SLOWDOWN} times longer per transaction")
        print(f"{'transactions':>14}  {'command':8}{'s':>9}{'CPU s':>9}{'CPU ns each':>13}{'peak MB':>9}")
    rows = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for transactions in options.transactions:
            rows[transactions] = measure_length(transactions, Path(folder), options.memory)
            if not options.json:
                show(transactions, rows[transactions])
    if options.json:
        print(json.dumps({"memory": options.memory, "lengths": rows}, indent=2))


def show(transactions: int, rows: dict[str, dict[str, float]]) -> None:
    """Print the rows of one length."""
    for command in COMMANDS:
        row = rows[command]
        each = row["cpu_seconds"] / transactions * 1e9
        numbers = f"{row['seconds']:>9.1f}{row['cpu_seconds']:>9.1f}{each:>13.0f}{row['peak_mb']:>9.0f}"
        print(f"{transactions:>14,}  {command:8}{numbers}", flush=True)


if __name__ == "__main__":
    main()
