"""Unroll inner loops as the assembler does: iterations one after the other, with what is known of them folded.

The counter is a number in each iteration. What is computed from it and from what the loop does not change is a sum of
something that is the same in all iterations and a number. The former is computed once, and the number becomes a part of
the addresses of accesses (`inner_loops` tells which loops these are).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.inner_loops import MASK, WORDS, InnerLoop, as_word, find_inner_loops
from tracegen.ptx.syntax.ast import Address, Function, Instruction, Integer, Operand, Register, Vector
from tracegen.ptx.syntax.operands import registers_in, written

_PURE = frozenset(
    {"add", "sub", "mul", "mad", "and", "or", "xor", "not", "shl", "shr", "bfe", "bfi", "lop3", "mov", "neg", "mul24"}
)
"""Opcodes of integers whose result depends on their operands alone."""

Terms = frozenset[tuple[str, int]]
"""Registers with their factors, the sum of which a register holds."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A function whose inner loops are unrolled.

    `origins` are the places of its instructions in the original body; None for a further copy of one.
    """

    function: Function
    origins: Sequence[int | None]


def unroll_inner_loops(function: Function, architecture: int) -> Unrolled:
    """Return a function with the loops unrolled that the assembler unrolls completely; the same one if it has none."""
    old = function.body or ()
    loops = {loop.first: loop for loop in find_inner_loops(function, architecture)}
    if not loops:
        return Unrolled(function, range(len(old)))
    body: list[Instruction] = []
    origins: list[int | None] = []
    registers = dict(function.registers)
    taken: set[int] = set()
    moved: dict[int, int] = {}  # new places of the old instructions
    at = 0
    while at < len(old):
        moved[at] = len(body)
        made = _Unrolling(function, loops[at], registers).run() if at in loops else None
        end = loops[at].last + 1 if made else at + 1
        for place, instruction in made or [(at, old[at])]:
            body.append(instruction)
            origins.append(None if place in taken else place)
            taken.add(place)
        at = end
    moved[len(old)] = len(body)
    return Unrolled(
        replace(
            function,
            registers=registers,
            body=tuple(body),
            labels={label: moved[place] for label, place in function.labels.items()},
            rolled=frozenset(moved[place] for place in function.rolled),
        ),
        origins,
    )


@dataclass(frozen=True, slots=True)
class _Value:
    """The content of a register: that of `base` (None: nothing) and, for 32 bits, a number in addition."""

    base: str | None
    number: int = 0


class _Unrolling:
    """The unrolling of one loop, which may add `registers`."""

    def __init__(self, function: Function, loop: InnerLoop, registers: dict[str, str]) -> None:
        self._body = function.body or ()
        self._loop = loop
        self._registers = registers
        self._made: list[tuple[int, Instruction]] = []
        self._values: dict[str, _Value] = {}
        self._terms: dict[str, Terms] = {}  # of the registers that hold sums
        self._holders: dict[Terms, str] = {}
        self._once: dict[tuple[object, ...], str] = {}  # results of instructions, by what they compute

    def run(self) -> list[tuple[int, Instruction]] | None:
        """Return the iterations with the places of their instructions; None if a value does not last long enough."""
        loop = self._loop
        self._values[loop.counter] = _Value(None, loop.start & MASK)
        for _ in range(loop.iterations):
            for at in range(loop.first, loop.last):
                if at != loop.test and not self._take(at, self._body[at]):
                    return None
        left = sorted(self._needed() & {name for name, value in self._values.items() if value != _Value(name)})
        if any(self._values[name].base in set(left) - {name} for name in left):
            return None
        for name in left:
            self._emit_value(loop.last, Register(name), self._values[name])
        return self._made

    def _needed(self) -> set[str]:
        """Return the registers that instructions behind the loop may read, or that an iteration reads first."""
        found, new = set[str](), {self._loop.counter}
        for at, each in enumerate(self._body):
            results = set(written(each))
            read = set(registers_in((*each.operands[len(results) > 0 :], each.guard)))
            if not self._loop.first <= at <= self._loop.last:
                found |= read
            elif at != self._loop.test:
                found |= read - new
                new |= results
        return found

    def _take(self, at: int, instruction: Instruction) -> bool:
        """Fold or emit an instruction; return whether that is possible."""
        results = list(written(instruction))
        if len(results) == 1 and self._is_word(results[0]) and instruction.opcode in _PURE:
            value = self._sum(at, instruction) if instruction.modifiers[-1] in WORDS else None
            self._values[results[0]] = value or self._computed(at, instruction, results[0])
            return True
        operands = self._known_operands(at, instruction, results)
        if instruction.opcode == "ld":
            operands = (self._loaded(operands[0]), *operands[1:])
        else:
            for name in results:
                if any(value.base == name for other, value in self._values.items() if other != name):
                    return False
                self._forget(name)
                self._values[name] = _Value(name)
        same = operands == instruction.operands
        self._made.append((at, instruction if same else replace(instruction, operands=operands)))
        return True

    def _loaded(self, destination: Operand) -> Operand:
        """Return new registers for what a load brings, so that loads of several iterations can be merged."""
        if isinstance(destination, Vector):
            return Vector(tuple(item and self._loaded(item) for item in destination.items))
        if not isinstance(destination, Register):
            return destination
        name = self._fresh(destination.name)
        self._values[destination.name] = _Value(name)
        return Register(name)

    def _is_word(self, name: str) -> bool:
        return self._registers.get(name) in WORDS

    def _forget(self, name: str) -> None:
        """Let nothing be known of what a register holds, which has been written."""
        for terms in [terms for terms in self._holders if any(name == each for each, _ in terms)]:
            del self._terms[self._holders.pop(terms)]
        for key in [key for key in self._once if name in key[1:]]:
            del self._once[key]

    # ---- sums of registers and numbers

    def _sum(self, at: int, instruction: Instruction) -> _Value | None:
        """Return the result of an instruction, if it is a sum of what registers hold and a number."""
        known = [self._value_of(operand) for operand in instruction.operands[1:]]
        if any(each is None for each in known):
            return None
        values = [each for each in known if each is not None]
        factors = self._factors(instruction, values)
        if factors is None:
            return None
        number = sum(value.number * factor for value, factor in zip(values, factors, strict=True) if factor) & MASK
        terms: dict[str, int] = {}
        for value, factor in zip(values, factors, strict=True):
            for name, times in self._terms_of(value.base):
                terms[name] = (terms.get(name, 0) + times * factor) & MASK
        wanted = frozenset((name, times) for name, times in terms.items() if times)
        if not wanted:
            return _Value(None, number)
        holder = self._holders.get(wanted) or self._only(wanted)
        if holder is None:
            holder = self._fresh(next(written(instruction)))
            self._emit_terms(at, instruction, values, factors, holder)
            self._holders[wanted], self._terms[holder] = holder, wanted
        return _Value(holder, number)

    def _factors(self, instruction: Instruction, values: Sequence[_Value]) -> list[int] | None:
        """Return the factors with which the operands enter a sum; operands that are factors have none themselves."""
        opcode, numbers = instruction.opcode, [value.number if value.base is None else None for value in values]
        if opcode == "mov" and len(values) == 1:
            return [1]
        if opcode in ("add", "sub") and len(instruction.modifiers) == 1:
            return [1, 1 if opcode == "add" else -1]
        if opcode == "shl" and numbers[1] is not None and numbers[1] < 32:
            return [1 << numbers[1], 0]
        if opcode in ("mul", "mad") and instruction.modifiers[0] == "lo":
            rest = [1] if opcode == "mad" else []
            if numbers[1] is not None:
                return [numbers[1], 0, *rest]
            if numbers[0] is not None:
                return [0, numbers[0], *rest]
        return None

    def _terms_of(self, base: str | None) -> Terms:
        if base is None:
            return frozenset()
        return self._terms.get(base, frozenset({(base, 1)}))

    @staticmethod
    def _only(terms: Terms) -> str | None:
        """Return the register that is the whole sum."""
        [(name, times), *others] = terms
        return name if times == 1 and not others else None

    def _emit_terms(
        self, at: int, instruction: Instruction, values: Sequence[_Value], factors: Sequence[int], holder: str
    ) -> None:
        """Emit an instruction with its operands, but without the numbers that are added to them."""
        operands: list[Operand] = [Register(holder)]
        for value, factor, operand in zip(values, factors, instruction.operands[1:], strict=True):
            if value.base is not None:
                operands.append(Register(value.base))
            else:
                operands.append(Integer(0) if factor else operand if isinstance(operand, Integer) else _integer(value))
        zero = Integer(0)
        if instruction.opcode == "add" and zero in operands:
            operands.remove(zero)
            instruction = replace(instruction, opcode="mov", modifiers=("u32",))
        self._made.append((at, replace(instruction, operands=tuple(operands))))

    # ---- other results

    def _computed(self, at: int, instruction: Instruction, result: str) -> _Value:
        """Return the result of an instruction, which is emitted unless it has been computed before."""
        operands = self._known_operands(at, instruction, [result])
        key = ((instruction.opcode, instruction.modifiers, operands[1:]), *registers_in(operands[1:]))
        if key not in self._once:
            self._once[key] = self._fresh(result)
            self._made.append((at, replace(instruction, operands=(Register(self._once[key]), *operands[1:]))))
        return _Value(self._once[key])

    def _fresh(self, register: str) -> str:
        """Return a new register of the type of another one."""
        name = f"{register}'{len(self._registers)}"
        self._registers[name] = self._registers[register]
        return name

    # ---- operands

    def _value_of(self, operand: Operand) -> _Value | None:
        if isinstance(operand, Integer):
            return _Value(None, operand.value & MASK)
        if isinstance(operand, Register) and self._is_word(operand.name):
            return self._values.get(operand.name, _Value(operand.name))
        return None

    def _known_operands(self, at: int, instruction: Instruction, results: Sequence[str]) -> tuple[Operand, ...]:
        """Return the operands of an instruction with what is known of its registers."""
        first = 0 if not results else 1
        operands = list(instruction.operands)
        for place in range(first, len(operands)):
            operands[place] = self._known_operand(at, operands[place])
        return tuple(operands)

    def _known_operand(self, at: int, operand: Operand | None) -> Operand:
        if isinstance(operand, Register) and operand.name in self._values:
            value = self._values[operand.name]
            if value.base is not None and not value.number:
                return Register(value.base)
            register = Register(self._fresh(operand.name))
            self._emit_value(at, register, value)
            return register
        if isinstance(operand, Address) and isinstance(operand.base, Register) and operand.base.name in self._values:
            value = self._values[operand.base.name]
            if value.base is None:
                return Address(None, (value.number + operand.offset) & MASK)
            return Address(Register(value.base), operand.offset + as_word(value.number, is_signed=True))
        if isinstance(operand, Vector):
            return Vector(tuple(item and self._known_operand(at, item) for item in operand.items))
        assert operand is not None
        return operand

    def _emit_value(self, at: int, register: Register, value: _Value) -> None:
        """Emit an instruction that brings a value into a register."""
        source = self._body[at]
        if value.base is None:
            self._emit(at, source, "mov", ("u32",), (register, _integer(value)))
        elif value.number:
            self._emit(at, source, "add", ("s32",), (register, Register(value.base), _integer(value)))
        else:
            self._emit(at, source, "mov", (self._registers[value.base],), (register, Register(value.base)))

    def _emit(
        self, at: int, source: Instruction, opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]
    ) -> None:
        made = Instruction(opcode, modifiers, operands, line=source.line, source=source.source)
        self._made.append((at, made))


def _integer(value: _Value) -> Integer:
    return Integer(as_word(value.number, is_signed=True))
