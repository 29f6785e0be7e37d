"""Find the inner loops that the assembler unrolls completely: those with a known length that load shared memory.

`ptxas` 13.5 unrolls a loop inside another one if it knows the number of its iterations, as long as the body that it
makes stays within a bound. Before compute capability 9.0, loads from shared memory raise the bound: with many of them,
the body may have thousands of instructions. The loops of tiled kernels over a tile are such loops.
`python -m validation.scheduling` records what the assembler does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.machine_code import machine_code
from tracegen.ptx.syntax.ast import Function, Instruction, Integer, Name, Operand, Register
from tracegen.ptx.syntax.operands import registers_in, written

MOST_ITERATIONS = 512
"""Iterations beyond which the assembler was not tried."""

_LEAST_LOADS = 2

_STRAIGHT = frozenset(
    {
        "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "div", "min", "max", "abs", "neg", "and", "or", "xor",
        "not", "shl", "shr", "shf", "bfe", "bfi", "lop3", "prmt", "popc", "clz", "sad", "mov", "cvt", "cvta", "setp",
        "set", "selp", "slct", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "copysign", "dp4a", "dp2a",
        "mma", "ldmatrix",
    }
)  # fmt: skip
"""Opcodes that a loop to be unrolled may have, beside loads and stores."""

_SPACES = frozenset({"shared", "param"})
"""Spaces of its accesses: accesses to others are records of the trace, which has the code as it is written."""

_CHANGING = ("%clock", "%globaltimer", "%pm")
"""Special registers that change by themselves."""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b, "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b,
    "ne": lambda a, b: a != b, "eq": lambda a, b: a == b,
}  # fmt: skip

_UNSIGNED = ("lo", "ls", "hi", "hs")

WORDS = ("u32", "s32", "b32")
"""Types of the counters, and of the integers that are folded."""

MASK = 0xFFFFFFFF
"""The bits of such an integer."""


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop to be unrolled: its instructions from `first` to `last`, the branch back, and its counter.

    The counter begins with `start` and is moved by `step` in each of the `iterations`. `test` is the comparison for the
    branch.
    """

    first: int
    last: int
    counter: str
    start: int
    step: int
    test: int
    iterations: int


def find_inner_loops(function: Function, architecture: int) -> list[InnerLoop]:
    """Return the loops of a function that the assembler unrolls completely for an architecture such as 80, in order."""
    body = function.body or ()
    branches = list(_branches(function))
    back = [(at, target) for at, target in branches if target <= at]
    entered = set(function.labels.values())
    tables = {function.labels.get(label) for table in function.tables.values() for label in table}
    found = []
    for last, first in back:
        inside = range(first, last + 1)
        # Nothing but its own branch back leads to the loop, except for the code before it.
        alone = sum(target == first for _, target in branches) == 1 and first not in tables
        straight = alone and not any(at in entered for at in inside[1:])
        nested = any(header < first and last < end for end, header in back)
        if straight and nested and not any(at in function.rolled for at in inside):
            loop = _read_loop(function, first, last)
            if loop and _is_short_enough(body[first : last + 1], loop.iterations, architecture):
                found.append(loop)
    return sorted(found, key=lambda loop: loop.first)


def _branches(function: Function) -> Iterator[tuple[int, int]]:
    """Yield the branches of a function to its labels."""
    for at, instruction in enumerate(function.body or ()):
        target = instruction.operands[-1] if instruction.operands else None
        if instruction.opcode == "bra" and isinstance(target, Name) and target.name in function.labels:
            yield at, function.labels[target.name]


def _is_short_enough(body: tuple[Instruction, ...], iterations: int, architecture: int) -> bool:
    loads = sum(each.opcode in ("ld", "ldmatrix") and "shared" in each.modifiers for each in body)
    size = sum(sum(machine_code(each).classes.values()) + (each.opcode in ("ld", "st", "ldmatrix")) for each in body)
    return loads >= _LEAST_LOADS and size * iterations <= _most_instructions(size, loads, architecture)


def _most_instructions(size: int, loads: int, architecture: int) -> float:
    """Return the bound on the instructions of the unrolled body of a loop of `size`, some of them `loads`.

    The numbers were found by bisection for 27 loops of 7 to 401 instructions with up to 64 loads, and for others since
    9.0; they are right within a fifth.
    """
    if architecture < 90:
        return min(7500, 150 + 22_000 * loads / size)
    return max(330, 150 + 18_000 / size)


