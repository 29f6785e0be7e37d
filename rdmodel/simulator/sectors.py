"""Hit rates by 32-byte sector: what a cache whose lines are fetched sector by sector makes of the same accesses.

Since Volta, a line of an NVIDIA L1 has one tag and four sectors of 32 bytes; a miss fetches only the sectors that the
transaction asks for, and profilers count sectors. A transaction that misses has the misses of all its sectors. One
that finds its line, or finds it in flight, misses those of its sectors that nobody has asked for since the line took
its way: they come now, and stay as long as the line. So a line's stay brings each sector at most once.

The order of the accesses and the fate of the lines are the simulator's, which fetches whole lines: a sector that is
missing takes no time of its own here, and no MSHR.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 1 << 18
"""Rows that are looked at together."""

MISS, BYPASSED = 2, 3
_SM, _LINE, _OUTCOME, _SECTORS = 0, 4, 5, 6


@dataclass(frozen=True, slots=True)
class SectorCounts:
    """Sectors that the load transactions of all L1s asked for.

    `tag_misses` found no line, `sector_misses` found their line without them; all others hit, or are in flight.
    `line_misses` are the transactions that the `tag_misses` belong to.
    """

    sectors: int
    tag_misses: int
    sector_misses: int
    line_misses: int

    @property
    def misses(self) -> int:
        """All sectors that were fetched."""
        return self.tag_misses + self.sector_misses

    @property
    def hit_rate(self) -> float:
        """Sectors that were there or in flight, per sector, 0 to 1; 0 without any."""
        return 1 - self.misses / self.sectors if self.sectors else 0.0

    @property
    def per_line_miss(self) -> float:
        """Sectors fetched in a line's stay, from one on; 1 where no line was fetched."""
        return self.misses / self.line_misses if self.line_misses else 1.0

    def to_dict(self) -> dict[str, float]:
        """Return the counts and what follows from them."""
        return {**asdict(self), "hit_rate": self.hit_rate, "per_line_miss": self.per_line_miss}


class SectorCounter:
    """An observer for ``simulate(observe=..., sectors=True)`` that counts sectors; memory grows with lines x SMs."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int64]] = []
        self._held = 0
        # (line, SM) -> the sectors that have been asked for in the line's present stay.
        self._present: dict[tuple[int, int], int] = {}
        self._sectors = self._tag_misses = self._sector_misses = self._line_misses = 0

    def __call__(self, rows: NDArray[np.int64]) -> None:
        """Take rows as `rdmodel.simulator.simulate.Observer` says, the last column as sectors."""
        self._rows.append(rows[rows[:, _OUTCOME] != BYPASSED])
        self._held += len(self._rows[-1])
        if self._held >= ROWS:
            self._count()

    def result(self) -> SectorCounts:
        """Return the counts of all rows so far."""
        self._count()
        return SectorCounts(self._sectors, self._tag_misses, self._sector_misses, self._line_misses)

    def _count(self) -> None:
        if not self._held:
            return
        rows = np.concatenate(self._rows)
        self._rows, self._held = [], 0
        # Stable: within a line of an SM, in order of time.
        rows = rows[np.lexsort((rows[:, _SM], rows[:, _LINE]))]
        line, sm, sectors = rows[:, _LINE], rows[:, _SM], rows[:, _SECTORS]
        miss = rows[:, _OUTCOME] == MISS
        first = np.concatenate([[True], (line[1:] != line[:-1]) | (sm[1:] != sm[:-1])])
        stays = np.flatnonzero(first | miss)
        asked = np.bitwise_or.reduceat(sectors, stays)
        before = np.where(miss[stays], sectors[stays], 0)
        # What is not begun by a miss goes on from the rows before these.
        goes_on = np.flatnonzero(~miss[stays])
        keys = list(zip(line[stays].tolist(), sm[stays].tolist(), strict=True))
        before[goes_on] = [self._present.get(keys[i], 0) for i in goes_on.tolist()]
        asked |= before
        self._sectors += int(np.bitwise_count(sectors).sum())
        self._line_misses += int(np.count_nonzero(miss))
        self._tag_misses += int(np.bitwise_count(sectors[miss]).sum())
        self._sector_misses += int(np.bitwise_count(asked & ~before).sum())
        self._present.update(zip(keys, asked.tolist(), strict=True))  # the last stay of a line wins
