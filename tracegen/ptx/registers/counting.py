"""Count the registers of a PTX kernel by the best means at hand."""

from __future__ import annotations

from rdmodel.trace.registers import ASSEMBLED, ESTIMATED, RegisterUse
from tracegen.ptx.registers.liveness import estimate_registers
from tracegen.ptx.registers.ptxas import assemble, related_architecture
from tracegen.ptx.syntax.ast import Module


def count_registers(module: Module, kernel: str, capability: tuple[int, int] | None) -> RegisterUse:
    """Return the registers per thread: from the assembler for a compute capability, or else an estimate.

    Where no assembler knows the capability, its code for a related one counts.
    """
    if capability is not None:
        architecture = 10 * capability[0] + capability[1]
        related = related_architecture(architecture)
        found = assemble(module.text, related or architecture, module.relocatable).get(kernel)
        if found is not None:
            source = f"{ASSEMBLED} for sm_{related}" if related else ASSEMBLED
            return RegisterUse(found.registers, source, found.spill_stores, found.spill_loads)
    return RegisterUse(estimate_registers(module, kernel), ESTIMATED)
