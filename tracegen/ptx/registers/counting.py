"""Count the registers of a PTX kernel by the best means at hand."""

from __future__ import annotations

from rdmodel.trace.registers import ASSEMBLED, ESTIMATED, RegisterUse
from tracegen.ptx.registers.liveness import estimate_registers
from tracegen.ptx.registers.ptxas import assemble
from tracegen.ptx.syntax.ast import Module


def count_registers(module: Module, kernel: str, capability: tuple[int, int] | None) -> RegisterUse:
    """Return the registers per thread: from the assembler for a compute capability, or else an estimate."""
    found = None
    if capability is not None:
        found = assemble(module.text, 10 * capability[0] + capability[1], module.relocatable).get(kernel)
    if found is None:
        return RegisterUse(estimate_registers(module, kernel), ESTIMATED)
    return RegisterUse(found.registers, ASSEMBLED, found.spill_stores, found.spill_loads)
