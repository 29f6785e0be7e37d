"""What a run will need of memory, found before it starts: bytes per distinct line, and how many lines there are.

Every number of bytes is an upper bound. It counts what is allocated, not what is touched, and what is there while an
array grows; tests/rdmodel/execution/test_memory_need.py holds the bounds against what processes take. How many distinct
lines there can be is bounded by the number of transactions, or estimated in one pass over the trace by linear counting
(Whang, Vander-Zanden and Taylor, ACM TODS 15(2), 1990).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.trace import Columns, Trace, locate_block
from rdmodel.trace.coalescing import INSTRUCTIONS_PER_CHUNK, LINES_PER_CHUNK, Chunk, StoreRule, open_block

MB = 1 << 20

LISTED = 320
"""Bytes per distance of a histogram that is written out as JSON: a text and a number in a dict, and lists of both."""

_SLOT = 16
_LINE, _CACHE_LINE = 96, 80
_INSTRUCTION, _MACHINE_INSTRUCTION = 17, 64
_POSITION = 9
_DISTANCE_COUNT = 16
_HISTOGRAM, _MAKING_HISTOGRAM = 16, 64
_SUMMARY = 48
_STACK = 4096
_PARTS = 16
_COUNTS = 8 * _PARTS
_LONG_TABLE_LINES = 1 << 26
_LONG_TABLE = 72 * MB


# ---- bytes


def _table(lines: int) -> int:
    """Return the bytes of a table of lines, with half of it once more while it grows."""
    return 3 * _SLOT * _power(2 * lines) // 2


def _power(n: int) -> int:
    return 1 << max(6, (n - 1).bit_length())


def core_bytes(lines: int, sets: int, warps: int) -> int:
    """Return what the model of one SM takes: `lines` in `sets` sets, `warps` resident warps; exact distances too."""
    records = 2 * _LINE * lines + _table(lines)
    positions = _power(2 * lines) if sets == 1 else 4 * lines
    stacks = 3 * _POSITION * positions // 2 + _STACK * sets
    buffers = warps * 2 * (_INSTRUCTION * INSTRUCTIONS_PER_CHUNK + 8 * LINES_PER_CHUNK)
    return records + stacks + _DISTANCE_COUNT * lines + buffers


def prediction_bytes(lines: int, *, sms: int, sets: int, warps: int, runs: int = 1) -> int:
    """Return what `predict` takes at most, with `lines` distinct lines on each of the modelled SMs.

    `runs` seeds each leave a histogram.
    """
    histograms = _HISTOGRAM * (sms + runs) + _MAKING_HISTOGRAM
    return sms * core_bytes(lines, sets, warps) + histograms * lines + 2 * MB


def simulation_bytes(lines: int, *, sms: int, warps: int) -> int:
    """Return what `simulate` takes at most, with `lines` distinct lines on each SM, and once more in the L2."""
    caches = (sms + 1) * (2 * _CACHE_LINE * lines + _table(lines))
    return caches + sms * warps * 2 * (_MACHINE_INSTRUCTION * 512 + 8 * 4096) + 4 * MB


def summary_bytes(lines: int) -> int:
    """Return what `summarise` takes at most: one piece of a block, and all distinct lines several times."""
    return 32 * MB + _SUMMARY * lines


def sampled_bytes(lines: int, rate: float, *, sms: int, warps: int) -> int:
    """Return what `kernel_histogram` takes at most to follow the share `rate` of `lines` distinct lines on each SM.

    Which lines are followed is drawn: four standard errors are on top of their mean number.
    """
    mean = rate * lines
    followed = min(lines, ceil(mean + 4 * sqrt(mean * (1 - rate)) + (rate < 1)))
    # Twice the counters, and those before while they grow; later a copy of each SM's, their sum and a copy of that.
    counters = (3 * sms + sms + 2) * _COUNTS
    stack = 3 * _POSITION * _power(2 * followed) // 2 + _STACK
    each = _table(followed) + stack + 3 * 8 * followed
    buffers = warps * 2 * (_INSTRUCTION * INSTRUCTIONS_PER_CHUNK + 8 * LINES_PER_CHUNK)
    need = counters * followed + sms * each + buffers + 2 * MB
    return max(need, _LONG_TABLE) if lines > _LONG_TABLE_LINES else need


# ---- lines


def transactions_within(trace: Trace, blocks: Iterable[int], line: int, most: int) -> bool:
    """Tell whether `blocks` make at most `most` transactions, as far as that can be told without a look at them.

    A lane has at most 16 bytes, and makes a transaction for each line of `line` bytes that they lie on.
    """
    per_lane = 2 if line >= 16 else 16 // line + 1
    for block in blocks:
        if not trace.stored:
            return False
        columns, first = locate_block(trace, block)
        assert isinstance(columns, Columns)
        rows = columns.warp_start[[first, first + trace.launch.block_warps]]
        begin, end = columns.address_start[rows].tolist()
        most -= per_lane * (end - begin)
        if most < 0:
            return False
    return True


def count_lines(
    trace: Trace,
    blocks: Collection[int],
    line: int,
    rule: StoreRule,
    *,
    expected: int = 0,
    progress: Progress | None = None,
) -> int:
    """Estimate the distinct lines of `blocks`, with four standard errors on top; `rule` says whose lines count.

    Reads the blocks once, in 10 MB of memory, or 70 MB where more than 64 million lines are `expected`. Raises
    `TraceError` if the trace lacks a block.
    """
    counter, chunk = LineCounter(expected), Chunk()
    for done, block in enumerate(blocks, start=1):
        for stream in open_block(trace, int(block), line, rule):
            more = True
            while more:
                more = stream.fill(chunk)
                counter.add(chunk.lines[: chunk.used])
            if progress is not None:
                progress(done, len(blocks))
    return counter.most()


class LineCounter:
    """Linear counting: a table of flags, one raised for the hash of every line; the ones left down tell how many."""

    def __init__(self, expected: int = 0) -> None:
        # Up to eight lines per flag the error stays below half a percent.
        bits = 23 if expected <= _LONG_TABLE_LINES else 26
        self._flags = np.zeros(1 << bits, np.bool_)
        self._shift = np.uint64(64 - bits)

    def add(self, lines: NDArray[np.int64]) -> None:
        """Take lines, each as often as it likes."""
        x = lines.astype(np.uint64)
        # Neighbours must not come to lie beside each other: every bit of a line has to reach the top ones.
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        self._flags[x >> self._shift] = True

    def most(self) -> int:
        """Return the number of distinct lines, estimated, and four standard errors."""
        size = len(self._flags)
        down = max(1, size - int(np.count_nonzero(self._flags)))
        load = float(np.log(size / down))
        error = float(np.sqrt(size * max(0.0, np.expm1(load) - load)))
        return int(np.ceil(size * load + 4 * error))
