"""Place the blocks of a grid in time: the SM of each block, and the times at which it begins and ends.

The schedule has blocks, not instructions. All blocks take the same time, 1 on average, with random deviations that are
measured (`rdmodel.model.grid_pilot`). A slot that becomes free gets the next block, as from the dispatcher of
`rdmodel.model.sm`. So the schedule says how far the blocks that share a GPU are apart, late in a long run.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass

MAX_SCHEDULED_BLOCKS = 1 << 18
"""Blocks that are placed at most. In a longer grid, all blocks in the middle are as those in the middle of these."""

MIN_DURATION = 0.1
"""Shortest duration of a block, relative to the mean."""

SCHEDULE_SALT = 0x5C4E
"""First word of the seed of schedules."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the duration of blocks, relative to its mean: between SMs, and within an SM."""

    between: float = 0.0
    within: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class GridMoment:
    """A moment of a schedule: the ids of the `resident` blocks, their `sms`, and the `shares` of them that are done.

    `next` is the id of the first block that has not begun.
    """

    resident: NDArray[np.int64]
    sms: NDArray[np.int64]
    shares: NDArray[np.float64]
    next: int


class GridSchedule:
    """The schedule of `blocks` blocks on `sms` SMs, up to `slots` at a time each; the unit is a block's duration."""

    def __init__(self, blocks: int, sms: int, slots: int, spread: Spread, seed: int) -> None:
        self.blocks = blocks
        self.placed = min(blocks, MAX_SCHEDULED_BLOCKS)
        self.slots = sms * slots
        rng = np.random.default_rng([SCHEDULE_SALT, seed])
        own = spread.between * rng.standard_normal((-(-self.placed // self.slots), sms))
        deviation = spread.within * rng.standard_normal(self.placed)
        self.start, self.end = np.empty(self.placed), np.empty(self.placed)
        self.sm = np.empty(self.placed, np.int64)
        free = [(0.0, slot, slot % sms) for slot in range(self.slots)]
        for block in range(self.placed):
            start, slot, sm = free[0]
            end = start + max(MIN_DURATION, 1 + own[block // self.slots, sm] + deviation[block])
            heapq.heapreplace(free, (end, slot, sm))
            self.start[block], self.end[block], self.sm[block] = start, end, sm

    def work_until(self, time: float) -> float:
        """Return the number of blocks that are done at a time; resident ones count by their share."""
        return float(np.clip((time - self.start) / (self.end - self.start), 0, 1).sum())

    def time_of(self, work: float) -> float:
        """Return the time at which `work` blocks of those that were placed are done."""
        low, high = 0.0, float(self.end.max())
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.work_until(middle) < work else (low, middle)
        return low

    def place_of(self, work: float) -> tuple[float, int]:
        """Return the place among the placed blocks that stands for `work`, and the difference of block ids."""
        surplus = self.blocks - self.placed
        if work <= self.placed / 2 or not surplus:
            return work, 0
        shift = min(surplus, int(work - self.placed / 2))
        return work - shift, shift

    def moment(self, time: float) -> GridMoment:
        """Return the state of the grid at a time."""
        [resident] = np.nonzero((self.start <= time) & (self.end > time))
        shares = (time - self.start[resident]) / (self.end[resident] - self.start[resident])
        return GridMoment(resident, self.sm[resident], shares, int((self.start <= time).sum()))
