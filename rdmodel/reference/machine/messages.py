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
    `allocating`, the line may be given a way. `sectors` is the mask of the sectors that it asks for; a line without
    sectors has one.
    """

    warp: Warp
    number: int
    line: int
    instruction: MachineInstruction
    place: int
    allocating: bool = True
    sectors: int = 1


class Message(NamedTuple):
    """A request of an SM, or of slice `away` of another partition, to a slice: a read of a line, or a write.

    A read that bypasses the L1 carries its transaction in `bypass`. `sectors` is the mask of the sectors (with
    coalesced packets, of the 32-byte pieces) that are read or written, `full` of those that are written in full.
    `block` is the block whose store it is; a read or a write-back has none. With `hint`, the victim bit of the SM was
    set when the slice served the read. A write that is `atomic` needs the old value.
    """

    line: int
    write: bool
    bypass: Transaction | None = None
    sectors: int = 1
    full: int = 1
    away: int | None = None
    block: int | None = None
    hint: bool = False
    atomic: bool = False

    def size(self, sector_size: int) -> int:
        """Return the bytes that travel: the header, and the sectors if it is a write."""
        return HEADER + (self.sectors.bit_count() * sector_size if self.write else 0)

    def reader(self, sm: int) -> Reader:
        """Return the receiver of what a read asks for that SM `sm` or slice `away` has sent."""
        return Reader(sm, self.bypass, self.sectors, self.away, self.hint)


class Reader(NamedTuple):
    """Receiver of a response with `sectors`: an SM, and there the L1 (None) or the transaction `bypass`.

    Slice `away` of another partition receives it instead, unless that is None. The response gets the `hint`.
    """

    sm: int
    bypass: Transaction | None
    sectors: int = 1
    away: int | None = None
    hint: bool = False


class Response(NamedTuple):
    """The `sectors` of a line that reach the SM in cycle `time`, for the L1 (None) or for the transaction `bypass`.

    It was sent in cycle `sent`. With `hint`, the victim bit of the SM was set. With `block`, it is the acknowledgement
    of a store of that block instead.
    """

    time: int
    line: int
    bypass: Transaction | None = None
    sectors: int = 1
    block: int | None = None
    sent: int = 0
    hint: bool = False


def aligned_piece(asked: int) -> int:
    """Return the mask of the smallest aligned group of 1, 2, 4, ... pieces of a line with all that are in `asked`."""
    lowest, highest, width = (asked & -asked).bit_length() - 1, asked.bit_length() - 1, 1
    while lowest // width != highest // width:
        width *= 2
    return ((1 << width) - 1) << lowest // width * width
