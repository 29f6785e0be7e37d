"""Shift the addresses of recorded segments to further iterations of a loop around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import EVERY_ITERATION, Segment
from rdmodel.trace.columns import join_cache_ops

SHIFTED_COPIES = 64
"""Number of copies that are made at a time: their addresses share memory."""

MAX_UNROLLED_INSTRUCTIONS = 1024
"""Maximum number of instructions of an unrolled body with inner loops."""


SEGMENT_BYTES = 1 << 10
"""Memory of a segment besides its addresses."""


def repeat_program(program: Sequence[Segment], offsets: NDArray[np.int64], times: range) -> list[Segment]:
    """Return consecutive copies of a program, moved by each of `times` times ``offsets[pc]`` bytes.

    They become the iterations of one segment, with loops in the program unrolled, if that takes no more memory.
    """
    if _is_unrolled(program, times):
        return [_as_one_segment(program, offsets, times)]
    copies: list[Segment] = []
    for first in range(0, len(times), SHIFTED_COPIES):
        steps = np.array(times[first : first + SHIFTED_COPIES])[:, None, None, None]
        bases = [segment.base + steps * offsets[segment.pc][:, None] for segment in program]
        copies += [
            segment.with_lanes(base[i]) for i in range(len(steps)) for segment, base in zip(program, bases, strict=True)
        ]
    return copies


def program_bytes(program: Sequence[Segment]) -> int:
    """Return the memory that the segments of a program take, without columns that they share."""
    return sum(segment.base.nbytes + SEGMENT_BYTES for segment in program)


def repeated_bytes(program: Sequence[Segment], times: range) -> int:
    """Return the memory that the result of `repeat_program` takes."""
    if _is_unrolled(program, times):
        return sum(segment.trips * segment.base.nbytes for segment in program) + SEGMENT_BYTES
    return len(times) * program_bytes(program)


def _is_unrolled(program: Sequence[Segment], times: range) -> bool:
    unrolled = sum(segment.trips * len(segment.pc) for segment in program)
    copied = len(times) * sum(len(segment.pc) for segment in program)
    return len(times) > 1 and 0 < unrolled <= min(MAX_UNROLLED_INSTRUCTIONS, copied)


def _as_one_segment(program: Sequence[Segment], offsets: NDArray[np.int64], times: range) -> Segment:
    """Return a segment whose body is the unrolled program, and whose iterations are `times`."""
    row, trip, last = _unrolled_rows(tuple((len(segment.pc), segment.trips) for segment in program))

    def column(name: str, axis: int = 0) -> NDArray[Any]:
        parts = [getattr(segment, name) for segment in program]
        return np.take(np.concatenate(parts, axis=axis), row, axis=axis)

    pc, exits = column("pc"), column("loop_exit")
    step = times.step * offsets[pc]
    base = column("base", 1)
    cache_ops = join_cache_ops(program)
    base += (trip * column("step") + times.start * offsets[pc])[:, None]
    return Segment(
        trips=len(times),
        pc=pc,
        op=column("op"),
        space=column("space"),
        size=column("size"),
        gap=column("gap"),
        loop_exit=np.where((exits == EVERY_ITERATION) | (exits != 0) & last, np.uint8(EVERY_ITERATION), np.uint8(0)),
        needs=column("needs", 1),
        mask=column("mask", 1),
        base=base,
        step=step,
        cache_op=None if cache_ops is None else cache_ops[row],
    )


@lru_cache(maxsize=64)
def _unrolled_rows(
    shape: tuple[tuple[int, int], ...],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return, for the rows of unrolled segments of (body, trips), instruction, iteration, and whether that is the last.

    Instructions are numbered over all bodies.
    """
    rows, trips, last = [], [], []
    first = 0
    for body, n in shape:
        rows.append(np.tile(np.arange(first, first + body), n))
        trips.append(np.repeat(np.arange(n), body))
        last.append(trips[-1] == n - 1)
        first += body
    return np.concatenate(rows), np.concatenate(trips), np.concatenate(last)
