"""Model work in shared memory, whose accesses are not traced, by its barriers and instruction counts.

Work between barriers counts as instructions that do not access memory (`Block.gap`), as many as in the compiled PTX of
the same algorithm.
"""

from __future__ import annotations

from tracegen.simt.kernel_trace import Block

WORD_BYTES = 4
"""Bytes of a float or an int."""


def publish(k: Block) -> None:
    """Share loaded data with the other threads of the block: wait for the loads, then pass a barrier."""
    k.wait()
    k.barrier()


def rounds(k: Block, count: int, instructions: int) -> None:
    """Work in shared memory: `count` rounds of `instructions` instructions, each followed by a barrier."""
    for _ in range(count):
        k.gap(instructions)
        k.barrier()


def halvings(elements: int) -> int:
    """Return the number of steps that reduce `elements` elements, a power of two, to one by joining pairs."""
    return elements.bit_length() - 1
