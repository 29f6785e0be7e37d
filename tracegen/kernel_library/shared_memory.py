"""What kernels that use shared memory have in common: its accesses are not traced, its barriers and bytes are.

What goes on in between counts as instructions that do not access memory (`Block.gap`): as many as there are in the PTX
that a compiler makes of the same algorithm, in rounds as they repeat.
"""

from __future__ import annotations

from tracegen.simt.kernel_trace import Block

WORD_BYTES = 4
"""Bytes of a float or an int."""


def publish(k: Block) -> None:
    """Hand what was loaded to the other threads of the block: it has to arrive, and all warps pass a barrier."""
    k.wait()
    k.barrier()


def rounds(k: Block, count: int, instructions: int) -> None:
    """Work in shared memory: so many rounds of so many instructions, each up to a barrier."""
    for _ in range(count):
        k.gap(instructions)
        k.barrier()


def halvings(elements: int) -> int:
    """Return in how many steps pairs of so many elements, a power of two, are joined to one."""
    return elements.bit_length() - 1
