"""Define `LocalMemory`: the addresses that a trace gives to the local memory of its blocks, and where a GPU has it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rdmodel.trace.columns import Columns, Program


class LocalMemory(NamedTuple):
    """Local memory that begins at address `first`, above all arrays; each block has `block_bytes` of its own."""

    first: int
    block_bytes: int

    def start(self, number: int) -> int:
        """Return the first address of the local memory of a block or a place."""
        return self.first + number * self.block_bytes

    def at_place(self, block: Columns | Program, place: int) -> Columns | Program:
        """Return a block whose local memory is that of a place, a number from 0 on.

        A GPU has local memory for the threads that it holds at a time: a block takes over that of the block before it.
        """
        if not isinstance(block, Columns):
            return block
        lanes = block.addresses >= self.first
        if not lanes.any():
            return block
        addresses = block.addresses.copy()
        addresses[lanes] = self.start(place) + (addresses[lanes] - self.first) % self.block_bytes
        return replace(block, addresses=addresses)
