"""What every reader of recorded traces gives back: a trace that knows which lines were left out."""

from __future__ import annotations

from dataclasses import dataclass

from rdmodel.trace import Trace

EXAMPLES = 5
"""How many of the skipped lines are kept with their problem."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The lines that a lenient reader left out: how many, and messages about the first few."""

    lines: int = 0
    examples: tuple[str, ...] = ()

    def add(self, message: str) -> Skipped:
        """Return the account with one more line in it."""
        kept = self.examples if len(self.examples) >= EXAMPLES else (*self.examples, message)
        return Skipped(self.lines + 1, kept)


@dataclass(eq=False)
class RecordedTrace(Trace):
    """A `Trace` that another tool recorded; `skipped` is empty unless it was read leniently."""

    skipped: Skipped = Skipped()
