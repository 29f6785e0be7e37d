"""Count the registers of a PTX kernel by the best means at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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

    Installed assemblers come before that of the module, since they build the user's programs, and code for the
    capability before code for a related one.
    """
    if capability is not None:
        architecture = 10 * capability[0] + capability[1]
        assemblers = list(_assemblers(module))
        exact = [(architecture, each) for known, each in assemblers if not known or architecture in known]
        related = [(related_architecture(architecture, known), each) for known, each in assemblers]
        for number, assembled in [*exact, *related]:
            found = None if number is None else assembled(number).get(kernel)
            if found is not None:
                source = ASSEMBLED if number == architecture else f"{ASSEMBLED} for sm_{number}"
                return RegisterUse(found.registers, source, found.spill_stores, found.spill_loads, found.spill_frame)
    return RegisterUse(estimate_registers(module, kernel), ESTIMATED)


def _assemblers(module: Module) -> Iterator[tuple[frozenset[int], Callable[[int], Mapping[str, Assembled]]]]:
    """Yield the architectures that the installed assemblers and that of a module know, and what they say for one."""
    yield known_architectures(), lambda number: assemble(module.text, number, module.relocatable)
    own = module.assembler
    if own is not None:
        yield own.architectures(), lambda number: parse_messages(own.messages(number))
