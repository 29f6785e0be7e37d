"""Find the time of blocks whose warps wait for mbarriers, and for groups of asynchronous products and copies.

The emulator notes which pieces each warp enters, and its arrivals and waits at barriers (`Events`). Here the warps pass
these pieces again, in the order of their times. A piece takes the time of a warp that is alone, or longer if another
warp of its sub-core occupies a unit. Matrix products and copies go on while their warp does, and mbarriers open when
all arrivals and bytes that they expect are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.lowering.program import LoweredKernel, Step
from tracegen.ptx.timing.asynchronous_pieces import (
    AsynchronousPiece,
    TimedPiece,
    asynchronous_pieces,
    time_piece,
)
from tracegen.ptx.timing.block_run import BlockRun, Visit

ENTRY = -1
"""Place of an event that is the entry of a warp into a piece."""

MOST_EVENTS = 1 << 17
"""Events of all blocks that are resident together, as far as they are followed."""


class BlockTimelines:
    """The times of blocks of a kernel, which are kept for the latencies that were given last.

    `live` are the registers that are live at each instruction, as in `straight_pieces`. A block has `warps` warps.
    """

    def __init__(self, kernel: LoweredKernel, live: Mapping[int, int], warps: int) -> None:
        self._steps, self._warps = kernel.steps, warps
        self._pieces = asynchronous_pieces(kernel, live)
        self._given: tuple[object, ...] = ()
        self._timed: list[TimedPiece] = []
        self._cycles: dict[tuple[bytes, int], float | None] = {}

    def cycles(
        self,
        events: NDArray[np.int64],
        entries: int,
        latencies: Mapping[str, float],
        registers: int,
        resident: int = 1,
    ) -> float | None:
        """Return the cycles of a block, or of the blocks of a cluster, with these events.

        As many as `resident` of them are on an SM together, and do the same. `latencies` and `registers` are those of
        `Piece.longest_chain`. Warps have entered pieces `entries` times. The events may have the first ones only: then
        the rest takes as long for each entry. The result is None if the warps wait for something that is not followed.
        """
        given = (registers, *latencies.items())
        if self._given != given:
            self._given, self._cycles = given, {}
            self._timed = [time_piece(own, latencies, registers) for own in self._pieces]
        events = events[: MOST_EVENTS // resident]
        key = events.tobytes(), resident
        if key not in self._cycles:
            self._cycles[key] = self._time(events, entries, latencies, resident)
        return self._cycles[key]

    def _time(
        self, events: NDArray[np.int64], entries: int, latencies: Mapping[str, float], resident: int
    ) -> float | None:
        visits = visits_of(events, self._steps, self._pieces)
        total, share = sum(map(len, visits.values())), entries / max(1, int((events[:, 2] == ENTRY).sum()))
        run = BlockRun(self._steps, self._pieces, self._timed, latencies, visits, self._warps, resident)
        passed = run.finish() / resident
        if not passed or (passed < total and share == 1):
            return None
        return run.end * share * total / passed


def visits_of(
    events: NDArray[np.int64], steps: Sequence[Step], pieces: Sequence[AsynchronousPiece]
) -> dict[int, list[Visit]]:
    """Return the visits of each warp; a warp that tests an mbarrier again enters its piece once."""
    by_step = {own.piece.counted: number for number, own in enumerate(pieces)}
    found: dict[int, list[Visit]] = {}
    for warp, step, place, amount, size in events.tolist():
        visits = found.setdefault(warp, [])
        if place != ENTRY:
            visits[-1].events.append((step, place, amount, size))
        elif not (visits and steps[step].op == "MBAR" and visits[-1] == Visit(by_step[step], [])):
            visits.append(Visit(by_step[step], []))
    return found
