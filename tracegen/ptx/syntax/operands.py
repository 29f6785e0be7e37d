"""Tell which registers an instruction reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracegen.ptx.syntax.ast import Address, Instruction, Not, Operand, Pair, Register, Vector

_READ_FIRST = frozenset(
    {"st", "red", "bra", "brx", "nanosleep", "setmaxnreg", "prefetch", "prefetchu", "sust", "stmatrix", "ret", "exit"}
)
"""Opcodes whose first operand is read, not written."""


def registers_in(operands: Sequence[Operand | None]) -> Iterator[str]:
    """Yield the names of all registers in some operands, those of addresses included."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Not):
            yield operand.register.name
        elif isinstance(operand, Address) and isinstance(operand.base, Register):
            yield operand.base.name
        elif isinstance(operand, Vector):
            yield from registers_in(operand.items)
        elif isinstance(operand, Pair):
            yield from registers_in((operand.first, operand.second))


def reads_first(instruction: Instruction) -> bool:
    """Return whether an instruction reads its first operand; others write it."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in ("bar", "barrier"):
        return "red" not in instruction.modifiers
    return opcode in _READ_FIRST or (bool(operands) and isinstance(operands[0], Address))


def written(instruction: Instruction) -> Iterator[str]:
    """Yield the names of the registers that an instruction writes."""
    if not reads_first(instruction):
        yield from registers_in(instruction.operands[:1])


def registers_read(instruction: Instruction) -> list[str]:
    """Return the registers that an instruction reads, as often as it names them, with that of its predicate."""
    operands = instruction.operands if reads_first(instruction) else instruction.operands[1:]
    return [*registers_in((*operands, instruction.guard))]
