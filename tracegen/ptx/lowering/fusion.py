"""Find products and shifts that machine code computes together with a following addition (IMAD.WIDE, LEA)."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.lowering.program import NO_SLOT, Step

_FUSED_PRODUCTS = {"MUL_WIDE", "SHL"}


def fused_instructions(steps: Sequence[Step]) -> dict[int, int]:
    """Return the integer instructions that remain of fused PTX instructions, by their numbers (`Step.pc`).

    A wide product or a shift by a constant disappears if additions alone use it; an addition can absorb one of them.
    The addition of a 64-bit product is one instruction then, not two.
    """
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for slot in step.dst:
            writers.setdefault(slot, []).append(index)
        for slot in {*step.src, step.guard} - {NO_SLOT}:
            readers.setdefault(slot, []).append(index)
    remaining: dict[int, int] = {}
    for step in steps:
        if not _is_product(step) or len(writers[step.dst[0]]) > 1:
            continue
        users = [steps[at] for at in readers.get(step.dst[0], ())]
        if users and all(_is_addition(user) and user.pc not in remaining for user in users):
            remaining[step.pc] = 0
            for user in users:
                remaining[user.pc] = 2 if user.width == 64 and step.op == "SHL" else 1
    return remaining


def _is_product(step: Step) -> bool:
    """Return whether a step is a whole instruction that an addition can absorb."""
    return step.op in _FUSED_PRODUCTS and step.origin.opcode in ("mul", "shl") and step.guard == NO_SLOT


def _is_addition(step: Step) -> bool:
    return step.op == "ADD" and step.origin.opcode == "add" and step.guard == NO_SLOT and "COUNTED" in step.flags
