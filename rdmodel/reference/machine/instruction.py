"""What the machine executes."""

from __future__ import annotations

from typing import NamedTuple


class MachineInstruction(NamedTuple):
    """One memory instruction or barrier of one warp after coalescing.

    `op` is an `rdmodel.trace.Op`; `local` tells whether it addresses local memory; `needs` and `gap` are as in
    `rdmodel.trace.Columns`; `lanes` is the number of active lanes; `lines` are the line numbers of its
    transactions, in order; `pc` is the program counter; with `loop_exit` the warp leaves the load's loop after it.
    """

    op: int
    local: bool
    needs: int
    gap: int
    lanes: int
    lines: tuple[int, ...]
    pc: int = 0
    loop_exit: bool = False


MachineBlock = list[list[MachineInstruction]]
"""The warps of a block, each the list of its instructions."""


class Owner(NamedTuple):
    """A warp of the grid: its block, and which of the block's warps it is."""

    block: int
    warp: int
