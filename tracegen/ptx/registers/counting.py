"""Count the registers of a PTX kernel by the best means at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rdmodel.trace.registers import ASSEMBLED, ESTIMATED, RegisterUse
from tracegen.ptx.registers.liveness import estimate_registers
from tracegen.ptx.registers.ptxas import (
    Assembled,
    assemble,
    known_architectures,
    parse_messages,
    related_architecture,
)
from tracegen.ptx.syntax.ast import Module


def count_registers(module: Module, kernel: str, capability: tuple[int, int] | None) -> RegisterUse:
    """Return the registers per thread: from an assembler for a compute capability, or else an estimate.

    Installed assemblers come first, since they build the user's programs; then that of the module. Where they do not
    know the capability, code for a related one counts.
    """
    if capability is not None:
        architecture, own = 10 * capability[0] + capability[1], module.assembler
        found = _ask(
            architecture, known_architectures(), lambda it: assemble(module.text, it, module.relocatable), kernel
        )
        if found is None and own is not None:
            found = _ask(architecture, own.architectures(), lambda it: parse_messages(own.messages(it)), kernel)
        if found is not None:
            return found
    return RegisterUse(estimate_registers(module, kernel), ESTIMATED)


def _ask(
    architecture: int, known: frozenset[int], assembled: Callable[[int], Mapping[str, Assembled]], kernel: str
) -> RegisterUse | None:
    """Return what assemblers that know some architectures say of a kernel; None if they cannot make code of it."""
    related = related_architecture(architecture, known)
    found = assembled(related or architecture).get(kernel)
    if found is None:
        return None
    source = f"{ASSEMBLED} for sm_{related}" if related else ASSEMBLED
    return RegisterUse(found.registers, source, found.spill_stores, found.spill_loads, found.spill_frame)
