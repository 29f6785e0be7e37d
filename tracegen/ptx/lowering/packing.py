"""Find pairs of scalar operations of half precision that become one instruction on two halves of a register.

`ptxas` packs two operations of one kind in a basic block if neither needs the result of the other. The rule here pairs
each operation, in the order of the program, with the first one before it that is left. The halves of an operand that
come from different places take a permutation (PRMT) each time that another pair is needed, and so does an upper half
that is stored alone. `python -m validation.halves` compares the rule with what the assembler does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.contraction import Contraction
from tracegen.ptx.lowering.straight_code import Body
from tracegen.ptx.syntax.ast import Float, Instruction, Integer, Operand, Register, Vector
from tracegen.ptx.syntax.operands import registers_read, written

_OPCODES = frozenset({"add", "sub", "mul", "fma", "min", "max"})
_TYPES = frozenset({"f16", "bf16"})
_SPACES = ("global", "shared", "local")
_ORDERING = frozenset({"bar", "barrier", "membar", "fence", "atom", "red", "mbarrier", "cp"})

_WINDOW = 256
"""Operations among which an operation finds its partner: it bounds the search in long blocks."""

_Origin = tuple[object, ...]
"""Place of a value: what wrote it, and for a part of a wider register which part it is."""

_OUTSIDE, _NUMBER, _WORD, _HALF, _OTHER = "outside", "number", "word", "half", "other"


@dataclass(frozen=True, slots=True)
class _HalfValue:
    """The value of a register: its origin, its sign, and the operations that it is computed from, as bits.

    `factors` are those of a product that a sum absorbs.
    """

    origin: _Origin
    needs: int = 0
    negated: bool = False
    factors: tuple[_HalfValue, ...] = ()


@dataclass(frozen=True, slots=True)
class PackedPair:
    """The number of the first operation of a pair, and the permutations that the pair needs."""

    first: int
    permutations: int


def pack_halves(body: Body, blocks: Sequence[range], contraction: Contraction) -> dict[int, PackedPair]:
    """Return the pairs of operations in the blocks of a function, by the number of the second operation."""
    found: dict[int, PackedPair] = {}
    for block in blocks:
        if sum(_is_half(instruction) for at in block if (instruction := body[at]) is not None) > 1:
            found |= _Block(contraction).run(body, block)
    return found


def _is_half(instruction: Instruction) -> bool:
    """Return whether an instruction is an operation that can be packed."""
    types = instruction.modifiers[-1:]
    return instruction.opcode in _OPCODES and bool(_TYPES.intersection(types))


class _Block:
    """The operations of a basic block, which have numbers of their own, in the order of the program."""

    def __init__(self, contraction: Contraction) -> None:
        self._contraction = contraction
        self._values: dict[str, _HalfValue] = {}
        self._stored = dict.fromkeys((*_SPACES, ""), 0)  # what the stores to each space need
        self._places: list[int] = []
        self._operands: list[tuple[_HalfValue, ...]] = []
        self._closures: list[int] = []  # what each operation needs, itself and its partner included
        self._left: dict[tuple[object, ...], list[int]] = {}
        self._first: dict[int, int] = {}  # the first operation of a pair by the second
        self._combined: set[tuple[_Origin, _Origin]] = set()
        self._unpacked: set[int] = set()
        self._permutations: dict[int, int] = {}

    def run(self, body: Body, block: range) -> dict[int, PackedPair]:
        """Return the pairs by the number of the second operation in the body."""
        for at in block:
            instruction = body[at]
            if instruction is None:
                continue
            if _is_half(instruction) and at not in self._contraction.products:
                self._operate(at, instruction)
            else:
                self._follow(at, instruction)
        return {
            self._places[second]: PackedPair(self._places[self._first[second]], count)
            for second, count in self._permutations.items()
        }

    # ---- values

    def _value(self, operand: Operand | None) -> _HalfValue:
        if isinstance(operand, Register):
            return self._values.get(operand.name, _HalfValue((_OUTSIDE, operand.name)))
        return _HalfValue((_NUMBER, operand))

    def _follow(self, at: int, instruction: Instruction) -> None:
        """Keep what an instruction that is not packed writes, and what it stores."""
        needs = 0
        for name in registers_read(instruction):
            needs |= self._value(Register(name)).needs
        opcode, space = instruction.opcode, next((m for m in _SPACES if m in instruction.modifiers), "")
        if opcode in _ORDERING:
            needs |= self._needed_by_stores(*_SPACES)
            self._stored = dict.fromkeys(self._stored, needs)
        elif opcode == "st":
            self._stored[space] |= needs
            self._unpack(instruction.operands[-1])
        elif opcode == "ld":
            needs |= self._needed_by_stores(*([space] if space else _SPACES))
        results = [*written(instruction)]
        if instruction.guard is not None:
            for name in results:
                needs |= self._value(Register(name)).needs
        for part, name in enumerate(results):
            self._values[name] = _HalfValue((_WORD, at, part) if len(results) > 1 else (_OTHER, at), needs)
        if len(results) == 1 and instruction.guard is None:
            self._copy(results[0], instruction, at)

    def _needed_by_stores(self, *spaces: str) -> int:
        needs = self._stored[""]
        for space in spaces:
            needs |= self._stored[space]
        return needs

    def _copy(self, result: str, instruction: Instruction, at: int) -> None:
        """Keep the value of a result that has no instruction of its own: a copy, another sign, an absorbed product."""
        needs = self._values[result].needs
        operands = [self._value(operand) for operand in instruction.operands[1:]]
        if instruction.opcode == "mov" and isinstance(instruction.operands[-1], Register | Integer | Float):
            self._values[result] = operands[0]
        elif instruction.opcode == "neg" and _TYPES.intersection(instruction.modifiers):
            one = operands[0]
            self._values[result] = _HalfValue(one.origin, one.needs, not one.negated, one.factors)
        elif at in self._contraction.products:
            self._values[result] = _HalfValue((_OTHER, at), needs, factors=tuple(operands))

    def _unpack(self, stored: Operand) -> None:
        """Permute the halves of an upper half that is stored alone."""
        origin = self._value(stored).origin if not isinstance(stored, Vector) else ()
        if origin[:1] == (_HALF,) and (at := origin[1]) in self._first and at not in self._unpacked:
            assert isinstance(at, int)
            self._unpacked.add(at)
            self._permutations[at] += 1

    # ---- operations

    def _operate(self, at: int, instruction: Instruction) -> None:
        """Add an operation, with the first one of its kind that is left and independent of it, if there is any."""
        number = len(self._places)
        kind, operands = self._read(at, instruction)
        self._places.append(at)
        self._operands.append(operands)
        needs = self._value(instruction.guard).needs if instruction.guard is not None else 0
        result = instruction.operands[0]
        assert isinstance(result, Register)
        if instruction.guard is not None:
            needs |= self._value(result).needs
        for operand in operands:
            needs |= operand.needs
        closure = 1 << number
        for each in _bits(needs):
            closure |= self._closures[each]
        self._closures.append(closure)
        self._values[result.name] = _HalfValue((_HALF, number), 1 << number)
        left = self._left.setdefault(kind, [])
        left[:] = [each for each in left if each >= number - _WINDOW]
        partner = next((each for each in left if not closure >> each & 1), None)
        if partner is None:
            left.append(number)
            return
        left.remove(partner)
        self._permutations[number] = self._combine(partner, number)
        self._first[number] = partner
        both = closure | self._closures[partner]
        for each in range(max(0, partner - _WINDOW), number + 1):
            if self._closures[each] >> partner & 1 or each == number:
                self._closures[each] |= both

    def _read(self, at: int, instruction: Instruction) -> tuple[tuple[object, ...], tuple[_HalfValue, ...]]:
        """Return what operations to be packed have in common, and the operands of one."""
        operands = [self._value(operand) for operand in instruction.operands[1:]]
        opcode, absorbed = instruction.opcode, self._contraction.sums.get(at)
        if absorbed is not None:
            at_product = instruction.operands[1:].index(Register(absorbed))
            product, other = operands[at_product], operands[1 - at_product]
            opcode = "fma" if opcode == "add" else f"fma, {at_product}"
            operands = [*product.factors, other]
        kind = (
            opcode,
            tuple(m for m in instruction.modifiers if m != "rn"),
            instruction.guard,
            instruction.negated,
            tuple(operand.negated for operand in operands),
        )
        return kind, tuple(operands)

    def _combine(self, first: int, second: int) -> int:
        """Return the permutations for the operands of a pair; factors and summands may be exchanged."""
        lower, upper = self._operands[first], self._operands[second]
        orders = [upper, (upper[1], upper[0], *upper[2:])]
        chosen = min(orders, key=lambda order: len(self._missing(lower, order)))
        missing = self._missing(lower, chosen)
        self._combined |= missing
        return len(missing)

    def _missing(self, lower: Sequence[_HalfValue], upper: Sequence[_HalfValue]) -> set[tuple[_Origin, _Origin]]:
        """Return the pairs of halves that no register has."""
        pairs = {(low.origin, high.origin) for low, high in zip(lower, upper, strict=True)}
        return {pair for pair in pairs - self._combined if not self._is_together(*pair)}

    def _is_together(self, low: _Origin, high: _Origin) -> bool:
        """Return whether two halves are one, or those of one register; those of other blocks are taken to be."""
        if low == high or low[0] == high[0] in (_OUTSIDE, _NUMBER):
            return True
        if low[0] == high[0] == _WORD:
            part = low[2]
            return low[1] == high[1] and isinstance(part, int) and part % 2 == 0 and high[2] == part + 1
        return low[0] == high[0] == _HALF and self._first.get(_number(high)) == low[1]


def _number(origin: _Origin) -> int:
    assert isinstance(origin[1], int)
    return origin[1]


def _bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits of a mask."""
    while mask:
        last = mask & -mask
        yield last.bit_length() - 1
        mask ^= last
