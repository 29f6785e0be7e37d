"""Bound the memory of a run before it starts: bytes per distinct line, and the number of distinct lines.

Every number of bytes is an upper bound. It covers all allocated memory, whether touched or not, and both copies of an
array while it grows; tests/rdmodel/execution/test_memory_need.py compares the bounds with the memory of processes. The
number of distinct lines is bounded by the range of the addresses and by the number of transactions, or else estimated
in one pass over the trace by linear counting (Whang, Vander-Zanden and Taylor, ACM TODS 15(2), 1990).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.progress import Progress
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import DEFAULT_CHUNK_INSTRUCTIONS, DEFAULT_CHUNK_LINES, Chunk, StoreRule, open_block

MB = 1 << 20
"""Bytes of a mebibyte."""

JSON_BYTES_PER_DISTANCE = 320
"""Bytes per distance of a histogram while it is printed as JSON: a string and a number in a dict, and lists of both."""

_SLOT_BYTES = 16
"""Bytes of a slot of a hash table of lines."""

_FAST_LINE_BYTES, _LINE_BYTES, _CACHE_LINE_BYTES = 28, 96, 80
"""Bytes per line of an SM that `FastCore` models, of one that another core models, and of a cache of the simulator."""

_MASK_BYTES, _SECTOR_BYTES = 24, 16
"""Bytes of the masks of a line that is fetched by sector, and of each of its sectors."""

_INSTRUCTION_BYTES, _MACHINE_INSTRUCTION_BYTES = 17, 64
"""Bytes per buffered instruction of the model, and of the simulator."""

_WAY_BYTES, _WAY_SECTOR_BYTES = 120, 17
"""Bytes per way of an L1 that `FastCore` models, with its places in the row of accesses, and per sector of it."""

_POSITION_BYTES = 9
"""Bytes per position of the stack that measures reuse distances."""

_STACK_BYTES = 4096
"""Bytes of an empty stack."""

_DISTANCE_BYTES = 16
"""Bytes per distinct distance of a running count."""

_HISTOGRAM_BYTES, _HISTOGRAM_WORK_BYTES = 16, 64
"""Bytes per distance of a finished histogram, and temporarily while one is made."""

_SUMMARY_BYTES = 48
"""Bytes per distinct line of a summary."""

_COUNTER_BYTES = 8 * 16
"""Bytes of the counters of one sampled line, one for each of the 16 parts of the sample."""

_LARGE_TABLE_LINES = 1 << 26
"""Expected lines above which a `LineCounter` has its large table."""

_LARGE_TABLE_BYTES = 72 * MB
"""Bytes of that table."""

SET_BYTES, MACHINE_SET_BYTES = 2400, 24
"""Bytes of an empty set of a modelled L1, and of a cache of the simulator: less than these cannot suffice."""


# ---- Bytes


def _table_bytes(lines: int) -> int:
    """Return the bytes of a hash table of lines, including its previous, half as large copy while it grows."""
    return 3 * _SLOT_BYTES * _table_slots(2 * lines) // 2


def _table_slots(n: int) -> int:
    return 1 << max(6, (n - 1).bit_length())


def core_bytes(lines: int, sets: int, warps: int, sectors: int = 0, *, fast_ways: int = 0) -> int:
    """Bound the memory of one modelled SM: `lines` in `sets` sets, `warps` resident warps, and exact distances.

    Lines have `sectors` each; 0: they are fetched as a whole. `fast_ways` are the ways of all sets if a `FastCore`
    models the SM, which has ways and their sectors from the start; otherwise 0.
    """
    whole_bytes = _LINE_BYTES + (_MASK_BYTES + _SECTOR_BYTES * sectors if sectors else 0)
    line_bytes = _FAST_LINE_BYTES if fast_ways else whole_bytes
    records = 2 * line_bytes * lines + (_WAY_BYTES + _WAY_SECTOR_BYTES * sectors) * fast_ways + _table_bytes(lines)
    positions = _table_slots(2 * lines) if sets == 1 else 4 * lines
    stacks = 3 * _POSITION_BYTES * positions // 2 + _STACK_BYTES * sets
    transaction_bytes = 16 if sectors else 8
    buffers = warps * 2 * (_INSTRUCTION_BYTES * DEFAULT_CHUNK_INSTRUCTIONS + transaction_bytes * DEFAULT_CHUNK_LINES)
    return records + stacks + _DISTANCE_BYTES * lines + buffers


def prediction_bytes(
    lines: int, *, sms: int, sets: int, warps: int, runs: int = 1, sectors: int = 0, fast_ways: int = 0
) -> int:
    """Bound the memory of `predict` with `lines` distinct lines on each of `sms` modelled SMs.

    `sectors` and `fast_ways` are those of `core_bytes`. Each of `runs` seeds leaves a histogram.
    """
    histograms = _HISTOGRAM_BYTES * (sms + runs) + _HISTOGRAM_WORK_BYTES
    return sms * core_bytes(lines, sets, warps, sectors, fast_ways=fast_ways) + histograms * lines + 2 * MB


def simulation_bytes(lines: int, *, sms: int, warps: int) -> int:
    """Bound the memory of `simulate` with `lines` distinct lines on each SM, and as many in the L2."""
    caches = (sms + 1) * (2 * _CACHE_LINE_BYTES * lines + _table_bytes(lines))
    buffers = warps * 2 * (_MACHINE_INSTRUCTION_BYTES * DEFAULT_CHUNK_INSTRUCTIONS + 8 * DEFAULT_CHUNK_LINES)
    return caches + sms * buffers + 4 * MB


def summary_bytes(lines: int) -> int:
    """Bound the memory of `summarise`: one piece of a block, and several copies of all distinct lines."""
    return 32 * MB + _SUMMARY_BYTES * lines


def sampled_bytes(lines: int, rate: float, *, sms: int, warps: int) -> int:
    """Bound the memory of `kernel_histogram` that samples the share `rate` of `lines` distinct lines on each SM.

    The sampled lines are random: their number is bounded by its mean plus four standard errors.
    """
    mean = rate * lines
    followed = min(lines, ceil(mean + 4 * sqrt(mean * (1 - rate)) + (rate < 1)))
    # While counters grow there are three copies of each SM's; later a copy of each, their sum and a copy of the sum.
    counters = (3 * sms + sms + 2) * _COUNTER_BYTES
    stack = 3 * _POSITION_BYTES * _table_slots(2 * followed) // 2 + _STACK_BYTES
    each = _table_bytes(followed) + stack + 3 * 8 * followed
    buffers = warps * 2 * (_INSTRUCTION_BYTES * DEFAULT_CHUNK_INSTRUCTIONS + 8 * DEFAULT_CHUNK_LINES)
    need = counters * followed + sms * each + buffers + 2 * MB
    return max(need, _LARGE_TABLE_BYTES) if lines > _LARGE_TABLE_LINES else need


# ---- Lines


def addresses_within(trace: Trace, line: int, limit: int) -> bool:
    """Return True if all addresses of a trace certainly lie in at most `limit` consecutive lines of `line` bytes.

    A lane requests at most 16 bytes. False if the trace is not stored, or if it was not checked: the range of its
    addresses is not known. It is not read for this.
    """
    if not trace.stored or trace.address_bounds is None:
        return False
    lowest, highest = trace.address_bounds
    return (highest + 15) // line - lowest // line < limit


def transactions_within(trace: Trace, blocks: Iterable[int], line: int, limit: int) -> bool:
    """Return True if `blocks` certainly make at most `limit` transactions; do not read their addresses.

    A lane requests at most 16 bytes, and makes a transaction for each line of `line` bytes that they overlap. False if
    the trace is not stored: the number of its lanes is not known in advance.
    """
    per_lane = 2 if line >= 16 else 16 // line + 1
    for block in blocks:
        lanes = trace.count_lanes(block)
        if lanes is None:
            return False
        limit -= per_lane * lanes
        if limit < 0:
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
    """Estimate the number of distinct lines of `blocks`, plus four standard errors; `rule` selects the instructions.

    Reads the blocks once, in 10 MB of memory, or 70 MB if more than 64 million lines are `expected`. Raises
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
    return counter.upper_bound()


class LineCounter:
    """A linear counter: each line sets the flag of its hash, and the flags still clear give the number of lines."""

    def __init__(self, expected: int = 0) -> None:
        # Up to eight lines per flag the error stays below half a percent.
        bits = 23 if expected <= _LARGE_TABLE_LINES else 26
        self._flags = np.zeros(1 << bits, np.bool_)
        self._shift = np.uint64(64 - bits)

    def add(self, lines: NDArray[np.int64]) -> None:
        """Add lines; repeated ones are allowed."""
        x = lines.astype(np.uint64)
        # Neighbouring lines must not get neighbouring flags: every bit of a line has to affect the highest ones.
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        self._flags[x >> self._shift] = True

    def upper_bound(self) -> int:
        """Return the estimated number of distinct lines plus four standard errors."""
        size = len(self._flags)
        clear = max(1, size - int(np.count_nonzero(self._flags)))
        load = float(np.log(size / clear))
        error = float(np.sqrt(size * max(0.0, np.expm1(load) - load)))
        return int(np.ceil(size * load + 4 * error))
