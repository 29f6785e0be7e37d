"""Tell how many iterations of a loop the assembler puts into one body, beside those that the compiler put there.

`ptxas` 13.5 unrolls straight loops whose counter has a constant step, unless the pragma "nounroll" forbids it: one
whose number of iterations it knows as far as the body stays short, any other short one four times
(`validation.scheduling`). The `needs` of a trace follow `basic_blocks` instead, for compilers of all ages.
"""

from __future__ import annotations

from tracegen.ptx.lowering.basic_blocks import is_kept_rolled
from tracegen.ptx.lowering.loop_counters import find_counter, has_known_length
from tracegen.ptx.lowering.program import LoweredKernel
from tracegen.ptx.lowering.slicing import READS, is_memory_step

MOST_COUNTED = 64
"""Most instructions of a loop that is unrolled because the number of its iterations is known."""

MOST_UNROLLED = 256
"""Most instructions of its unrolled body."""

MOST_OTHERS = 50
"""Most instructions of another loop that is unrolled, with loads counted twice."""

OTHER_COPIES = 4
"""Iterations in the unrolled body of such a loop."""


def unrolled_copies(kernel: LoweredKernel, first: int, end: int) -> int:
    """Return the iterations in the body that the assembler makes of a loop, the steps from `first` to before `end`.

    The loop must be straight, except for short branches, and its last step must be the branch back. It may execute
    fewer iterations than that.
    """
    body = kernel.steps[first:end]
    counter = None if is_kept_rolled(kernel, first, end - 1) else find_counter(kernel, body)
    if counter is None:
        return 1
    size = sum("COUNTED" in step.flags for step in body)
    if has_known_length(kernel, first, end, counter):
        has_branches = any(step.op == "BRA" for step in body[:-1])
        return MOST_UNROLLED // max(1, size) if size <= MOST_COUNTED and not has_branches else 1
    loads = sum(is_memory_step(step) and step.op in READS and "COUNTED" in step.flags for step in body)
    return OTHER_COPIES if size + loads <= MOST_OTHERS else 1
