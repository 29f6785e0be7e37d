"""Store warp instructions as columns (`Columns`) or as the segments of loops (`Segment`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from rdmodel.trace.cache_ops import CACHE_OPS, VALID_CACHE_OPS
from rdmodel.trace.mapped_pages import Pages

ALL_NEEDS = (1 << 64) - 1
"""A `needs` mask that waits for every earlier load; for instructions whose dependences are unknown."""

LAST_ADDRESS = (1 << 63) - 16
"""The highest byte address of a lane: 16 bytes from there on still have signed 64-bit addresses."""


# Compare columns with `int(Op.LOAD)`. NumPy looks up attributes of types that it does not know, and ignores all errors:
# Python 3.11 does so in Python code for enumerations, where an interruption by Ctrl-C would be lost.


class Op(IntEnum):
    """The operation of a memory instruction."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    BARRIER = 3


class Space(IntEnum):
    """The memory space that an instruction addresses."""

    GLOBAL = 0
    LOCAL = 1
    CONSTANT = 2
    TEXTURE = 3


EVERY_ITERATION = 2
"""A value of `Segment.loop_exit`: the warp leaves the load's loop in every iteration of the segment."""

FIRST_NON_L1_SPACE = int(Space.CONSTANT)
"""The first `Space` that is not cached in the L1: accesses to it and to later ones make no L1 transaction."""

VALUES_PER_CHECK = 1 << 16
"""Values of a column that are checked at a time; the check needs a few times their memory, however long the trace."""

_COLUMN_TYPES: dict[str, np.dtype[Any]] = {
    "warp_start": np.dtype(np.int64),
    "pc": np.dtype(np.int32),
    "op": np.dtype(np.uint8),
    "space": np.dtype(np.uint8),
    "size": np.dtype(np.uint8),
    "gap": np.dtype(np.int32),
    "needs": np.dtype(np.uint64),
    "loop_exit": np.dtype(np.bool_),
    "mask": np.dtype(np.uint32),
    "address_start": np.dtype(np.int64),
    "addresses": np.dtype(np.int64),
    "cache_op": np.dtype(np.uint8),
}

