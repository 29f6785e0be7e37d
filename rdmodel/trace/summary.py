"""What is in a trace, in numbers: instructions, accesses, footprint and coalescing, without any cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from rdmodel.trace.coalescing import StoreRule, coalesce
from rdmodel.trace.columns import Columns, Op
from rdmodel.trace.launch import ArrayInfo
from rdmodel.trace.splitting import pieces
from rdmodel.trace.trace import Trace

_MERGE_LINES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayUse:
    """One array of the kernel: `base` address, `bytes`, lane `accesses` in it, and `footprint`.

    `footprint` is in bytes of whole lines that overlap the array and were requested.
    """

    name: str
    base: int
    bytes: int
    accesses: int
    footprint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A trace in numbers.

    `threads` and `blocks` are the grid's; `blocks_held` is how many blocks of the trace were looked at, and everything
    below is about these. `instructions` counts warp instructions by operation. `lane_accesses` are accesses
    of single lanes, `bytes_requested` their bytes. `lines` are the distinct lines of `line` bytes that are
    requested, by stores too. `load_transactions` are what coalescing makes of the loads. `elsewhere` counts
    lane accesses outside `arrays`.
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

    @property
    def footprint(self) -> int:
        """Bytes of all distinct lines."""
        return self.lines * self.line

    @property
    def active_lanes(self) -> float:
        """Mean active lanes of a load, store or atomic; 0 if there is none."""
        return _ratio(self.lane_accesses, sum(self.instructions.values()) - self.instructions["barrier"])

    @property
    def transactions_per_load(self) -> float:
        """Mean transactions of a load instruction: 1 is perfectly coalesced; 0 if there is no load."""
        return _ratio(self.load_transactions, self.instructions["load"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything, derived values included, as plain numbers, texts, lists and dicts."""
        plain = asdict(self)
        for name in ("grid", "block", "arrays"):
            plain[name] = list(plain[name])
        for name in ("footprint", "active_lanes", "transactions_per_load"):
            plain[name] = getattr(self, name)
        return plain


def summarise(trace: Trace, line: int = 128, blocks: Sequence[int] | None = None) -> Summary:
    """Count what a trace asks of memory, in lines of `line` bytes (a power of two, else `ConfigError`).

    `blocks` are the ids of those that are looked at; None: all that the trace holds. Reads the trace once, a piece
    of a block at a time; memory is proportional to the number of distinct lines.
    """
    if line < 1 or line & (line - 1):
        raise ConfigError(f"line={line}: must be a power of two")
    assert trace.blocks is not None
    launch = trace.launch
    tally = _Tally(sorted(launch.arrays, key=lambda array: array.base), line)
    chosen = trace.blocks if blocks is None else blocks
    for block in chosen:
        for _, columns in pieces(trace, int(block)):
            tally.add(columns)
    return Summary(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        blocks=launch.blocks,
        threads=launch.threads,
        blocks_held=len(chosen),
        instructions={op.name.lower(): int(tally.instructions[op]) for op in Op},
        lane_accesses=tally.lane_accesses,
        bytes_requested=tally.bytes_requested,
        line=line,
        lines=len(tally.lines.distinct()),
        load_transactions=tally.load_transactions,
        arrays=tally.uses(),
        elsewhere=tally.lane_accesses - int(tally.inside.sum()),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class _LineSet:
    """Distinct line numbers: those known, ascending, and room for new ones, which are merged in when it is full."""

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._new = np.empty(_MERGE_LINES, np.int64)
        self._waiting = 0

    def add(self, lines: NDArray[np.int64]) -> None:
        """Take lines, each as often as it likes."""
        while len(lines):
            if self._waiting == len(self._new):
                self.distinct()
            part = lines[: len(self._new) - self._waiting]
            self._new[self._waiting : self._waiting + len(part)] = part
            self._waiting += len(part)
            lines = lines[len(part) :]

    def distinct(self) -> NDArray[np.int64]:
        """Return all lines so far, ascending."""
        fresh = self._new[: self._waiting]
        fresh.sort()
        merged = np.concatenate([self._known, _without_repeats(fresh)])
        # Of two ascending runs this makes one in linear time.
        merged.sort(kind="stable")
        self._known = _without_repeats(merged)
        self._waiting = 0
        return self._known


def _without_repeats(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


class _Tally:
    """The running sums of a summary; `arrays` ascend by base."""

    def __init__(self, arrays: list[ArrayInfo], line: int) -> None:
        self._arrays = arrays
        self._bases = np.array([array.base for array in arrays], dtype=np.int64)
        self._ends = np.array([array.base + array.bytes for array in arrays], dtype=np.int64)
        self._line = line
        self.instructions = np.zeros(len(Op), np.int64)
        self.inside = np.zeros(len(arrays), np.int64)
        self.lane_accesses = self.bytes_requested = self.load_transactions = 0
        self.lines = _LineSet()

    def add(self, columns: Columns) -> None:
        """Count a piece."""
        self.instructions += np.bincount(columns.op, minlength=len(Op))
        self.lane_accesses += len(columns.addresses)
        self.bytes_requested += int(np.diff(columns.address_start) @ columns.size.astype(np.int64))
        if self._arrays:
            self._add_places(columns.addresses)
        for chunk in coalesce(columns, self._line, StoreRule.LINES):
            loads = chunk.op[: chunk.n] == Op.LOAD
            self.load_transactions += int(chunk.count[: chunk.n][loads].sum())
            self.lines.add(chunk.lines[: chunk.used])

    def uses(self) -> tuple[ArrayUse, ...]:
        """Return the use of every array so far."""
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
        held = (place >= 0) & (addresses < self._ends[place])
        self.inside += np.bincount(place[held], minlength=len(self._arrays))
