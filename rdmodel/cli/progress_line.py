"""Show the progress of a command as one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import Self

from rdmodel.errors import escape_unprintable

BAR_WIDTH = 24
"""Width of a progress bar in characters."""

FIRST_DRAW_SECONDS = 0.5
"""Seconds before the line is first drawn: short runs stay silent."""

REDRAW_SECONDS = 0.2
"""Minimum number of seconds between two drawings of the line."""


class ProgressLine:
    """A line on stderr that a run redraws as it advances; silent unless stderr is a terminal.

    `describe` turns the steps that are done and their total into the text of the line.
    """

    def __init__(self, describe: Callable[[int, int], str]) -> None:
        self.describe = describe
        self._start = monotonic()
        self._next = self._start + FIRST_DRAW_SECONDS
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def __call__(self, done: int, total: int) -> None:
        """Redraw the line, unless that happened a moment ago."""
        if not sys.stderr.isatty() or monotonic() < self._next:
            return
        self._next = monotonic() + REDRAW_SECONDS
        self._drawn = True
        line = f"{self.describe(done, total)}, {monotonic() - self._start:.0f} s"
        print(f"\r\x1b[K{escape_unprintable(line)}", end="", file=sys.stderr, flush=True)

    def erase(self) -> None:
        """Erase the line, so that results stand alone."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def block_progress(source: str) -> ProgressLine:
    """Show the block of a source that is under way."""
    return ProgressLine(lambda done, total: f"{source}: block {done:,} of {total:,}")


def percent_progress(source: str) -> ProgressLine:
    """Show the finished percentage of all runs of a source."""
    return ProgressLine(lambda done, total: f"{source}: {100 * done // total} %")


def bar_progress(unit: str) -> ProgressLine:
    """Show a bar and the number of finished units, such as runs or points."""
    return ProgressLine(lambda done, total: f"{draw_bar(done, total)} {done:,} of {total:,} {unit}")


def draw_bar(done: float, total: int) -> str:
    """Return a bar of `BAR_WIDTH` characters: ``[######......]``."""
    return f"[{'#' * int(BAR_WIDTH * done / max(1, total)):.<{BAR_WIDTH}}]"
