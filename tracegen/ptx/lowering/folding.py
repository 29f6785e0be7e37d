"""Find the conversions of constants that the assembler computes itself.

`ptxas` folds those from floating-point numbers, but for the packed ones to bfloat16, and those from integers of up to
32 bits to single precision. Of those to half precision, it folds that of zero alone. `python -m validation.halves`
records what the assembler does.
"""

from __future__ import annotations

from tracegen.ptx.lowering.straight_code import Body
from tracegen.ptx.syntax.ast import Float, Instruction, Integer, Operand, Register
from tracegen.ptx.syntax.operands import written

_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})

_Constant = Integer | Float | None
"""A constant; None for one whose value is not needed, the result of a conversion."""


def folded_conversions(body: Body) -> set[int]:
    """Return the numbers of the conversions of a function whose operands are constants, and that are folded."""
    writers: dict[str, list[int]] = {}
    for at, instruction in enumerate(body):
        if instruction is not None:
            for name in written(instruction):
                writers.setdefault(name, []).append(at)
    known: dict[str, _Constant] = {}
    found = set[int]()
    before = -1
    while before < len(known) + len(found):  # again for conversions of what was folded
        before = len(known) + len(found)
        for name, places in writers.items():
            if name not in known and (values := {_constant(body[at], at in found) for at in places}) != {_VARIES}:
                value, *others = values
                if not others and not isinstance(value, str):
                    known[name] = value
        for at, instruction in enumerate(body):
            if instruction is not None and instruction.opcode == "cvt" and _is_folded(instruction, known):
                found.add(at)
    return found


_VARIES = "varies"


def _constant(instruction: Instruction | None, folded: bool) -> _Constant | str:
    """Return the constant that an instruction writes, or `_VARIES`."""
    if instruction is None or instruction.guard is not None:
        return _VARIES
    if folded:
        return None
    source = instruction.operands[-1]
    return source if instruction.opcode == "mov" and isinstance(source, Integer | Float) else _VARIES


def _is_folded(instruction: Instruction, known: dict[str, _Constant]) -> bool:
    values = [_value(operand, known) for operand in instruction.operands[1:]]
    if len(instruction.modifiers) < 2 or any(isinstance(value, str) for value in values):
        return False
    to, source = instruction.modifiers[-2:]
    if source in _FLOATS:
        return to != "bf16x2"
    is_small = source[:1] in "us" and source[1:] in ("8", "16", "32")
    return is_small and (to == "f32" or (to == "f16" and values == [Integer(0)]))


def _value(operand: Operand, known: dict[str, _Constant]) -> _Constant | str:
    if isinstance(operand, Integer | Float):
        return operand
    return known.get(operand.name, _VARIES) if isinstance(operand, Register) else _VARIES
