"""Build small traces and GPUs for tests: a line per lane, one cache of 16 lines."""

from __future__ import annotations

import numpy as np

from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.policies import Linear
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Trace

LINE = 128

Instructions = list[tuple[int, int, int, tuple[int, ...]]]


def make_trace(blocks: list[list[Instructions]], warps: int) -> Trace:
    """Build a trace whose instructions request exactly the given lines, one lane per line."""
    program = [instruction for block in blocks for warp in block for instruction in warp]
    lengths = [len(warp) for block in blocks for warp in block]
    counts = [len(lines) for _, _, _, lines in program]
    columns = Columns(
        warp_start=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        pc=np.zeros(len(program)),
        op=np.array([op for op, _, _, _ in program]),
        space=np.zeros(len(program)),
        size=np.full(len(program), 4),
        gap=np.array([gap for _, _, gap, _ in program]),
        needs=np.array([needs for _, needs, _, _ in program], np.uint64),
        loop_exit=np.zeros(len(program)),
        mask=np.array([(1 << n) - 1 for n in counts]),
        address_start=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        addresses=np.array([line * LINE for _, _, _, lines in program for line in lines]),
    )
    launch = Launch(kernel="random", grid=(len(blocks), 1, 1), block=(warps * WARP, 1, 1))
    return Trace(launch, columns)


def make_gpu(**l1: object) -> GPU:
    cache = CacheConfig(**{"size": 16 * LINE, "ways": 2, "index": Linear(), "mshrs": 3, **l1})
    return GPU(name="small", sms=2, max_threads=1536, max_blocks=2, max_warps=48, l1=cache)


def load(*lines: int) -> tuple[int, int, int, tuple[int, ...]]:
    return int(Op.LOAD), ALL_NEEDS, 0, lines


def store(*lines: int) -> tuple[int, int, int, tuple[int, ...]]:
    return int(Op.STORE), ALL_NEEDS, 0, lines


def busy_program(blocks: int = 8, warps: int = 2) -> list[list[Instructions]]:
    """Return loads of scattered lines, more of them than the small GPU holds."""
    rng = np.random.default_rng(0)
    return [
        [[load(*rng.choice(40, 3, replace=False).tolist()) for _ in range(12)] for _ in range(warps)]
        for _ in range(blocks)
    ]


BUSY = make_trace(busy_program(), warps=2)
SMALL = make_gpu()
