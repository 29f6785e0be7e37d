"""Prove the alignment of addresses in shared memory: the powers of two that divide what registers hold."""

from __future__ import annotations

from collections.abc import Mapping

from tracegen.ptx.syntax.ast import Address, Function, Instruction, Integer, Name, Operand, Register
from tracegen.ptx.syntax.operands import registers_in, written

MOST = 16
"""Bytes of the largest access, beyond which alignment does not matter."""

_ANY = 1 << 16
"""The alignment of zero, and what a register is taken to have until its definitions have been looked at."""

_PRODUCTS = ("mul", "mul24")
_SUMS = ("add", "sub", "or", "xor", "min", "max")
_COPIES = ("mov", "cvta", "cvt")

_FLOATS = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f32x2", "f64"})
"""Types whose results are not those of the rules for integers."""


class Alignments:
    """The alignments of the registers of a function; `shared` has those of variables in shared memory, in bytes.

    A register that is written several times has the least alignment of all that is written: the greatest fixed point
    of the equations, which begins with `_ANY` and falls.
    """

    def __init__(self, function: Function, shared: Mapping[str, int]) -> None:
        self._shared = shared
        self._definitions: dict[str, list[Instruction]] = {}
        for instruction in function.body or ():
            for name in written(instruction):
                self._definitions.setdefault(name, []).append(instruction)
        self._known: dict[str, int] = {}

    def of(self, operand: Operand | None) -> int:
        """Return a power of two that divides the number which an operand stands for."""
        if isinstance(operand, Integer):
            return operand.value & -operand.value if operand.value % _ANY else _ANY
        if isinstance(operand, Name):
            return self._shared.get(operand.name, 1)
        if isinstance(operand, Address) and operand.base is not None:
            return min(self.of(operand.base), self.of(Integer(operand.offset)))
        if not isinstance(operand, Register):
            return 1
        if operand.name not in self._known:
            self._solve(operand.name)
        return self._known[operand.name]

    def _solve(self, name: str) -> None:
        """Find the alignments of a register and of those that it is computed from."""
        needed, found = [name], {name}
        for each in needed:
            for instruction in self._definitions.get(each, ()):
                sources = set(registers_in(instruction.operands[1:])) - found - set(self._known)
                needed += sorted(sources)
                found |= sources
        self._known.update(dict.fromkeys(needed, _ANY))
        changed = True
        while changed:
            changed = False
            for each in reversed(needed):
                new = min((self._result(i) for i in self._definitions.get(each, ())), default=1)
                changed |= new != self._known[each]
                self._known[each] = new

    def _result(self, instruction: Instruction) -> int:
        """Return the alignment of the result of an instruction, from those of its operands."""
        opcode, operands = instruction.opcode, instruction.operands[1:]
        if _FLOATS & set(instruction.modifiers):
            return 1
        known = [self.of(operand) for operand in operands]
        if (opcode in _COPIES and len(known) == 1) or (opcode in _SUMS and len(known) == 2):
            return min(known)
        if opcode == "selp" and len(known) == 3:
            return min(known[:2])
        if opcode in _PRODUCTS and len(known) == 2 and "hi" not in instruction.modifiers:
            return min(_ANY, known[0] * known[1])
        if opcode == "mad" and len(known) == 3 and "hi" not in instruction.modifiers:
            return min(known[0] * known[1], known[2])
        if opcode == "shl" and len(known) == 2 and isinstance(operands[1], Integer):
            return min(_ANY, known[0] << min(operands[1].value, 16))
        if opcode == "and" and len(known) == 2:
            return max(known)
        return 1
