"""What travels between SMs and slices, and on whose behalf."""

from __future__ import annotations

from typing import NamedTuple

from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.warps import Warp

HEADER = 8
"""Bytes of a message without its data."""


class Transaction(NamedTuple):
    """A transaction of a load: its warp, its line, and which transaction of which instruction it is.

    `number` is that of the instruction among the warp's memory instructions, `place` that of the transaction among
    the instruction's. `allocating` tells whether the line may be given a way.
    """

    warp: Warp
    number: int
    line: int
    instruction: MachineInstruction
    place: int
    allocating: bool = True


class Message(NamedTuple):
    """What an SM asks of a slice: to read a line, or to take one that it writes.

    A read that bypasses the L1 carries the transaction that it is for.
    """

    line: int
    write: bool
    bypass: Transaction | None = None

    def size(self, line_size: int) -> int:
        """Return the bytes that travel: a header, and what is written."""
        return HEADER + (line_size if self.write else 0)


class Reader(NamedTuple):
    """Whom a slice answers: an SM, and there the L1 or a transaction that bypasses it."""

    sm: int
    bypass: Transaction | None


class Answer(NamedTuple):
    """A line that is at the SM from cycle `time` on: for the L1, or for a transaction that bypasses it."""

    time: int
    line: int
    bypass: Transaction | None = None
