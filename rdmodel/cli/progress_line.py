"""Show the progress of a command as one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import monotonic
from typing import Self

from rdmodel.cli.time_left import TimeLeft, format_time_left
from rdmodel.errors import escape_unprintable

BAR_WIDTH = 24
"""Width of a progress bar in characters."""

FIRST_DRAW_SECONDS = 0.5
"""Seconds before the line is first drawn: short runs stay silent."""

FALLBACK_COLUMNS = 80
"""Width of a terminal that does not tell its own."""

REDRAW_SECONDS = 0.2
"""Minimum number of seconds between two drawings of the line."""


def finished_share(done: int, total: int) -> float:
    """Return the finished share of some steps; 0 while their total is unknown."""
    return min(1.0, done / total) if total > 0 else 0.0


class ProgressLine:
    """A line on stderr that a run redraws as it advances; silent unless stderr is a terminal.

    `describe` turns the steps that are done and their total into the text of the line. `share` turns them into the
    finished share of the run, from which the line estimates the time that is left.
    """

    def __init__(
        self, describe: Callable[[int, int], str], share: Callable[[int, int], float] = finished_share
    ) -> None:
        self.describe = describe
        self.share = share
        self._left = TimeLeft()
        self._start = monotonic()
        self._next = self._start + FIRST_DRAW_SECONDS
        self._drawn = False
        self._observed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def __call__(self, done: int, total: int) -> None:
        """Redraw the line, unless that happened a moment ago."""
        if not sys.stderr.isatty():
            return
        now = monotonic()
        if now < self._next:
            if not self._observed:
                self._observe(now, done, total)
            return
        self._observe(now, done, total)
        self._next = now + REDRAW_SECONDS
        self._drawn = True
        times = f", {now - self._start:.0f} s{format_time_left(self._left.seconds())}"
        # A line that the terminal breaks could not be erased.
        text = escape_unprintable(self.describe(done, total))[: max(0, _columns() - 1 - len(times))]
        print(f"\r\x1b[K{text}{times}", end="", file=sys.stderr, flush=True)

    def _observe(self, now: float, done: int, total: int) -> None:
        self._observed = True
        self._left.observe(now, self.share(done, total))

    def erase(self) -> None:
        """Erase the line, so that results stand alone."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _columns() -> int:
    """Return the width of the terminal that shows stderr."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or FALLBACK_COLUMNS
    except (OSError, ValueError):
        return FALLBACK_COLUMNS


def block_progress(source: str) -> ProgressLine:
    """Show the block of a source that is under way."""
    return ProgressLine(lambda done, total: f"{source}: block {done:,} of {total:,}")


def percent_progress(source: str) -> ProgressLine:
    """Show the finished percentage of all runs of a source."""
    return ProgressLine(lambda done, total: f"{source}: {100 * done // max(1, total)} %")


def bar_progress(unit: str) -> ProgressLine:
    """Show a bar and the number of finished units, such as runs or points."""
    return ProgressLine(lambda done, total: f"{draw_bar(done, total)} {done:,} of {total:,} {unit}")


def draw_bar(done: float, total: int) -> str:
    """Return a bar of `BAR_WIDTH` characters: ``[######......]``."""
    return f"[{'#' * int(BAR_WIDTH * done / max(1, total)):.<{BAR_WIDTH}}]"