def _read_loop(function: Function, first: int, last: int) -> InnerLoop | None:
    """Return the loop with these instructions, if it is straight, and its number of iterations is known."""
    body = function.body or ()
    inside, branch = body[first:last], body[last]
    if branch.guard is None or any(not _is_straight(each) for each in inside):
        return None
    writers = _writers(body)
    tests = [at for at in writers.get(branch.guard.name, ()) if first <= at < last]
    if len(tests) != 1 or body[tests[0]].opcode != "setp" or len(body[tests[0]].operands) != 3:
        return None
    read = sum(branch.guard.name in registers_in((*each.operands[1:], each.guard)) for each in body)
    compare, known, words = body[tests[0]].modifiers[0], body[tests[0]].operands[1:], body[tests[0]].modifiers[-1]
    if read != 1 or compare not in _COMPARISONS or words not in WORDS:
        return None
    tested, limit = known[0], _number(known[1], body, writers)
    if not isinstance(tested, Register) or limit is None:
        return None
    counter, step = _counter(tested.name, body, writers, first, tests[0], last)
    start = _start(counter, body, writers, first, function)
    if not step or start is None:
        return None
    is_signed = words != "u32" and compare not in _UNSIGNED
    for iterations in range(1, MOST_ITERATIONS + 1):
        number = as_word(start + iterations * step, is_signed)
        if _COMPARISONS[compare](number, as_word(limit, is_signed)) == branch.negated:
            return InnerLoop(first, last, counter, start, step, tests[0], iterations)
    return None


def as_word(number: int, is_signed: bool) -> int:
    """Return the lowest 32 bits of a number as an integer with or without a sign."""
    number &= MASK
    return number - (1 << 32) if is_signed and number >> 31 else number


def _is_straight(instruction: Instruction) -> bool:
    if instruction.guard is not None:
        return False
    source = instruction.operands[-1]
    if instruction.opcode == "mov" and isinstance(source, Register) and source.name.startswith(_CHANGING):
        return False
    if instruction.opcode in ("ld", "st"):
        return bool(_SPACES & set(instruction.modifiers)) and "volatile" not in instruction.modifiers
    return instruction.opcode in _STRAIGHT


def _writers(body: tuple[Instruction, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, instruction in enumerate(body):
        for name in written(instruction):
            found.setdefault(name, []).append(at)
    return found


def _number(operand: Operand, body: tuple[Instruction, ...], writers: Mapping[str, list[int]]) -> int | None:
    """Return the number that an operand always is; None if it is not known."""
    seen = set[str]()
    while isinstance(operand, Register):
        places = writers.get(operand.name, ())
        if len(places) != 1 or body[places[0]].opcode != "mov" or operand.name in seen:
            return None
        seen.add(operand.name)
        operand = body[places[0]].operands[1]
    return operand.value if isinstance(operand, Integer) else None


def _start(
    counter: str, body: tuple[Instruction, ...], writers: Mapping[str, list[int]], first: int, function: Function
) -> int | None:
    """Return the number that a counter has whenever its loop is entered: the block before the loop sets it."""
    entered = set(function.labels.values())
    for at in range(first - 1, -1, -1):
        if counter in written(body[at]):
            is_set = body[at].opcode == "mov" and body[at].guard is None
            return _number(body[at].operands[1], body, writers) if is_set else None
        if at in entered or body[at].opcode in ("bra", "brx", "call", "ret", "exit"):
            return None
    return None


def _counter(
    tested: str, body: tuple[Instruction, ...], writers: Mapping[str, list[int]], first: int, test: int, last: int
) -> tuple[str, int]:
    """Return the counter of a loop and what each iteration adds to it before its `test`; 0: it has none.

    The sum may have a register of its own, `tested`, from which it is copied.
    """
    inside = [at for at in writers.get(tested, ()) if first <= at < last]
    if (
        len(inside) != 1
        or inside[0] > test
        or body[inside[0]].opcode not in ("add", "sub")
        or body[inside[0]].modifiers[-1] not in WORDS
    ):
        return tested, 0
    instruction = body[inside[0]]
    register, number = instruction.operands[1:]
    if not isinstance(register, Register) or not isinstance(number, Integer):
        return tested, 0
    counter = register.name
    if counter != tested:
        copies = [at for at in writers.get(counter, ()) if first <= at < last]
        if len(copies) != 1 or body[copies[0]].operands[1:] != (Register(tested),) or copies[0] < inside[0]:
            return tested, 0
    return counter, number.value if instruction.opcode == "add" else -number.value
