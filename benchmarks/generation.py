"""Measure the speed of generating and coalescing a trace, as a ratio to a plain Python loop over the same addresses.

Each kernel has its default sizes. The benchmark runs `Trace.block` and every stream of `open_block`, from the first
block on, until about ``--instructions`` warp instructions are done. The plain loop computes the lines of each lane of
the first ``--sample`` instructions. Both must find equal numbers of transactions there.
``python benchmarks/generation.py [--kernels KERNEL ...] [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator

import numpy as np

import tracegen
from rdmodel.trace import FIRST_NON_L1_SPACE, WARP, Op, Program
from rdmodel.trace.coalescing import Chunk, StoreRule, open_block
from tracegen import KernelTrace

LINE = 128
KERNELS = ("gemm", "atax.1", "atax.2", "syr2k", "gesummv", "corr.std", "2dconv", "fdtd2d.3")
LANES = range(WARP)


def generate(trace: KernelTrace, least: int) -> tuple[int, int]:
    """Generate and coalesce blocks until `least` warp instructions are done; return the instructions and the blocks."""
    chunk, done = Chunk(), 0
    for block in range(trace.launch.blocks):
        for stream in open_block(trace, block, LINE, StoreRule.AS_LOAD):
            more = True
            while more:
                more = stream.fill(chunk)
                done += chunk.n
        if done >= least:
            return done, block + 1
    return done, trace.launch.blocks


def lanes(trace: KernelTrace, blocks: int) -> int:
    """Return the number of accesses of single lanes in the first blocks."""
    return sum(
        segment.trips * int(np.bitwise_count(segment.mask).sum())
        for block in range(blocks)
        for segment in trace.block(block)
    )


def coalesce_plainly(program: Program, warps: int, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the lanes and transactions of the first `limit` instructions of a block, lane by lane.

    The loop is right for accesses of at most 4 bytes that do not straddle lines, as in the benchmark kernels.
    """
    done = 0
    for warp in range(warps):
        for segment in program:
            cached = (segment.op != Op.BARRIER) & (segment.space < FIRST_NON_L1_SPACE)
            masks, steps = (segment.mask[warp] * cached).tolist(), segment.step.tolist()
            bases = segment.base[warp].tolist()
            for trip in range(segment.trips):
                for mask, step, base in zip(masks, steps, bases, strict=True):
                    if not mask:
                        continue
                    if done == limit:
                        return
                    done += 1
                    found = [(base[lane] + trip * step) // LINE for lane in LANES if mask >> lane & 1]
                    yield len(found), len(dict.fromkeys(found))


def check(trace: KernelTrace, counts: list[int]) -> None:
    """Exit unless the streams of the first block begin with these numbers of transactions."""
    chunk, start = Chunk(), 0
    for stream in open_block(trace, 0, LINE, StoreRule.AS_LOAD):
        more = True
        while more and start < len(counts):
            more = stream.fill(chunk)
            expected = counts[start : start + chunk.n]
            if chunk.count[: len(expected)].tolist() != expected:
                raise SystemExit(f"{trace.launch.kernel}: the plain loop disagrees")
            start += chunk.n


def measure(kernel: str, instructions: int, sample: int, repeat: int) -> dict[str, float]:
    """Return millions of warp instructions and lane accesses per second (medians), and the ratio to the loop."""
    trace = tracegen.kernel(kernel)
    fast, plain = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        done, blocks = generate(trace, instructions)
        fast.append(time.perf_counter() - start)
        program = trace.block(0)
        start = time.perf_counter()
        found = list(coalesce_plainly(program, trace.launch.block_warps, sample))
        plain.append((time.perf_counter() - start) / len(found))
    check(trace, [transactions for _, transactions in found])
    took = statistics.median(fast)
    return {
        "blocks": blocks,
        "instructions": done,
        "instructions_per_s": done / took / 1e6,
        "lanes_per_s": lanes(trace, blocks) / took / 1e6,
        "ratio": statistics.median(plain) * done / took,
    }


def main() -> None:
    """Measure every kernel and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", default=KERNELS, metavar="KERNEL")
    parser.add_argument("--instructions", type=int, default=500_000)
    parser.add_argument("--sample", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = {kernel: measure(kernel, options.instructions, options.sample, options.repeat) for kernel in options.kernels}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"medians of {options.repeat}; M/s; ratio: times faster than the plain loop")
    print(f"{'kernel':12}{'blocks':>8}{'instructions':>14}{'warp instr/s':>14}{'lanes/s':>10}{'ratio':>8}")
    for kernel, row in rows.items():
        print(
            f"{kernel:12}{row['blocks']:>8,}{row['instructions']:>14,}{row['instructions_per_s']:>14.2f}"
            f"{row['lanes_per_s']:>10.0f}{row['ratio']:>8.0f}"
        )


if __name__ == "__main__":
    main()
