"""Represent the messages between SMs and slices, and the transactions that they serve."""

from __future__ import annotations

from typing import NamedTuple

from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.warps import Warp

HEADER = 8
"""Bytes of a message without data."""


class Transaction(NamedTuple):
    """A transaction of a load: its warp, its line and its instruction.

    `number` counts the memory instructions of the warp, `place` the transactions of the instruction, both from 0. With
    `allocating`, the line may be given a way.
    """

    warp: Warp
    number: int
    line: int
    instruction: MachineInstruction
    place: int
    allocating: bool = True


class Message(NamedTuple):
    """A request of an SM to a slice: a read of a line, or a write.

    A read that bypasses the L1 carries its transaction in `bypass`.
    """

    line: int
    write: bool
    bypass: Transaction | None = None

    def size(self, line_size: int) -> int:
        """Return the bytes that travel: the header, and the line if it is a write."""
        return HEADER + (line_size if self.write else 0)


class Reader(NamedTuple):
    """Receiver of a response: an SM, and there the L1 (None) or the transaction `bypass`."""

    sm: int
    bypass: Transaction | None


class Response(NamedTuple):
    """A line that reaches the SM in cycle `time`, for the L1 (None) or for the transaction `bypass`."""

    time: int
    line: int
    bypass: Transaction | None = None
