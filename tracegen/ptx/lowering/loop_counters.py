"""Find the counter of a loop: the register that the branch back tests, and that the loop moves by a constant."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.program import LoweredKernel, Step


@dataclass(frozen=True, slots=True)
class LoopCounter:
    """The counter of a loop: the slot `start` that each iteration begins with, its `step`, and what it is tested with.

    `step` is the absolute value of what is added; `limits` are the other slots of the test.
    """

    start: int
    step: int
    limits: tuple[int, ...]


def find_counter(kernel: LoweredKernel, body: Sequence[Step]) -> LoopCounter | None:
    """Return the counter of the loop with the steps `body`, the last of which is the branch back; None: it has none."""
    writers: dict[int, list[Step]] = {}
    for step in body:
        for slot in step.dst:
            writers.setdefault(slot, []).append(step)
    tested = [s for compare in writers.get(body[-1].guard, ()) if compare.op == "COMPARE" for s in compare.src]
    moved = [s for slot in tested for step in writers.get(slot, ()) if step.op == "MOV" for s in step.src]
    for slot in (*tested, *moved):
        for step in writers.get(slot, ()):
            if step.op in ("ADD", "SUB"):
                constants = [constant_in(kernel, source) for source in step.src]
                known = next((each for each in constants if isinstance(each, int)), None)
                if known is not None:
                    start = step.src[constants.index(None)] if None in constants else slot
                    limits = tuple(each for each in tested if each not in writers)
                    return LoopCounter(start, min(known, (1 << 64) - known), limits)
    return None


def has_known_length(kernel: LoweredKernel, first: int, end: int, counter: LoopCounter) -> bool:
    """Return whether the loop, the steps from `first` to before `end`, has a constant number of iterations."""
    outside = [*kernel.steps[:first], *kernel.steps[end:]]
    starts = [step for step in outside if counter.start in step.dst]
    return all(_is_number(kernel, limit) for limit in counter.limits) and all(
        step.op == "MOV" and _is_number(kernel, step.src[0]) for step in starts
    )


def _is_number(kernel: LoweredKernel, slot: int) -> bool:
    """Return whether a slot always has a number that the assembler knows: one in the PTX, or a copy of it."""
    seen = set()
    while slot < kernel.variables:
        writers = [step for step in kernel.steps if slot in step.dst]
        if len(writers) != 1 or writers[0].op != "MOV" or slot in seen:
            return False
        seen.add(slot)
        slot = writers[0].src[0]
    return isinstance(constant_in(kernel, slot), int)


def constant_in(kernel: LoweredKernel, slot: int) -> object:
    """Return the constant in a slot: a number, or what else a launch has; None for a register."""
    return kernel.constants[slot - kernel.variables] if slot >= kernel.variables else None
