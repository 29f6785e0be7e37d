"""Summarise a trace: count its instructions, accesses, footprint and transactions, without any cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.trace.cache_ops import CACHE_OP_NAMES, CACHE_OPS
from rdmodel.trace.coalescing import SECTOR
from rdmodel.trace.columns import Columns, Op
from rdmodel.trace.counting import RequestCounts, counted_chunks
from rdmodel.trace.launch import ArrayInfo
from rdmodel.trace.splitting import split_block
from rdmodel.trace.trace import Trace
from rdmodel.trace.work import Work, no_work

_LINES_PER_MERGE = 1 << 20
"""New lines that a `_LineSet` collects before it merges them with the known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayUse:
    """One array of the kernel: `base` address, length in `bytes`, lane `accesses` to it, and `footprint`.

    `footprint` is the size in bytes of all requested lines that overlap the array.
    """

    name: str
    base: int
    bytes: int
    accesses: int
    footprint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Statistics of a trace.

    `threads` and `blocks` are those of the grid. `blocks_held` is the number of blocks that were read; all other
    numbers are about these blocks. `instructions` counts warp instructions by operation. `lane_accesses` is the number
    of accesses of single lanes, `bytes_requested` the sum of their bytes. `lines` is the number of distinct lines of
    `line` bytes that loads and stores request. `load_transactions` is the number of transactions of the loads.
    `elsewhere` counts lane accesses outside `arrays`. `cache_ops` counts warp instructions by their cache operator;
    those without one are not among them. `work` is what the blocks execute; None unless the trace tells their
    arithmetic.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: int
    threads: int
    blocks_held: int
    instructions: dict[str, int]
    lane_accesses: int
    bytes_requested: int
    line: int
    lines: int
    load_transactions: int
    arrays: tuple[ArrayUse, ...]
    elsewhere: int
    cache_ops: dict[str, int] = field(default_factory=dict)
    work: Work | None = None

    @property
    def footprint(self) -> int:
        """Bytes of all distinct lines."""
        return self.lines * self.line

    @property
    def active_lanes(self) -> float:
        """Mean number of active lanes of a load, store or atomic; 0 if there is none."""
        return _ratio(self.lane_accesses, sum(self.instructions.values()) - self.instructions["barrier"])

    @property
    def transactions_per_load(self) -> float:
        """Mean number of transactions of a load instruction: 1 is perfectly coalesced; 0 if there is no load."""
        return _ratio(self.load_transactions, self.instructions["load"])

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and derived values as plain numbers, strings, lists and dicts."""
        plain = asdict(replace(self, work=None))
        plain["work"] = None if self.work is None else self.work.to_dict()
        for name in ("grid", "block", "arrays"):
            plain[name] = list(plain[name])
        for name in ("footprint", "active_lanes", "transactions_per_load"):
            plain[name] = getattr(self, name)
        return plain


def summarise(trace: Trace, line: int = 128, blocks: Sequence[int] | None = None) -> Summary:
    """Count the instructions, accesses and lines of a trace, for lines of `line` bytes.

    `blocks` are the ids of the blocks to read; None: all that the trace holds. Reads the trace once, piece by piece, in
    memory proportional to the number of distinct lines. Raises `ConfigError` if `line` is not a power of two.
    """
    if line < 1 or line & (line - 1):
        raise ConfigError(f"line={line}: must be a power of two")
    assert trace.blocks is not None
    launch = trace.launch
    counts = _SummaryCounts(sorted(launch.arrays, key=lambda array: array.base), line)
    chosen = trace.blocks if blocks is None else blocks
    known: Work | None = no_work()
    for block in chosen:
        for _, columns in split_block(trace, int(block)):
            counts.add(columns)
        more = trace.block_work(int(block))
        known = None if known is None or more is None else known + more
    return Summary(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        blocks=launch.blocks,
        threads=launch.threads,
        blocks_held=len(chosen),
        instructions={op.name.lower(): int(counts.instructions[op]) for op in Op},
        lane_accesses=counts.lane_accesses,
        bytes_requested=counts.bytes_requested,
        line=line,
        lines=len(counts.lines.distinct()),
        load_transactions=counts.load_transactions,
        arrays=counts.uses(),
        elsewhere=counts.lane_accesses - int(counts.inside.sum()),
        cache_ops={name: int(n) for number, name in CACHE_OP_NAMES.items() if (n := counts.cache_ops[number])},
        work=counts.requests.work(launch.block_warps, known) if known is not None and len(chosen) else None,
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class _LineSet:
    """A set of line numbers: an ascending array of known ones, and a buffer of new ones that is merged when full."""

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._new = np.empty(_LINES_PER_MERGE, np.int64)
        self._waiting = 0

    def add(self, lines: NDArray[np.int64]) -> None:
        """Add lines; repeated ones are allowed."""
        while len(lines):
            if self._waiting == len(self._new):
                self.distinct()
            part = lines[: len(self._new) - self._waiting]
            self._new[self._waiting : self._waiting + len(part)] = part
            self._waiting += len(part)
            lines = lines[len(part) :]

    def distinct(self) -> NDArray[np.int64]:
        """Return all distinct lines so far, ascending."""
        fresh = self._new[: self._waiting]
        fresh.sort()
        merged = np.concatenate([self._known, _without_repeats(fresh)])
        # The stable sort merges two ascending runs in linear time.
        merged.sort(kind="stable")
        self._known = _without_repeats(merged)
        self._waiting = 0
        return self._known


def _without_repeats(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


class _SummaryCounts:
    """The counters of a summary; `arrays` are in ascending order of their bases."""

    def __init__(self, arrays: list[ArrayInfo], line: int) -> None:
        self._arrays = arrays
        self._bases = np.array([array.base for array in arrays], dtype=np.int64)
        self._ends = np.array([array.base + array.bytes for array in arrays], dtype=np.int64)
        self._line = line
        self.instructions = np.zeros(len(Op), np.int64)
        self.cache_ops = np.zeros(CACHE_OPS, np.int64)
        self.inside = np.zeros(len(arrays), np.int64)
        self.lane_accesses = self.bytes_requested = self.load_transactions = 0
        self.lines = _LineSet()
        self.requests = RequestCounts()

    def add(self, columns: Columns) -> None:
        """Count the instructions of a piece."""
        self.instructions += np.bincount(columns.op, minlength=len(Op))
        if columns.cache_op is not None:
            self.cache_ops += np.bincount(columns.cache_op, minlength=CACHE_OPS)
        self.lane_accesses += len(columns.addresses)
        self.bytes_requested += int(np.diff(columns.address_start) @ columns.size.astype(np.int64))
        if self._arrays:
            self._add_places(columns.addresses)
        for chunk in counted_chunks(columns, self._line, SECTOR):
            loads = chunk.op[: chunk.n] == int(Op.LOAD)
            self.load_transactions += int(chunk.count[: chunk.n][loads].sum())
            self.lines.add(chunk.lines[: chunk.used])
            self.requests.add(chunk)
        self.requests.add_constants(columns)

    def uses(self) -> tuple[ArrayUse, ...]:
        """Return the counts of every array so far."""
        distinct = self.lines.distinct()
        first = np.searchsorted(distinct, self._bases // self._line)
        end = np.searchsorted(distinct, -(-self._ends // self._line))
        footprints = (end - first) * self._line
        return tuple(
            ArrayUse(name=a.name, base=a.base, bytes=a.bytes, accesses=int(n), footprint=int(footprint))
            for a, n, footprint in zip(self._arrays, self.inside, footprints, strict=True)
        )

    def _add_places(self, addresses: NDArray[np.int64]) -> None:
        place = np.searchsorted(self._bases, addresses, side="right") - 1
        inside = (place >= 0) & (addresses < self._ends[place])
        self.inside += np.bincount(place[inside], minlength=len(self._arrays))
