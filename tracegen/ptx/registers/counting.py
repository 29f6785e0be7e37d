"""Count the registers of a PTX kernel by the best means at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rdmodel.trace.registers import ASSEMBLED, ESTIMATED, RegisterUse
from tracegen.ptx.registers.liveness import estimate_registers
from tracegen.ptx.registers.operand_ports import operand_stalls
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

    Installed assemblers come before that of the module, since they build the user's programs, and code for the
    capability before code for a related one.
    """
    if capability is not None:
        architecture = 10 * capability[0] + capability[1]
        for number, assembled in assemblies(module, architecture):
            found = assembled.get(kernel)
            if found is not None:
                source = ASSEMBLED if number == architecture else f"{ASSEMBLED} for sm_{number}"
                return RegisterUse(
                    found.registers, source, found.spill_stores, found.spill_loads, found.spill_frame,
                    operand_stalls(found.code, kernel, number),
                )  # fmt: skip
    return RegisterUse(estimate_registers(module, kernel), ESTIMATED)


def assemblies(module: Module, architecture: int) -> Iterator[tuple[int, Mapping[str, Assembled]]]:
    """Yield architectures, the given one first, and what assemblers say of the module's kernels for each."""
    own = module.assembler
    yield architecture, assemble(module.text, architecture, module.relocatable)
    if own is not None and architecture in own.architectures():
        yield architecture, parse_messages(*own.assemble(architecture))
    # Only now, since it takes longer to ask assemblers what they know than to let them fail.
    related = related_architecture(architecture, known_architectures())
    if related is not None:
        yield related, assemble(module.text, related, module.relocatable)
    if own is not None:
        related = related_architecture(architecture, own.architectures())
        if related is not None:
            yield related, parse_messages(*own.assemble(related))
