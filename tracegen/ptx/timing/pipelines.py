"""Time the loops of a kernel whose asynchronous copies are waited for in other iterations, or in other pieces.

A warp starts copies to shared memory (``cp.async``), and waits for a group of them one or more iterations later. So the
pieces of such a loop are executed one after the other, for as many iterations as copies may be under way, and what is
under way goes on from piece to piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from tracegen.ptx.timing.pieces import Piece, Warp
from tracegen.ptx.timing.units import SubCore

FIRST, PERIODS = 4, 12
"""Iterations of a loop in which copies from before it end, and those after them, which stand for all others: a loop in
which copies are under way for n iterations has the same times again after n + 1."""


def pipelined_cycles(
    pieces: Sequence[Piece],
    executed: Sequence[float],
    alone: Callable[[int], float],
    latencies: Mapping[str, float],
    registers: int,
    together: int,
) -> dict[int, float]:
    """Return the cycles of the pieces of loops that copy asynchronously, by number, summed over their executions.

    A warp executes piece i `executed` times, and ``alone(i)`` is the time of one execution by itself, which pieces
    without copies have. The other arguments are those of `Piece.longest_chain`. Straight code that is executed as often
    as its neighbours is a loop with these. Barriers are between the pieces, so that the `together` warps of a sub-core
    begin each of them at the same time.
    """
    if not any(piece.has_copies for piece in pieces):
        return {}
    core = SubCore(latencies)
    warps = [Warp(latencies, pieces[0].registers_for_loads(registers), core) for _ in range(together)]
    found: dict[int, float] = {}
    for times, numbers in _loops(executed):
        if any(pieces[at].has_copies or pieces[at].waits for at in numbers):
            found |= _loop_cycles({at: pieces[at] for at in numbers}, times, warps)
        else:
            _pass_time(warps, times * sum(alone(at) for at in numbers))
    return found


def _loops(executed: Sequence[float]) -> Iterator[tuple[float, list[int]]]:
    """Yield the pieces that are executed equally often, one after the other, and how often."""
    numbers = [at for at, times in enumerate(executed) if times]
    for times, members in groupby(numbers, key=lambda at: executed[at]):
        yield times, list(members)


def _loop_cycles(pieces: Mapping[int, Piece], times: float, warps: Sequence[Warp]) -> dict[int, float]:
    """Execute the pieces of a loop; return the cycles of each, of which the first iterations have their own."""
    followed = max(1, min(FIRST + PERIODS, round(times)))
    total, later = dict.fromkeys(pieces, 0.0), dict.fromkeys(pieces, 0.0)
    for iteration in range(followed):
        for at, piece in pieces.items():
            begin = warps[0].end
            for warp in warps:
                warp.execute(piece)
            end = max(warp.end for warp in warps)
            for warp in warps:
                warp.end = end
            total[at] += end - begin
            later[at] += end - begin if iteration >= FIRST else 0.0
    more = max(0.0, times - followed) / PERIODS
    _pass_time(warps, more * sum(later.values()))
    return {at: total[at] * min(1.0, times / followed) + more * later[at] for at in pieces}


def _pass_time(warps: Sequence[Warp], cycles: float) -> None:
    """Let time pass in which as much stays under way as is now."""
    for warp in warps:
        warp.pass_time(cycles)
