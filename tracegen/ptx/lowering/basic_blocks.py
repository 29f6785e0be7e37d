"""Find basic blocks and loops, as the assembler leaves them: short branches predicated, and rolled loops unrolled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.loop_counters import find_counter
from tracegen.ptx.lowering.program import LoweredKernel, Step
from tracegen.ptx.lowering.slicing import REGISTER_SPACES, is_memory_step, spaces_of

PREDICATED_INSTRUCTIONS = 7
"""Most instructions of a branch that predicates replace (CUDA C Programming Guide 4, "Control Flow Instructions")."""

_ENDS = frozenset({"BRA", "BRX", "CALL", "RET", "EXIT", "BAR", "TRAP", "MBAR", "COPY_BULK", "MOVE_BULK"})
"""Operations that are not predicated together with other instructions."""


@dataclass(frozen=True, slots=True)
class BasicBlocks:
    """The steps at which basic blocks begin; `unrolled` maps headers of loops to the iterations of an unrolled body."""

    starts: frozenset[int]
    unrolled: dict[int, int]


def find_basic_blocks(program: LoweredKernel, unroll: int | None) -> BasicBlocks:
    """Return the basic blocks of a kernel whose rolled loops are unrolled `unroll` times; none at all for None."""
    if unroll is None:
        return BasicBlocks(frozenset(), {})
    steps = program.steps
    loops = _loops(steps)
    starts = set(program.targets) | set(loops)
    for at, step in enumerate(steps):
        if step.op == "BRA" and not _is_predicated(steps, at):
            starts.add(step.target)
            if not _leaves_loop(steps, at, loops):
                starts.add(at + 1)
    unrolled = {}
    for header, end in loops.items():
        count = _times(program, header, end, loops, unroll)
        if count > 1:
            unrolled[header] = count
    return BasicBlocks(frozenset(at for at in starts if at < len(steps)), unrolled)


def _loops(steps: Sequence[Step]) -> dict[int, int]:
    """Return the last branch back to each header."""
    return {step.target: at for at, step in enumerate(steps) if step.op == "BRA" and step.target <= at}


def _leaves_loop(steps: Sequence[Step], branch: int, loops: Mapping[int, int]) -> bool:
    """Return whether a branch in the middle of a loop leaves it; an unrolled body has no such tests inside."""
    return any(header <= branch < end < steps[branch].target for header, end in loops.items())


def _is_predicated(steps: Sequence[Step], branch: int) -> bool:
    """Return whether the instructions that a branch skips are so few that they are predicated instead."""
    if steps[branch].target <= branch:
        return False
    skipped = steps[branch + 1 : steps[branch].target]
    few = sum("COUNTED" in step.flags for step in skipped) <= PREDICATED_INSTRUCTIONS
    return few and not any(step.op in _ENDS for step in skipped)


def _times(program: LoweredKernel, header: int, end: int, loops: Collection[int], unroll: int) -> int:
    """Return how often the assembler unrolls a loop: not around other loops, and less if the compiler did it before."""
    if any(header < other <= end for other in loops) or is_kept_rolled(program, header, end):
        return 1
    return max(1, unroll // _copies(program, header, end))


def is_kept_rolled(program: LoweredKernel, header: int, end: int) -> bool:
    """Return whether the pragma "nounroll" stands in the first block of a loop."""
    first = next(at for at in range(header, end + 1) if program.steps[at].op == "BRA")
    return any(header <= at <= first for at in program.rolled)


def _copies(program: LoweredKernel, header: int, end: int) -> int:
    """Return how many iterations of the source one iteration of a loop executes: the advance of its counter.

    Loops over tiles advance by more than one, too, but have fewer accesses than that.
    """
    body = program.steps[header : end + 1]
    counter = find_counter(program, body)
    advance = counter.step if counter else 0
    accesses = sum(is_memory_step(step) and bool(spaces_of(step) - {"SHARED", *REGISTER_SPACES}) for step in body)
    return advance if 1 < advance <= accesses else 1
