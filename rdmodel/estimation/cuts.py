"""Choose the iterations that an excerpt keeps of each segment of a block, and those of its early part."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace import Segment

MIN_ITERATIONS = 3
"""Minimum number of iterations of a cut loop: its first iteration may differ from the others."""

MIN_INNER_ITERATIONS = 8
"""Iterations that an inner loop must keep to be cut as well, where its outer loops have been cut already."""


@dataclass(frozen=True, slots=True)
class SegmentShape:
    """Properties that cuts of a segment need: warp instructions per iteration, with memory (`accesses`) and in all.

    `period` is the number of iterations in which its addresses advance by a given number of bytes, at most that of all
    iterations; 1 if one iteration advances further, or none does.
    """

    accesses: int
    instructions: int
    trips: int
    period: int

    @classmethod
    def of(cls, segment: Segment, advance: int) -> SegmentShape:
        """Return the shape of a segment, with the period in which it advances by `advance` bytes."""
        active = np.count_nonzero(segment.mask, axis=0)
        steps = np.abs(segment.step[(segment.step != 0) & (np.abs(segment.step) < advance)])
        period = -(-advance // int(steps.min())) if len(steps) else 1
        accesses = int(active.sum())
        return cls(accesses, accesses + int(active @ segment.gap), segment.trips, min(period, segment.trips))

    @property
    def least(self) -> int:
        """The fewest iterations that are kept."""
        return min(self.trips, max(MIN_ITERATIONS, self.period))

    @property
    def work(self) -> int:
        """Memory instructions of all iterations."""
        return self.accesses * self.trips

    def keep(self, share: float) -> int:
        """Return the number of iterations to keep for a share of them."""
        return min(self.trips, max(self.least, self.period * round(share * self.trips / self.period)))


class Early(NamedTuple):
    """The early iterations of each segment of a block (`trips`), and their share of all its iterations."""

    trips: Sequence[int]
    share: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The first iteration that a cut keeps of each segment, the number that it keeps (`trips`), and how many are early.

    All three are int64. `share`, `accesses` and `instructions` are those of a `BlockExcerpt`, and so are those of its
    early part.
    """

    firsts: NDArray[np.int64]
    trips: NDArray[np.int64]
    early: NDArray[np.int64]
    share: float
    accesses: float
    instructions: float
    early_share: float
    early_instructions: float


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a block to keep: a `share` of all its iterations, of which its program has the share `made`."""

    share: float
    made: float = 1.0


def plan_cut(shapes: Sequence[SegmentShape], whole: Kept, start: float, early: float | Early | None = None) -> Cut:
    """Return the cut of a program; `start` is the share of iterations to skip.

    `early` is the share of all iterations that are early, or the iterations themselves. None: all that are kept.
    """
    firsts, trips = [0] * len(shapes), [shape.trips for shape in shapes]
    share = _share_of_loops(shapes, whole)
    if share < 1:
        firsts, trips = _choose_iterations(shapes, share, start if whole.made >= 1 else 0.0)
    kept = whole.made * _kept_share(shapes, trips)
    if early is None or early == 1.0:
        early = Early(trips, kept)
    elif isinstance(early, float):
        begun = _choose_early(shapes, trips, whole, early)
        early = Early(begun, whole.made * _kept_share(shapes, begun) if any(begun) else 0.0)
    early_trips = [min(k, e) for k, e in zip(trips, early.trips, strict=True)]
    return Cut(
        firsts=np.array(firsts, np.int64),
        trips=np.array(trips, np.int64),
        early=np.array(early_trips, np.int64),
        share=kept,
        accesses=sum(shape.accesses * k for shape, k in zip(shapes, trips, strict=True)),
        instructions=sum(shape.instructions * k for shape, k in zip(shapes, trips, strict=True)),
        early_share=early.share,
        early_instructions=sum(shape.instructions * k for shape, k in zip(shapes, early_trips, strict=True)),
    )


def _share_of_loops(shapes: Sequence[SegmentShape], kept: Kept) -> float:
    """Return the share of the iterations of the segments to keep."""
    share = min(1.0, kept.share / kept.made)
    if kept.made >= 1:
        return share
    # Outer loops were cut already: inner loops stay whole, unless most of the work is in long ones.
    long = sum(shape.work for shape in shapes if shape.trips * share >= MIN_INNER_ITERATIONS)
    return share if 2 * long >= sum(shape.work for shape in shapes) else 1.0


def _has_loops(shapes: Sequence[SegmentShape]) -> bool:
    """Return whether most of a block is in loops that can be cut; otherwise it is written out."""
    loops = sum(shape.work for shape in shapes if shape.trips > MIN_ITERATIONS)
    return 2 * loops >= sum(shape.work for shape in shapes)


def _choose_iterations(shapes: Sequence[SegmentShape], share: float, start: float) -> tuple[list[int], list[int]]:
    """Return for each segment the first iteration to keep, and the number of iterations to keep."""
    if _has_loops(shapes):
        kept = [shape.keep(share) for shape in shapes]
        firsts = [min(int(start * shape.trips), shape.trips - k) for shape, k in zip(shapes, kept, strict=True)]
        return firsts, kept
    # Keep consecutive segments.
    whole, kept = sum(shape.work for shape in shapes), []
    room, before = share * whole, min(start, 1 - share) * whole
    for shape in shapes:
        skip = before >= shape.work
        before -= shape.work
        kept.append(0 if skip or room <= 0 else shape.trips)
        room -= shape.accesses * kept[-1]
    return [0] * len(shapes), kept


def _choose_early(shapes: Sequence[SegmentShape], trips: Sequence[int], whole: Kept, share: float) -> list[int]:
    """Return the number of kept iterations of each segment that are early: those that a shorter cut would keep."""
    if share <= 0:
        return [0] * len(trips)
    if _has_loops(shapes) and whole.made >= 1:
        return [min(k, shape.keep(share)) for shape, k in zip(shapes, trips, strict=True)]
    early, room = [], share / whole.made * sum(shape.work for shape in shapes)
    for shape, k in zip(shapes, trips, strict=True):
        early.append(min(k, ceil(room / max(1, shape.accesses))) if room > 0 else 0)
        room -= shape.accesses * early[-1]
    return early


def _kept_share(shapes: Sequence[SegmentShape], kept: Sequence[int]) -> float:
    """Return the share of iterations kept: of the cut segments, or of all segments where some are left out."""
    out = 0 in kept
    cut = [(shape, k) for shape, k in zip(shapes, kept, strict=True) if out or k < shape.trips]
    whole = sum(shape.work for shape, _ in cut)
    return sum(shape.accesses * k for shape, k in cut) / whole if whole else 1.0