_NO_CACHE_OP = ~np.array([*VALID_CACHE_OPS, *[False] * (256 - CACHE_OPS)])
"""Whether each value of a byte is no cache operator."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Columns:
    """Warp instructions as contiguous, read-only columns, in compressed sparse row form by warp and by lane.

    ==================  =======  ==============================================================================
    column              dtype    one per
    ==================  =======  ==============================================================================
    ``warp_start``      int64    warp, and one more: warp w owns instructions ``warp_start[w]:warp_start[w + 1]``
    ``pc``              int32    instruction: its address in the program, any stable number
    ``op``              uint8    instruction: `Op`
    ``space``           uint8    instruction: `Space`
    ``size``            uint8    instruction: bytes per lane, 1 to 16
    ``gap``             int32    instruction: non-memory warp instructions since the previous memory instruction
    ``needs``           uint64   instruction: bit i = the (i+1)-th previous memory instruction of the warp (barriers
                                 not counted) must have arrived; instructions further back always must
    ``loop_exit``       bool     instruction: the warp leaves the load's loop after it
    ``mask``            uint32   instruction: active lanes
    ``address_start``   int64    instruction, and one more: its addresses, one per active lane, lowest lane first
    ``addresses``       int64    active lane: byte address
    ``cache_op``        uint8    instruction: cache operator (`rdmodel.trace.cache_ops`), 0 for none. The column is
                                 None if no instruction has one
    ==================  =======  ==============================================================================

    A barrier has no addresses. Raises `TraceError` for a value that its dtype cannot hold. `check` raises a
    `TraceError` that names the warp and the instruction that is wrong.
    """

    warp_start: NDArray[np.int64]
    pc: NDArray[np.int32]
    op: NDArray[np.uint8]
    space: NDArray[np.uint8]
    size: NDArray[np.uint8]
    gap: NDArray[np.int32]
    needs: NDArray[np.uint64]
    loop_exit: NDArray[np.bool_]
    mask: NDArray[np.uint32]
    address_start: NDArray[np.int64]
    addresses: NDArray[np.int64]
    cache_op: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        """Convert every column to its dtype, contiguous and read-only; copy only where necessary."""
        for name in _COLUMN_TYPES:
            given = getattr(self, name)
            if name == "cache_op" and given is None:
                continue
            value = np.ascontiguousarray(_as_dtype(name, given))
            if value.flags.writeable:
                value = value.view()
                value.flags.writeable = False
            if value is not given:
                object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return one line with the numbers of instructions and warps."""
        return f"Columns({len(self)} instructions, {self.warps} warps)"

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.pc)

    @property
    def warps(self) -> int:
        """Number of warps."""
        return len(self.warp_start) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the columns."""
        return _bytes_of_fields(self)

    def check(self, pages: Pages | None = None) -> tuple[int, int] | None:
        """Raise `TraceError` unless every column agrees with every other; O(instructions), in bounded memory.

        `pages`, if the columns are mapped from files, are released during the check. Returns the lowest and the highest
        address, which the check finds anyway, or None if there are no addresses.
        """
        n = len(self)
        for column in fields(self):
            value = getattr(self, column.name)
            if value is None:
                continue
            free = column.name in ("warp_start", "addresses")
            expected = len(value) if free else n + (column.name == "address_start")
            if value.shape != (expected,):
                raise TraceError(f"column {column.name}: shape {value.shape}, expected ({expected},)")
        pages = Pages(()) if pages is None else pages
        _check_offsets("warp_start", self.warp_start, n, pages)
        _check_offsets("address_start", self.address_start, len(self.addresses), pages)
        for first, end in _ranges(n):
            self._check_rows(slice(first, end))
            pages.read(first, end)
        bounds = []
        for first, end in _ranges(len(self.addresses)):
            bounds.append(self._check_lanes(slice(first, end)))
            pages.read(0, 0, first, end)
        pages.give_back()
        return (min(lowest for lowest, _ in bounds), max(highest for _, highest in bounds)) if bounds else None

    def _check_rows(self, part: slice) -> None:
        op, space, size, mask = self.op[part], self.space[part], self.size[part], self.mask[part]
        lanes = np.bitwise_count(mask).astype(np.int64)
        self._refuse(op > max(Op), "op {0} is not one of 0 to 3", op, part)
        self._refuse(space > max(Space), "space {0} is not one of 0 to 3", space, part)
        self._refuse(self.gap[part] < 0, "gap {0} is negative", self.gap[part], part)
        if self.cache_op is not None:
            self._refuse(_NO_CACHE_OP[self.cache_op[part]], "cache_op {0} is no operator", self.cache_op[part], part)
        barrier = op == int(Op.BARRIER)
        self._refuse(~barrier & ((size < 1) | (size > 16)), "size {0} is not 1 to 16 bytes", size, part)
        self._refuse(~barrier & (mask == 0), "no active lane (mask {0})", mask, part)
        addresses = np.diff(self.address_start[part.start : part.stop + 1])
        wrong = addresses != np.where(barrier, 0, lanes)
        self._refuse(wrong, "{0} addresses disagree with its active mask", addresses, part)

    def _check_lanes(self, part: slice) -> tuple[int, int]:
        """Check the addresses of some lanes; return the lowest and the highest one."""
        addresses = self.addresses[part]
        lowest, highest = int(addresses.min()), int(addresses.max())
        if lowest < 0:
            self._refuse_lane(part.start + int(np.argmax(addresses < 0)), "is negative")
        if highest > LAST_ADDRESS:
            self._refuse_lane(part.start + int(np.argmax(addresses > LAST_ADDRESS)), f"is above {LAST_ADDRESS}")
        return lowest, highest

    def _refuse(self, wrong: NDArray[np.bool_], message: str, values: NDArray[Any], part: slice) -> None:
        if wrong.any():
            at = int(np.argmax(wrong))
            raise TraceError(f"{self._where(part.start + at)}: " + message.format(values[at]))

    def _refuse_lane(self, lane: int, message: str) -> None:
        row = int(np.searchsorted(self.address_start, lane, side="right")) - 1
        raise TraceError(f"{self._where(row)}: address {self.addresses[lane]} {message}")

    def _where(self, row: int) -> str:
        warp = int(np.searchsorted(self.warp_start, row, side="right")) - 1
        return f"warp {warp}, instruction {row - int(self.warp_start[warp])}"


def _as_dtype(name: str, values: Any) -> NDArray[Any]:
    """Return `values` in the dtype of column `name`; raise `TraceError` if one of them would change."""
    wanted = _COLUMN_TYPES[name]
    try:
        array = np.asarray(values)
    except ValueError:
        raise TraceError(f"column {name}: must be an array of whole numbers") from None
    if array.dtype == wanted or array.size == 0:
        return array.astype(wanted, copy=False)
    # Floats hold no 64-bit number in full: the low bits of an address may be lost before it gets here.
    if array.dtype.kind not in ("biu" if wanted.itemsize == 8 else "biuf"):
        raise TraceError(f"column {name}: must be whole numbers of type {wanted}, not {array.dtype}")
    with np.errstate(invalid="ignore"):
        column = array.astype(wanted)
    changed = np.flatnonzero(column != array)
    if len(changed):
        raise TraceError(f"column {name}: {array.flat[changed[0]]} at {changed[0]} does not fit {wanted}")
    return column


def _check_offsets(name: str, offsets: NDArray[np.int64], end: int, pages: Pages) -> None:
    rises = len(offsets) >= 1 and offsets[0] == 0 and offsets[-1] == end
    for first, last in _ranges(len(offsets) - 1):
        rises = rises and not (np.diff(offsets[first : last + 1]) < 0).any()
        pages.read(first, last)
    if not rises:
        raise TraceError(f"column {name}: must rise from 0 to {end}")


def _ranges(n: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of consecutive ranges of at most `VALUES_PER_CHECK` of n values."""
    for first in range(0, n, VALUES_PER_CHECK):
        yield first, min(first + VALUES_PER_CHECK, n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """`trips` iterations of a straight-line body of m memory instructions, for the W warps of one block.

    In iteration t, lane l of warp w accesses ``base[w, i, l] + t * step[i]`` with instruction i of the body, if bit l
    of ``mask[w, i]`` is set; a warp whose mask is 0 does not execute the instruction. Straight-line code is a segment
    with ``trips == 1``. ``pc op space size gap loop_exit step`` have shape (m,); ``needs`` and ``mask`` (W, m);
    ``base`` (W, m, 32). ``loop_exit`` marks the instruction of the *last* iteration. As uint8 in place of bool it may
    also be `EVERY_ITERATION`: the body contains, written out, the last iteration of an inner loop. Other dtypes as in
    `Columns`, and ``cache_op`` of shape (m,) may be None as well.
    """

    trips: int
    pc: NDArray[np.int32]
    op: NDArray[np.uint8]
    space: NDArray[np.uint8]
    size: NDArray[np.uint8]
    gap: NDArray[np.int32]
    loop_exit: NDArray[np.bool_] | NDArray[np.uint8]
    needs: NDArray[np.uint64]
    mask: NDArray[np.uint32]
    base: NDArray[np.int64]
    step: NDArray[np.int64]
    cache_op: NDArray[np.uint8] | None = None

    @property
    def instructions(self) -> int:
        """Warp instructions in the segment, over all warps."""
        return self.trips * int(np.count_nonzero(self.mask))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the columns."""
        return _bytes_of_fields(self)

    def cut(self, first: int, trips: int) -> Segment:
        """Return `trips` iterations, from iteration `first` on."""
        if trips == self.trips:
            return self
        base = self.base + first * self.step[:, None] if first else self.base
        return replace(self, trips=trips, base=base)

    def with_lanes(
        self,
        base: NDArray[np.int64],
        needs: NDArray[np.uint64] | None = None,
        mask: NDArray[np.uint32] | None = None,
    ) -> Segment:
        """Return a copy with other addresses (`base`), and with other `needs` and `mask` if they are given."""
        return Segment(
            trips=self.trips,
            pc=self.pc,
            op=self.op,
            space=self.space,
            size=self.size,
            gap=self.gap,
            loop_exit=self.loop_exit,
            needs=self.needs if needs is None else needs,
            mask=self.mask if mask is None else mask,
            base=base,
            step=self.step,
            cache_op=self.cache_op,
        )


def _bytes_of_fields(part: Columns | Segment) -> int:
    columns = (getattr(part, field.name) for field in fields(part))
    return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))


Program = Sequence[Segment]
"""The memory instructions of one block in program order, as segments."""


def has_cache_ops(source: Columns | Program) -> bool:
    """Return whether an instruction may have a cache operator: whether a part has a column of them."""
    return any(part.cache_op is not None for part in ([source] if isinstance(source, Columns) else source))


def join_cache_ops(parts: Sequence[Columns] | Program) -> NDArray[np.uint8] | None:
    """Return the cache operators of the instructions of all parts, one after the other; None if there are none."""
    if all(part.cache_op is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(p.pc), np.uint8) if p.cache_op is None else p.cache_op for p in parts])


def slice_warps(columns: Columns, first: int, last: int) -> Columns:
    """Return warps ``first:last`` as separate `Columns`; the big columns are views, nothing is copied."""
    return _slice_rows(columns, columns.warp_start[first : last + 1])


def slice_rows(columns: Columns, first: int, last: int) -> Columns:
    """Return instructions ``first:last`` of one warp as `Columns` of one warp; they are numbered over all warps."""
    return _slice_rows(columns, np.array([first, last]))


def _slice_rows(columns: Columns, warp_start: NDArray[np.int64]) -> Columns:
    lo, hi = int(warp_start[0]), int(warp_start[-1])
    at, end = int(columns.address_start[lo]), int(columns.address_start[hi])
    per_instruction = {
        name: getattr(columns, name)[lo:hi]
        for name in ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
    }
    if columns.cache_op is not None:
        per_instruction["cache_op"] = columns.cache_op[lo:hi]
    return Columns(
        warp_start=warp_start - lo,
        address_start=columns.address_start[lo : hi + 1] - at,
        addresses=columns.addresses[at:end],
        **per_instruction,
    )
