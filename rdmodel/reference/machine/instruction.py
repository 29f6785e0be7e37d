"""Represent the instructions that the reference machine executes."""

from __future__ import annotations

from typing import NamedTuple


class MachineInstruction(NamedTuple):
    """One memory instruction or barrier of one warp, after coalescing.

    `op` is an `rdmodel.trace.Op`. `local` marks an access to local memory. `needs` and `gap` are defined as in
    `rdmodel.trace.Columns`. `lanes` is the number of active lanes, `lines` the line numbers of the transactions in
    order, `pc` the program counter. With `loop_exit`, the warp leaves the load's loop after this instruction. `sectors`
    and `full` have, for each transaction, masks of the sectors that it asks for and of those that it writes in full; if
    they are empty, lines have no sectors. `cache_op` is a cache operator of a load (`rdmodel.trace.cache_ops`).
    """

    op: int
    local: bool
    needs: int
    gap: int
    lanes: int
    lines: tuple[int, ...]
    pc: int = 0
    loop_exit: bool = False
    sectors: tuple[int, ...] = ()
    full: tuple[int, ...] = ()
    cache_op: int = 0


MachineBlock = list[list[MachineInstruction]]
"""The warps of a block; each warp is the list of its instructions."""


class Owner(NamedTuple):
    """Identity of a warp in the grid: its block, and its number within the block."""

    block: int
    warp: int
