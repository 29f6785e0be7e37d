"""Find the branches that the assembler replaces by predicates."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.lowering.basic_blocks import PREDICATED_INSTRUCTIONS
from tracegen.ptx.lowering.program import NO_SLOT, Step

CONTROL = frozenset({"BRA", "BRX", "CALL", "RET", "EXIT", "TRAP", "BAR", "MBAR"})
"""Operations that end a straight piece of code, unless they are branches that predicates replace."""


def predicated_branches(steps: Sequence[Step]) -> set[int]:
    """Return the steps of the branches that predicates replace: those over a few instructions."""
    entered = {step.target for step in steps if step.op == "BRA"}
    found = set()
    for index, step in enumerate(steps):
        body = steps[index + 1 : step.target] if step.op == "BRA" and step.guard != NO_SLOT else ()
        if not body or any(each.op in CONTROL for each in body):
            continue
        is_entered = any(place in entered for place in range(index + 1, step.target))
        if not is_entered and sum("COUNTED" in each.flags for each in body) <= PREDICATED_INSTRUCTIONS:
            found.add(index)
    return found
