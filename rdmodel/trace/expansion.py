"""Expand the loops of a `Program` into `Columns`, and concatenate the columns of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace.columns import EVERY_ITERATION, Columns, Op, Program, Segment, join_cache_ops
from rdmodel.trace.launch import WARP

_ROW_COLUMNS = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
_LANES = np.arange(WARP, dtype=np.uint32)
"""Columns with one value per instruction, and the numbers of the lanes."""


def expand(program: Program, warps: int) -> Columns:
    """Return all instructions of one block of `warps` warps as columns.

    Within a segment the order is iteration by iteration. A warp whose mask is 0 does not execute the instruction; a
    barrier has no addresses; `loop_exit` is set in the last iteration only. Time and memory are O(warp instructions +
    active lanes).
    """
    has_cache_ops = any(segment.cache_op is not None for segment in program)
    parts = [_rows(segment, has_cache_ops) for segment in program if segment.instructions]
    if not parts:
        return _empty(warps)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    warp, addresses = columns.pop("warp"), columns.pop("addresses")
    lanes = _address_counts(columns)
    start = _offsets(lanes)
    if len(parts) > 1:
        order = np.argsort(warp, kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        addresses = addresses[_ranges(start[:-1][order], lanes[order])]
        start = _offsets(lanes[order])
    warp_start = _offsets(np.bincount(warp, minlength=warps))
    return Columns(warp_start=warp_start, address_start=start, addresses=addresses, **columns)


def concatenate(columns: Sequence[Columns]) -> Columns:
    """Return the warps of all `columns`, one after the other, in O(total size)."""
    if not columns:
        return _empty(0)
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in columns]) for name in (*_ROW_COLUMNS, "addresses")
    }
    for name in ("warp_start", "address_start"):
        steps = [np.diff(getattr(part, name)) for part in columns]
        joined[name] = _offsets(np.concatenate(steps))
    joined["cache_op"] = join_cache_ops(columns)
    return Columns(**joined)


def _rows(segment: Segment, has_cache_ops: bool) -> dict[str, NDArray[Any]]:
    """Return the rows of one segment, warp by warp and iteration by iteration, with the `warp` of each."""
    warps, body = segment.mask.shape
    trips = segment.trips
    executed = np.broadcast_to((segment.mask != 0)[:, None, :], (warps, trips, body))
    warp, trip, instruction = np.nonzero(executed)
    rows: dict[str, NDArray[Any]] = {
        name: getattr(segment, name)[instruction] for name in ("pc", "op", "space", "size", "gap")
    }
    exits = segment.loop_exit[instruction]
    rows["loop_exit"] = (exits == EVERY_ITERATION) | (exits != 0) & (trip == trips - 1)
    rows["needs"] = segment.needs[warp, instruction]
    rows["mask"] = segment.mask[warp, instruction]
    if has_cache_ops:
        given = segment.cache_op
        rows["cache_op"] = np.zeros(len(warp), np.uint8) if given is None else given[instruction]
    rows["warp"] = warp
    active = (rows["mask"][:, None] >> _LANES & 1).astype(np.bool_)
    active[rows["op"] == int(Op.BARRIER)] = False
    row, lane = np.nonzero(active)
    moved = trip * segment.step[instruction]
    rows["addresses"] = segment.base[warp[row], instruction[row], lane] + moved[row]
    return rows


def _address_counts(columns: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    lanes: NDArray[np.int64] = np.bitwise_count(columns["mask"]).astype(np.int64)
    lanes[columns["op"] == int(Op.BARRIER)] = 0
    return lanes


def _offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return offsets


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integers of all ranges ``starts[i] : starts[i] + counts[i]``, one after the other."""
    begin = np.cumsum(counts) - counts
    moved: NDArray[np.int64] = np.repeat(starts - begin, counts)
    return moved + np.arange(len(moved), dtype=np.int64)


def _empty(warps: int) -> Columns:
    nothing: dict[str, Any] = {name: np.zeros(0, dtype=np.int64) for name in (*_ROW_COLUMNS, "addresses")}
    return Columns(warp_start=np.zeros(warps + 1, dtype=np.int64), address_start=np.zeros(1, dtype=np.int64), **nothing)
