"""Recover MSHRs from timings: section 5.2 of Nugteren et al. (HPCA 2014).

Independent loads are in flight together as long as MSHRs are free. The first load without an MSHR waits for a whole
latency, so that the time of n loads is a staircase. There is no staircase if the responses for all MSHRs take longer to
arrive than one latency: the first MSHR is then free again before the last one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from validation.microbenchmarks.clock import Clock

WARPS = 32
"""Number of warps of the largest block."""

MAX_LOADS = 128
"""Largest number of loads in a test. A step beyond it may come from the L2."""

MAX_LOADS_OF_A_WARP = 64
"""Largest number of loads of one warp. A trace cannot mark a load as independent of loads further back."""

PAPER_WARPS = range(1, 18)
"""Numbers of warps in figure 9."""

PAPER_LOADS = 8
"""Largest number of loads per warp in figure 9."""


@dataclass(frozen=True, slots=True)
class Mshrs:
    """MSHRs in total, MSHRs that one warp may hold, and transactions that may share one; None: no visible limit."""

    entries: int | None
    per_warp: int | None
    merge: int | None


def recover(clock: Clock, line: int, lines: int) -> Mshrs:
    """Return the MSHRs of an L1 with `lines` lines of `line` bytes; no more lines than these can be in flight.

    A transaction that finds no room in the MSHR of its line hits after the line has arrived. A step of the merge limit
    is therefore as high as a hit.
    """
    most = min(MAX_LOADS, lines)
    quarter = clock.chain([0]) // 4
    entries = first_step(lambda n: clock.together(spread(WARPS, n, line)), most, quarter)
    alone = first_step(lambda n: clock.together(spread(1, n, line)), min(most, MAX_LOADS_OF_A_WARP), quarter)
    # If all warps reach their own limit first, the total limit stays unknown.
    known = entries if entries is None or alone is None or entries < WARPS * alone else None
    half = (clock.chain([0, 0]) - clock.chain([0])) // 2
    merge = first_step(lambda n: clock.together(spread(WARPS, n, 0)), MAX_LOADS, half)
    return Mshrs(known, None if alone == entries else alone, merge)


def spread(warps: int, loads: int, line: int) -> list[list[int]]:
    """Return the addresses of `loads` loads, `line` bytes apart, dealt to at most `warps` warps."""
    return [[i * line for i in range(warp, loads, warps)] for warp in range(min(warps, loads))]


def first_step(time: Callable[[int], int], most: int, least: int) -> int | None:
    """Return the first n such that n + 1 loads take over `least` cycles longer than n loads; None if there is none."""
    before = time(1)
    for n in range(1, most):
        after = time(n + 1)
        if after - before > least:
            return n
        before = after
    return None


def staircase(
    clock: Clock, line: int, warps: Sequence[int] = PAPER_WARPS, loads: int = PAPER_LOADS
) -> dict[int, list[int]]:
    """Return the cycles of 1, 2, ... loads per warp, by the number of warps: figure 9."""
    return {w: [clock.together(spread(w, n * w, line)) for n in range(1, loads + 1)] for w in warps}


def loads_at_once(clock: Clock, times: dict[int, list[int]]) -> dict[int, int]:
    """Return the number of loads per warp that are in flight together, by the number of warps, from a staircase.

    More loads always take longer, since ports serve them in turn. An increment counts as a step if it exceeds the usual
    increment by more than a quarter of a latency; `times` of one load per warp gives the usual increment.
    """
    latency = clock.chain([0])
    result = {}
    for warps, series in times.items():
        usual = series[0] - latency
        steps = [n for n in range(1, len(series)) if series[n] - series[n - 1] - usual > latency // 4]
        result[warps] = steps[0] if steps else len(series)
    return result
