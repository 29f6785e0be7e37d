"""Translate PTX instructions to steps: slots, guards, and the operations that lowering rules share."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmodel.errors import TraceError
from tracegen.ptx.isa.operand_counts import operand_counts
from tracegen.ptx.isa.special_registers import SHARED_ADDRESS, is_special
from tracegen.ptx.lowering.program import PTX_TYPES, Constant, PtxType, Step, type_bytes
from tracegen.ptx.syntax.ast import (
    Address,
    Float,
    Function,
    Instruction,
    Integer,
    Name,
    Not,
    Operand,
    Pair,
    Register,
    Variable,
    Vector,
)

_TRACKED_SOURCES, _TRACKED_RESULTS = 4, 4
"""Slots of one step that dependences pass between."""

_MAX_UINT64 = (1 << 64) - 1
"""Largest value of a slot."""


class UnsupportedError(Exception):
    """An instruction that has no translation; the message, if any, tells what of it is not supported."""


class MalformedError(TraceError):
    """An instruction that no assembler accepts: the kernel cannot be launched, whether it is executed or not."""


@dataclass(slots=True)
class FunctionScope:
    """A function while it is lowered: places of its variables and, for the kernel, offsets of its parameters.

    `ranked` are the variables in shared memory whose addresses depend on the rank of the block in its cluster.
    """

    function: Function
    places: dict[str, int]
    parameters: Mapping[str, int]
    parameter_base: int
    ranked: frozenset[str] = frozenset()


class Translation:
    """Translation of instructions by the rules of their opcodes; steps are appended to `steps`.

    `slots` holds None for a register, and the constant for every other slot. `counted` tells whether the instruction
    probably exists in machine code. `references` are the variables that are references to textures or surfaces.
    `keeps_arrays` tells whether machine code has the local arrays in registers.
    """

    def __init__(self, steps: list[Step], rules: Mapping[str, Callable[[Translation], None]]) -> None:
        self.slots: list[Constant | None] = []
        self.counted = True
        self._steps = steps
        self._rules = rules
        self._registers: dict[tuple[str, str], int] = {}
        self._constants: dict[Constant, int] = {}
        self.references: frozenset[str] = frozenset()
        self.keeps_arrays = False
        self.scope: FunctionScope
        self.instruction: Instruction
        self._pc = 0

    def enter(self, scope: FunctionScope) -> None:
        """Start a function."""
        self.scope = scope

    def begin(self, instruction: Instruction, pc: int) -> None:
        """Start an instruction."""
        self.instruction, self._pc, self.counted = instruction, pc, True

    def malformed(self, problem: str) -> MalformedError:
        """Return the error for an instruction that is not PTX; `problem` completes its name."""
        i = self.instruction
        name = ".".join((i.opcode, *i.modifiers))
        return MalformedError(f"{self.scope.function.name}: PTX line {i.line}: {name}{problem}")

    def check_operands(self) -> None:
        """Raise `MalformedError` unless the instruction has a number of operands that its opcode takes."""
        i = self.instruction
        allowed = operand_counts(i.opcode, i.modifiers)
        if allowed is not None and len(i.operands) not in allowed:
            raise self.malformed(f": has {len(i.operands)} operands, must have {' or '.join(map(str, allowed))}")

    def translate(self) -> None:
        """Emit the steps of the instruction by the rule of its opcode."""
        self.attempt(lambda: self._rules[self.instruction.opcode](self))

    def attempt(self, rule: Callable[[], None]) -> None:
        """Let `rule` emit the steps of the instruction; if it cannot, emit a step that fails when it is executed."""
        first = len(self._steps)
        try:
            rule()
        except MalformedError:
            raise
        except (UnsupportedError, KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
            del self._steps[first:]
            self._refuse(str(error) if isinstance(error, UnsupportedError) else "")

    def _refuse(self, problem: str) -> None:
        i = self.instruction
        first = i.operands[0] if i.operands else None
        if isinstance(first, Register | Vector | Pair) and not any(isinstance(o, Address) for o in i.operands):
            self.uncomputed()
            return
        name = ".".join((i.opcode, *i.modifiers))
        self.emit("TRAP", reason=f"{name} cannot be executed{problem and ': '}{problem}", **self.guard())

    def uncomputed(self) -> None:
        """Emit steps that write the registers of the first operand without values; they depend on all operands."""
        first, *others = self.operands
        self.poison(self.registers_of(first), [slot for o in (*others, first) for slot in self.registers_of(o)])

    def registers_of(self, operand: Operand | None) -> list[int]:
        """Return the slots of the registers of an operand."""
        return [self.register(part) for part in _parts(operand) if isinstance(part, Register)]

    def has_any(self, modifiers: Collection[str]) -> bool:
        """Return whether the instruction has one of some modifiers."""
        return any(modifier in modifiers for modifier in self.modifiers)

    def poison(self, results: Sequence[int], sources: Sequence[int]) -> None:
        """Emit steps that write slots without values and depend on others."""
        waiting = list(dict.fromkeys(sources))
        while len(waiting) > _TRACKED_SOURCES:
            group = self.temporary()
            self.emit("POISON", dst=(group,), src=tuple(waiting[:_TRACKED_SOURCES]), **self.guard())
            waiting[:_TRACKED_SOURCES] = []
            waiting.append(group)
        for at in range(0, len(results), _TRACKED_RESULTS):
            self.emit("POISON", dst=tuple(results[at : at + _TRACKED_RESULTS]), src=tuple(waiting), **self.guard())

    def both(self, predicate: int) -> int:
        """Return the slot of a predicate that holds where `predicate` and the guard of the instruction hold."""
        i = self.instruction
        if i.guard is None:
            return predicate
        guard, slot = self.register(i.guard), self.temporary()
        if i.negated:
            inverse = self.temporary()
            self.emit("XOR", dst=(inverse,), src=(guard, self.constant(1)), width=1)
            guard = inverse
        self.emit("AND", dst=(slot,), src=(guard, predicate), width=1)
        return slot

    @staticmethod
    def pair(operand: Operand) -> tuple[Operand | None, Operand | None]:
        """Return the two destinations of an operand ``a|b``; the second one is None for a single destination."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    # ---- slots

    def slot(self, function: str, register: str) -> int:
        """Return the slot of a register of a function."""
        key = function, register
        if key not in self._registers:
            self._registers[key] = self._new(None)
        return self._registers[key]

    def _new(self, content: Constant | None) -> int:
        self.slots.append(content)
        return len(self.slots) - 1

    def temporary(self) -> int:
        """Return a new slot for a value between two steps."""
        return self._new(None)

    def constant(self, value: Constant) -> int:
        """Return the slot of a constant."""
        if isinstance(value, int):
            value &= _MAX_UINT64
        if value not in self._constants:
            self._constants[value] = self._new(value)
        return self._constants[value]

    def register(self, register: Register) -> int:
        """Return the slot of a register or special register."""
        name = register.name
        if name not in self.scope.function.registers and is_special(name):
            return self.constant(name)
        return self.slot(self.scope.function.name, name)

    def value(self, operand: object, type_name: str) -> int:
        """Return the slot of a source operand; literals are converted to the type."""
        if isinstance(operand, Register):
            return self.register(operand)
        if isinstance(operand, Integer):
            return self.constant(operand.value)
        if isinstance(operand, Float):
            return self.constant(_float_bits(operand, PTX_TYPES[type_name].width))
        if isinstance(operand, Name):
            return self.address_of(operand.name)
        if isinstance(operand, Not):
            inverse = self.temporary()
            self.emit("XOR", dst=(inverse,), src=(self.register(operand.register), self.constant(1)), width=1)
            return inverse
        if isinstance(operand, Address) and isinstance(operand.base, Name):
            return self.address_of(operand.base.name, operand.offset)
        raise UnsupportedError

    def place(self, name: str) -> int:
        """Return the address of a symbol in its space."""
        if name in self.scope.parameters:
            return self.scope.parameter_base + self.scope.parameters[name]
        return self.scope.places[name]

    def address_of(self, name: str, offset: int = 0) -> int:
        """Return the slot of the address of a symbol, plus an offset."""
        place = self.place(name) + offset
        return self.constant(f"{SHARED_ADDRESS}{place}" if name in self.scope.ranked else place)

    def destination(self, operand: Operand | None) -> int:
        """Return the slot that an operand writes; for `_`, one that is not read."""
        if operand is None or getattr(operand, "name", "") == "_":
            return self.temporary()
        if not isinstance(operand, Register):
            raise UnsupportedError
        return self.slot(self.scope.function.name, operand.name)

    # ---- steps

    def emit(self, op: str, **fields: Any) -> Step:
        """Append a step of the instruction."""
        step = Step(op=op, origin=self.instruction, pc=self._pc, **fields)
        self._steps.append(step)
        return step

    def guard(self) -> dict[str, Any]:
        """Return the guard of the instruction as fields of a step."""
        i = self.instruction
        if i.guard is None:
            return {"flags": set()}
        return {"guard": self.register(i.guard), "flags": {"NEGATED"} if i.negated else set()}

    def data(
        self, op: str, dst: int, *src: int, type: PtxType = PTX_TYPES["b64"], flags: Sequence[str] = (), **more: Any
    ) -> None:
        """Append a step that computes a register under the guard of the instruction."""
        guard = self.guard()
        guard["flags"] |= set(flags)
        self.emit(op, dst=(dst,), src=src, kind=type.kind, width=type.width, **guard, **more)

    # ---- the instruction, for rules

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands of the instruction."""
        return self.instruction.operands

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers of the instruction."""
        return self.instruction.modifiers

    def type_name(self, which: int = -1) -> str:
        """Return the modifier that names the type of the operands."""
        name = self.modifiers[which]
        if name not in PTX_TYPES:
            raise UnsupportedError
        return name

    def pick(self, names: Mapping[str, Any], default: Any = None) -> Any:
        """Return the value in `names` of the first modifier that has one, else `default`."""
        found = next((names[m] for m in self.modifiers if m in names), default)
        if found is None:
            raise UnsupportedError
        return found

    def has(self, modifier: str) -> bool:
        """Return whether the instruction has a modifier."""
        return modifier in self.modifiers

    def width_of(self, register: Register) -> int:
        """Return the width of a declared register in bits."""
        return type_bytes(self.scope.function.registers[register.name]) * 8

    # ---- values of calls

    def copy_in(self, argument: object, parameter: Variable, callee: FunctionScope) -> None:
        """Emit the copy of an argument to a parameter of the callee."""
        if parameter.space == "reg":
            self.data("MOV", self.slot(callee.function.name, parameter.name), self.value(argument, parameter.type))
        else:
            self._copy(self._frame_place(argument), callee.places[parameter.name], parameter)

    def copy_out(self, result: object, returned: Variable, callee: FunctionScope) -> None:
        """Emit the copy of a result of the callee to the caller."""
        if returned.space == "reg":
            slot = self.destination(result if isinstance(result, Register) else None)
            self.data("MOV", slot, self.slot(callee.function.name, returned.name))
        else:
            self._copy(callee.places[returned.name], self._frame_place(result), returned)

    def _frame_place(self, name: object) -> int:
        if not isinstance(name, Name):
            raise UnsupportedError
        return self.scope.places[name.name]

    def _copy(self, source: int, target: int, variable: Variable) -> None:
        size = type_bytes(variable.type) * (1 if variable.count is None else variable.count)
        at = 0
        while at < size:
            step = next(n for n in (8, 4, 2, 1) if at + n <= size)
            between = self.temporary()
            zero = self.constant(0)
            self.emit("LOAD", dst=(between,), src=(zero,), space="FRAME", offset=source + at, width=8 * step)
            self.emit("STORE", src=(zero, between), space="FRAME", offset=target + at, width=8 * step)
            at += step


def _parts(operand: Operand | None) -> tuple[Operand | None, ...]:
    """Return the registers of an operand, or the operand itself; an Address counts as its base."""
    if isinstance(operand, Vector):
        return operand.items
    if isinstance(operand, Pair):
        return operand.first, operand.second
    return (operand.base if isinstance(operand, Address) else operand,)


def _float_bits(literal: Float, width: int) -> int:
    if literal.width == width or width not in (32, 64):
        return literal.bits
    if literal.width == 64:
        value = struct.unpack("<d", struct.pack("<Q", literal.bits))[0]
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:
            return 0x7F800000 | (literal.bits >> 63) << 31
    single = struct.unpack("<f", struct.pack("<I", literal.bits))[0]
    return int.from_bytes(struct.pack("<d", single), "little")
