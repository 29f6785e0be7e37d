"""Recorded segments, moved: to another block, or on through the iterations of a loop around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import EVERY_ITERATION, Segment

TOGETHER = 64
"""Iterations that are moved at once: their addresses share memory."""

MOST_WRITTEN_OUT = 1024
"""Instructions of a body that has loops of its own, written out."""


def moved(program: Sequence[Segment], along: NDArray[np.int64]) -> list[Segment]:
    """Return a program with the addresses of instruction `pc` moved by ``along[pc]`` bytes."""
    return [one.with_lanes(one.base + along[one.pc][:, None]) for one in program]


def moved_on(program: Sequence[Segment], along: NDArray[np.int64], times: range) -> list[Segment]:
    """Return copies of a program, one after the other, moved by each of `times` times ``along[pc]`` bytes.

    They are iterations of one segment, with loops in the program written out, where that takes no more memory.
    """
    written_out = sum(one.trips * len(one.pc) for one in program)
    if len(times) > 1 and 0 < written_out <= min(MOST_WRITTEN_OUT, len(times) * sum(len(one.pc) for one in program)):
        return [_repeated(program, along, times)]
    copies: list[Segment] = []
    for first in range(times.start, times.stop, TOGETHER):
        steps = np.arange(first, min(first + TOGETHER, times.stop))[:, None, None, None]
        bases = [one.base + steps * along[one.pc][:, None] for one in program]
        copies += [one.with_lanes(base[i]) for i in range(len(steps)) for one, base in zip(program, bases, strict=True)]
    return copies


def _repeated(program: Sequence[Segment], along: NDArray[np.int64], times: range) -> Segment:
    """Return a segment whose body is a program, written out, and whose iterations are `times`."""
    row, trip, last = _written_out(tuple((len(one.pc), one.trips) for one in program))

    def column(name: str, axis: int = 0) -> NDArray[Any]:
        parts = [getattr(one, name) for one in program]
        return np.take(np.concatenate(parts, axis=axis), row, axis=axis)

    pc, exits = column("pc"), column("loop_exit")
    step = along[pc]
    base = column("base", 1)
    base += (trip * column("step") + times.start * step)[:, None]
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
    )


@lru_cache(maxsize=64)
def _written_out(shape: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return, for segments of (body, trips) one after the other, what stands in each row when they are written out.

    Which instruction of all bodies, in which iteration, and whether that is the last one.
    """
    rows, trips, last = [], [], []
    first = 0
    for body, n in shape:
        rows.append(np.tile(np.arange(first, first + body), n))
        trips.append(np.repeat(np.arange(n), body))
        last.append(trips[-1] == n - 1)
        first += body
    return np.concatenate(rows), np.concatenate(trips), np.concatenate(last)
