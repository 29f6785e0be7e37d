"""What every reader of recorded traces is asked, and what it gives back: a trace that knows what was left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rdmodel.errors import TraceError
from rdmodel.trace import Trace
from rdmodel.trace.storage import find_pages

EXAMPLES = 5
"""How many of the skipped lines are kept with their problem."""


_QUOTED = 60


def quote(line: bytes) -> str:
    """Return the beginning of a line of any bytes as text of one line, for a message."""
    quoted = repr(line[:_QUOTED].rstrip(b"\r\n").decode("latin-1"))
    return quoted if len(quoted) <= _QUOTED else quoted[:_QUOTED] + "..."


@dataclass(frozen=True, slots=True)
class Skipped:
    """The lines that a lenient reader left out: how many, and messages about the first few.

    `blocks` is how many blocks of the grid the file does not mention, which were taken to access nothing.
    """

    lines: int = 0
    examples: tuple[str, ...] = ()
    blocks: int = 0

    def add(self, message: str) -> Skipped:
        """Return the account with one more line in it."""
        kept = self.examples if len(self.examples) >= EXAMPLES else (*self.examples, message)
        return replace(self, lines=self.lines + 1, examples=kept)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a recorded trace is to be read; what a format has no use for stays unset.

    `lenient` leaves out bad lines, `kernel` picks a launch (its number, or a pattern of its name), `block` is the
    shape of a block where the files do not say it.
    """

    lenient: bool = False
    kernel: str | None = None
    block: tuple[int, int, int] | None = None


@dataclass(eq=False)
class RecordedTrace(Trace):
    """A `Trace` that another tool recorded; `skipped` is empty unless it was read leniently.

    `mentions_all`: the format names blocks that access nothing, too, so that one that is not there was lost.
    Where its columns went through temporary files, pages of these are given back as those of native traces are.
    """

    skipped: Skipped = Skipped()
    mentions_all: bool = True

    def __post_init__(self) -> None:
        """Find out which columns are mapped."""
        super().__post_init__()
        self.pages = find_pages(self.columns)

    def _first_warp(self, block: int) -> int:
        try:
            return super()._first_warp(block)
        except TraceError as error:
            if self.mentions_all:
                raise
            raise TraceError(f"{error}; --lenient takes blocks without records to access nothing") from None
