"""Define the options of all readers of recorded traces, and the trace that they return with the lines left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rdmodel.errors import TraceError
from rdmodel.trace import Trace
from rdmodel.trace.storage import find_pages

MAX_SKIPPED_EXAMPLES = 5
"""Maximum number of skipped lines that are quoted as examples."""

_MAX_QUOTED_CHARACTERS = 60


def quote(line: bytes | bytearray | str) -> str:
    """Return the beginning of a line, whatever it contains, as one line of text for a message."""
    start = line[:_MAX_QUOTED_CHARACTERS]
    quoted = repr((start if isinstance(start, str) else start.decode("latin-1")).rstrip("\r\n"))
    return quoted if len(quoted) <= _MAX_QUOTED_CHARACTERS else quoted[:_MAX_QUOTED_CHARACTERS] + "..."


@dataclass(frozen=True, slots=True)
class Skipped:
    """The input that a lenient reader left out: the number of `lines`, and messages about the first few.

    `blocks` and `warps` are numbers of blocks of the grid, and of warps of other blocks, that the file does not mention
    and that the reader took for ones that access no memory. `lanes` counts lane accesses that were left out because a
    block has no such thread.
    """

    lines: int = 0
    examples: tuple[str, ...] = ()
    blocks: int = 0
    warps: int = 0
    lanes: int = 0

    def add(self, message: str) -> Skipped:
        """Return the account with one more line in it."""
        full = len(self.examples) >= MAX_SKIPPED_EXAMPLES
        return replace(self, lines=self.lines + 1, examples=self.examples if full else (*self.examples, message))


class SkipLog:
    """Handles bad input: raises an error or, if `lenient`, adds an entry to `skipped`."""

    def __init__(self, lenient: bool) -> None:
        self.skipped = Skipped()
        self.lenient = lenient

    def report(self, message: str) -> None:
        """Raise `TraceError` with the message, or add it to `skipped`."""
        if not self.lenient:
            raise TraceError(message)
        self.skipped = self.skipped.add(message)

    def report_cut_line(self, name: str, number: int, line: bytes | bytearray) -> None:
        """Report that the last line of file `name`, its `number`-th, lacks the end that complete lines have."""
        message = f"{name}:{number}: the last line is incomplete, as if the file were cut off, found {quote(line)}"
        self.report(message if self.lenient else f"{message}; --lenient leaves it out")

    def report_silent_warps(self, message: str, count: int) -> None:
        """Report `count` warps that a block does not mention, and that a lenient reader takes for empty ones."""
        if not self.lenient:
            raise TraceError(f"{message}; --lenient treats warps without records as warps that access no memory")
        self.skipped = replace(self.skipped, warps=self.skipped.warps + count)

    def count_lanes(self, dropped: int) -> None:
        """Set the number of lane accesses that were left out because a block has no such thread."""
        self.skipped = replace(self.skipped, lanes=dropped)


@dataclass(frozen=True, slots=True)
class Reading:
    """Options for reading a recorded trace; those that a format does not take stay unset.

    `lenient` leaves out bad lines, `kernel` picks a launch (its number, or a pattern of its name), `block` and `grid`
    are the shapes of a block and of the grid for files that do not contain them.
    """

    lenient: bool = False
    kernel: str | int | None = None
    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None


@dataclass(eq=False, repr=False)
class RecordedTrace(Trace):
    """A `Trace` that another tool recorded; `skipped` is empty unless it was read leniently.

    `advice` ends the error about a block that the trace does not hold. `notes` are sentences about content that the
    reader has ignored. If the columns went through temporary files, their pages are given back as those of native
    traces are.
    """

    skipped: Skipped = Skipped()
    advice: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Find the columns that are mapped into memory."""
        super().__post_init__()
        self.pages = find_pages(self.columns)

    def _first_warp(self, block: int) -> int:
        try:
            return super()._first_warp(block)
        except TraceError as error:
            if not self.advice:
                raise
            raise TraceError(f"{error}; {self.advice}") from None
