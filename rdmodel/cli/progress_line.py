"""Show the progress of a command on stderr, in one line."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Self


class Progress:
    """One line of progress on stderr, redrawn at most five times a second; silent where stderr is no terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = monotonic()
        self._next = self._begun + 0.5
        self._drawn = False

    def __enter__(self) -> Self:
        """Begin; nothing is drawn in the first half second."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wipe the line, so that results stand alone."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int) -> None:
        """Take note that block `done` of `total` is under way."""
        if not sys.stderr.isatty() or monotonic() < self._next:
            return
        self._next = monotonic() + 0.2
        self._drawn = True
        line = f"{self.describe(done, total)}, {monotonic() - self._begun:.0f} s"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def describe(self, done: int, total: int) -> str:
        """Return what is under way."""
        return f"{self._what}: block {done:,} of {total:,}"
