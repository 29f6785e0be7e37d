"""Find the lines of the source that PTX instructions come from."""

from __future__ import annotations

from collections.abc import Iterable

from rdmodel.trace import InstructionSource
from tracegen.ptx.lowering.program import Step
from tracegen.ptx.lowering.slicing import is_memory_step
from tracegen.ptx.syntax.ast import Module


def source_lines(steps: Iterable[Step], module: Module) -> dict[int, InstructionSource]:
    """Return the sources of the instructions of a module that access memory, by the `pc` of their steps.

    The compiler names a line in a ``.loc`` (``-lineinfo``); in an inlined function, it is a line of that function. The
    text is the instruction as the PTX has it.
    """
    texts = module.text.splitlines()
    found = {}
    for step in steps:
        if not is_memory_step(step) or step.pc in found:
            continue
        origin = step.origin
        file, line = origin.source or (0, 0)
        text = texts[origin.line - 1].strip() if 0 < origin.line <= len(texts) else origin.opcode
        found[step.pc] = InstructionSource(module.files.get(file, ""), line, " ".join(text.removesuffix(";").split()))
    return found
