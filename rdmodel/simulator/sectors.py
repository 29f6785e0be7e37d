"""Count hits by 32-byte sector, for a cache that fetches its lines sector by sector.

Since Volta, a line of an NVIDIA L1 has one tag and four sectors of 32 bytes; a miss fetches only the sectors that the
transaction requests, and profilers count sectors. A transaction that misses has the misses of all its sectors. One
that finds its line, or finds it in flight, misses those of its sectors that no transaction has requested since the line
took its way. They are fetched then, and remain as long as the line. So each sector is fetched at most once while its
line remains.

The order of the accesses and the lines in the cache are those of the simulator, which fetches whole lines: a missing
sector takes neither extra time nor an MSHR.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass

ROWS_PER_BATCH = 1 << 18
"""Rows of accesses that are counted together."""

MISS, BYPASSED = 2, 3
"""Outcomes of an access, as in `rdmodel.simulator.machine_run.Observer`."""

_SM, _LINE, _OUTCOME, _SECTORS = 0, 4, 5, 6


@dataclass(frozen=True, slots=True)
class SectorCounts:
    """Sectors that the load transactions of all L1s requested.

    `tag_misses` are sectors whose line was absent, `sector_misses` sectors that were missing from a line in the cache.
    All others hit, or are in flight. `line_misses` are the transactions that the `tag_misses` belong to.
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
        """Sectors that were present or in flight, per requested sector, 0 to 1; 0 without any."""
        return 1 - self.misses / self.sectors if self.sectors else 0.0

    @property
    def per_line_miss(self) -> float:
        """Sectors fetched per line that missed, at least 1; 1 if no line was fetched."""
        return self.misses / self.line_misses if self.line_misses else 1.0

    def to_dict(self) -> dict[str, float]:
        """Return the counts and the rates that follow from them."""
        return {**asdict(self), "hit_rate": self.hit_rate, "per_line_miss": self.per_line_miss}


class SectorCounter:
    """An observer for ``simulate(observe=..., sectors=True)`` that counts sectors; O(lines x SMs) memory."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int64]] = []
        self._pending_rows = 0
        # (line, SM) -> the sectors that were requested since the line took its way.
        self._present: dict[tuple[int, int], int] = {}
        self._sectors = self._tag_misses = self._sector_misses = self._line_misses = 0

    def __call__(self, rows: NDArray[np.int64]) -> None:
        """Add rows as given to `rdmodel.simulator.machine_run.Observer`, with sectors in the last column."""
        self._rows.append(rows[rows[:, _OUTCOME] != BYPASSED])
        self._pending_rows += len(self._rows[-1])
        if self._pending_rows >= ROWS_PER_BATCH:
            self._count()

    def result(self) -> SectorCounts:
        """Return the counts of all rows so far."""
        self._count()
        return SectorCounts(self._sectors, self._tag_misses, self._sector_misses, self._line_misses)

    def _count(self) -> None:
        if not self._pending_rows:
            return
        rows = np.concatenate(self._rows)
        self._rows, self._pending_rows = [], 0
        # Stable: within a line of an SM, in order of time.
        rows = rows[np.lexsort((rows[:, _SM], rows[:, _LINE]))]
        line, sm, sectors = rows[:, _LINE], rows[:, _SM], rows[:, _SECTORS]
        miss = rows[:, _OUTCOME] == MISS
        first = np.concatenate([[True], (line[1:] != line[:-1]) | (sm[1:] != sm[:-1])])
        stays = np.flatnonzero(first | miss)
        requested = np.bitwise_or.reduceat(sectors, stays)
        before = np.where(miss[stays], sectors[stays], 0)
        # A stay that does not begin with a miss continues one from an earlier batch.
        continued = np.flatnonzero(~miss[stays])
        keys = list(zip(line[stays].tolist(), sm[stays].tolist(), strict=True))
        before[continued] = [self._present.get(keys[i], 0) for i in continued.tolist()]
        requested |= before
        self._sectors += int(np.bitwise_count(sectors).sum())
        self._line_misses += int(np.count_nonzero(miss))
        self._tag_misses += int(np.bitwise_count(sectors[miss]).sum())
        self._sector_misses += int(np.bitwise_count(requested & ~before).sum())
        self._present.update(zip(keys, requested.tolist(), strict=True))  # the last stay of a line wins
