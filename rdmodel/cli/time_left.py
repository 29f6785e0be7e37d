"""Estimate the time that a run still takes."""

from __future__ import annotations

from collections import deque
from math import ceil

WINDOW_SECONDS = 60.0
"""Seconds of a run whose speed counts: the speed changes, for example where results were stored before."""

LEAST_STEPS = 8
"""Number of latest steps whose speed counts even if they took longer than the window."""

LEAST_SECONDS = 2.0
"""Seconds that a run has to be observed before there is an estimate."""

MOST_SECONDS = 100 * 3600
"""Longest time that is told; a longer one says that the run hardly advances."""


class TimeLeft:
    """Estimate of the time that is left, from the finished share of a run at several times."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def observe(self, now: float, share: float) -> None:
        """Record the finished `share` of the run, 0 to 1, at the time `now` in seconds.

        A share that decreases starts another part of the run, which has a speed of its own. While a run stalls, only
        the time of the last observation moves.
        """
        seen = self._seen
        if seen and share < seen[-1][1]:
            seen.clear()
        if len(seen) > 1 and share == seen[-1][1] == seen[-2][1]:
            seen.pop()
        seen.append((now, share))
        while len(seen) > LEAST_STEPS and seen[1][0] < now - WINDOW_SECONDS:
            seen.popleft()

    def seconds(self) -> float | None:
        """Return the seconds that are left; None while the observed part of the run tells nothing."""
        if not self._seen:
            return None
        (start, first), (now, last) = self._seen[0], self._seen[-1]
        if now - start < LEAST_SECONDS or last <= first:
            return None
        left = (1 - last) * (now - start) / (last - first)
        return left if 0 <= left <= MOST_SECONDS else None


def format_time_left(seconds: float | None) -> str:
    """Return ``, about 3 min left``; empty if the time is unknown, or none is left."""
    if not seconds:
        return ""
    if seconds < 60:
        text = f"{ceil(seconds)} s"
    elif seconds < 3600:
        text = f"{ceil(seconds / 60)} min"
    else:
        hours, minutes = divmod(ceil(seconds / 60), 60)
        text = f"{hours} h {minutes} min"
    return f", about {text} left"
