"""MSHRs from timings: section 5.2 of Nugteren et al. (HPCA 2014).

Loads that wait for nothing are on their way together as long as there are MSHRs; the first one too many has to wait for
a whole latency. The time of n loads therefore rises in a staircase, unless the answers to as many loads as there are
MSHRs take longer to come in than a latency: then the first MSHR is free again before the last is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from validation.microbenchmarks.clock import Clock

WARPS = 32
"""Warps of the largest block."""

MOST_LOADS = 128
"""Loads that are tried: beyond, what a step says may be said by the L2."""

MOST_OF_A_WARP = 64
"""Loads of one warp that are tried: a trace cannot say that a load does not wait for one further back."""

PAPER_WARPS = range(1, 18)
"""Numbers of warps of figure 9."""

PAPER_LOADS = 8


@dataclass(frozen=True, slots=True)
class Mshrs:
    """MSHRs in all, those that one warp may hold, and transactions that may share one; None where no limit is seen."""

    entries: int | None
    per_warp: int | None
    merge: int | None


def recover(clock: Clock, line: int, lines: int) -> Mshrs:
    """Return the MSHRs of an L1 of `lines` lines of `line` bytes; no more than those can ever be in flight.

    A transaction that finds no room in the MSHR of its line hits once the line has come: there, a step is a hit's.
    """
    most = min(MOST_LOADS, lines)
    quarter = clock.chain([0]) // 4
    entries = first_step(lambda n: clock.together(spread(WARPS, n, line)), most, quarter)
    alone = first_step(lambda n: clock.together(spread(1, n, line)), min(most, MOST_OF_A_WARP), quarter)
    # With all warps at their own limit nothing is learned of the limit in all.
    known = entries if entries is None or alone is None or entries < WARPS * alone else None
    half = (clock.chain([0, 0]) - clock.chain([0])) // 2
    merge = first_step(lambda n: clock.together(spread(WARPS, n, 0)), MOST_LOADS, half)
    return Mshrs(known, None if alone == entries else alone, merge)


def spread(warps: int, loads: int, line: int) -> list[list[int]]:
    """Return `loads` loads, `line` bytes apart, dealt to at most so many warps."""
    return [[i * line for i in range(warp, loads, warps)] for warp in range(min(warps, loads))]


def first_step(time: Callable[[int], int], most: int, least: int) -> int | None:
    """Return the last n before the time of n + 1 loads is more than `least` cycles longer; None if there is none."""
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
    """Return the cycles of 1, 2, ... loads by each of some warps, by the number of warps: figure 9."""
    return {w: [clock.together(spread(w, n * w, line)) for n in range(1, loads + 1)] for w in warps}


def loads_at_once(clock: Clock, times: dict[int, list[int]]) -> dict[int, int]:
    """Return how many loads per warp a staircase shows to be made at once, by the number of warps.

    More loads always take longer, by what the ports make of them: an increment counts as a step if it is more than a
    quarter of a latency above what as many loads cost before, which `times` of one load per warp tells.
    """
    latency = clock.chain([0])
    result = {}
    for warps, series in times.items():
        usual = series[0] - latency
        steps = [n for n in range(1, len(series)) if series[n] - series[n - 1] - usual > latency // 4]
        result[warps] = steps[0] if steps else len(series)
    return result
