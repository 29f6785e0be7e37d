"""Tell which loads from constant memory are instructions, where others are operands, and which registers are constants.

A load is an instruction (LDC) if its address depends on the thread. Since compute capability 9.0, it is one for
instructions in a short branch, too, as the machine code of ``ptxas`` 13.5 shows (`validation.constants`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from tracegen.ptx.lowering.predication import predicated_branches
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import READS

OPERAND, GUARDED, INDEXED = "load_constant", "load_constant_guarded", "load_constant_indexed"
"""Classes of loads from constant memory, as in `rdmodel.trace.work.INSTRUCTION_CLASSES`."""

_OF_BLOCKS = ("%ctaid", "%nctaid", "%ntid", "%clusterid", "%nclusterid", "%cluster_", "%is_explicit", "%gridid")
"""Beginnings of the names of special registers that are equal for all threads of a block."""


def constant_loads(kernel: LoweredKernel) -> dict[int, str]:
    """Return the class of each load from constant memory, by its step."""
    steps = kernel.steps
    loads = [at for at, step in enumerate(steps) if _is_constant_load(step)]
    if not loads:
        return {}
    branches = predicated_branches(steps)
    inside = {at for branch in branches for at in range(branch + 1, steps[branch].target)}
    varying, outside = _varying_slots(kernel), _slots_read(steps, inside)
    found = {}
    for at in loads:
        is_guarded = at in inside or outside.isdisjoint(steps[at].dst)
        found[at] = INDEXED if steps[at].src[0] in varying else GUARDED if is_guarded else OPERAND
    return found


def constant_slots(kernel: LoweredKernel) -> dict[int, int]:
    """Return the slots that always hold the same whole number: constants, and those that one ``mov`` alone writes."""
    found = {
        slot: constant
        for slot, constant in enumerate(kernel.constants, start=kernel.variables)
        if isinstance(constant, int)
    }
    written = Counter(slot for step in kernel.steps for slot in step.dst)
    for step in kernel.steps:
        if step.op == "MOV" and step.guard == NO_SLOT and step.src[0] in found and written[step.dst[0]] == 1:
            found[step.dst[0]] = found[step.src[0]]
    return found


def _is_constant_load(step: Step) -> bool:
    return step.op == "LOAD" and step.space == "CONST"


def _varying_slots(kernel: LoweredKernel) -> set[int]:
    """Return the slots whose values may differ between the threads of a block that execute the same instruction."""
    varying = {
        slot
        for slot, constant in enumerate(kernel.constants, start=kernel.variables)
        if isinstance(constant, str) and not constant.startswith(_OF_BLOCKS)
    }
    before = -1
    while before < len(varying):  # again for values that go around loops
        before = len(varying)
        for step in kernel.steps:
            is_loaded = step.op in READS and not _is_constant_load(step)
            if is_loaded or not varying.isdisjoint((*step.src, step.guard)):
                varying.update(step.dst)
    return varying - {NO_SLOT}


def _slots_read(steps: Sequence[Step], except_in: Collection[int]) -> set[int]:
    """Return the slots that steps read, except for some steps."""
    return {slot for at, step in enumerate(steps) if at not in except_in for slot in (*step.src, step.guard)}
