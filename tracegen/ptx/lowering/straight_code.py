"""Split the body of a function into basic blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tracegen.ptx.syntax.ast import Instruction

Body = Sequence[Instruction | None]
"""Instructions of a function, by their numbers; None stands where one is part of another."""

_ENDS = frozenset({"bra", "brx", "call", "ret", "exit", "trap"})


def basic_blocks(body: Body, labels: Collection[int]) -> Iterator[range]:
    """Yield the numbers of the instructions of each basic block; blocks begin at `labels` and behind branches."""
    first = 0
    for at, instruction in enumerate(body):
        if at in labels and at > first:
            yield range(first, at)
            first = at
        if instruction is not None and instruction.opcode in _ENDS:
            yield range(first, at + 1)
            first = at + 1
    if first < len(body):
        yield range(first, len(body))
