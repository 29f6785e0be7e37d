"""Estimate the registers of a PTX kernel: the most values that are live at once, over its control flow graph.

A value of 64 bits takes two registers, a predicate none. Constants of the launch take none either: parameters, and what
is copied from them, are operands in constant memory, unless they are the address of an access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.syntax.ast import Address, Function, Instruction, Module, Name, Register, Vector
from tracegen.ptx.syntax.operands import registers_read, written

_ENDS = ("ret", "exit", "trap")

_LEAST = 8
"""Registers that a thread has at least: machine code needs a few beside its values, such as a stack pointer."""

_MOST = 255
"""Registers that a thread can have; more values are spilled to local memory."""


@dataclass(frozen=True, slots=True)
class _Flow:
    """An instruction: bits of the registers that it writes and reads, whether it always writes, and what follows it."""

    writes: int
    reads: int
    kills: bool
    successors: tuple[int, ...]
    callee: str | None


def estimate_registers(module: Module, kernel: str) -> int:
    """Return the estimated registers per thread of a kernel, 8 to 255, functions that it calls included.

    ``.maxnreg`` bounds the estimate, as it bounds an assembler. O(instructions x registers / 64 x passes).
    """
    live = _most_live(module, kernel, frozenset())
    bound = module.functions[kernel].directives.get("maxnreg", "")
    most = min(_MOST, int(bound)) if bound.isdecimal() else _MOST
    return max(_LEAST, min(live, most))


def live_registers(module: Module, kernel: str) -> dict[int, int]:
    """Return the registers that are live at each instruction of a kernel, by its `id`."""
    body = module.functions[kernel].body or ()
    return {id(each): count for each, count in zip(body, _live_at(module, kernel, frozenset()), strict=False)}


def crowded_instructions(live: Mapping[int, int], registers: int) -> set[int]:
    """Return the instructions at which at least so many registers are live, or else at which most are.

    `live` is that of `live_registers`; the instructions are told by their `id`, too.
    """
    least = min(registers, max(live.values(), default=0))
    return {instruction for instruction, count in live.items() if count >= least}


def _most_live(module: Module, name: str, callers: frozenset[str]) -> int:
    return max(_live_at(module, name, callers), default=0)


def _live_at(module: Module, name: str, callers: frozenset[str]) -> list[int]:
    """Return the registers that are live at each instruction of a function, those of functions that it calls included.

    Empty for a function without a body, and for one that is among its `callers`.
    """
    function = module.functions.get(name)
    if function is None or not function.body or name in callers:
        return []
    numbers = {register: at for at, register in enumerate(function.registers)}
    flows = [_flow(function, at, instruction, numbers) for at, instruction in enumerate(function.body)]
    weights = _weights(function, numbers, _launch_constants(function.body) if function.entry else set())
    found = []
    for flow, after in zip(flows, _live_after(flows), strict=True):
        inner = _most_live(module, flow.callee, callers | {name}) if flow.callee else 0
        found.append(_weigh(after | flow.writes, weights) + inner)
    return found


def _live_after(flows: Sequence[_Flow]) -> list[int]:
    """Return the registers that are live after each instruction, as bits."""
    before = [0] * (len(flows) + 1)
    after = [0] * len(flows)
    changed = True
    while changed:
        changed = False
        for at in range(len(flows) - 1, -1, -1):
            flow = flows[at]
            out = 0
            for successor in flow.successors:
                out |= before[successor]
            value = flow.reads | (out & ~flow.writes if flow.kills else out)
            if value != before[at] or out != after[at]:
                before[at], after[at], changed = value, out, True
    return after


def _weights(function: Function, numbers: dict[str, int], constants: set[str]) -> list[int]:
    """Return sets of registers as bits: those that take at least one register, at least two, and four."""
    weights = [0, 0, 0]
    for register, number in numbers.items():
        type = function.registers[register]
        if type == "pred" or register in constants:
            continue
        bits = int("".join(c for c in type.partition("x")[0] if c.isdigit()) or 32) * (2 if type.endswith("x2") else 1)
        for at, least in enumerate((1, 33, 65)):
            if bits >= least:
                weights[at] |= 1 << number
    return weights


def _weigh(live: int, weights: Sequence[int]) -> int:
    one, two, four = ((live & weight).bit_count() for weight in weights)
    return one + two + 2 * four


def _launch_constants(body: Sequence[Instruction]) -> set[str]:
    """Return the registers that hold parameters of the kernel, literals or copies of such, without addresses."""
    writers: dict[str, list[Instruction]] = {}
    addresses: set[str] = set()
    for instruction in body:
        addresses |= {
            o.base.name for o in instruction.operands if isinstance(o, Address) and isinstance(o.base, Register)
        }
        for name in written(instruction):
            writers.setdefault(name, []).append(instruction)
    found: set[str] = set()
    growing = True
    while growing:
        fresh = {
            name
            for name, written in writers.items()
            if name not in found and len(written) == 1 and _copies_constant(written[0], found)
        }
        growing = bool(fresh)
        found |= fresh
    return found - addresses


def _copies_constant(instruction: Instruction, known: set[str]) -> bool:
    if instruction.opcode == "ld":
        return "param" in instruction.modifiers
    if instruction.opcode not in ("mov", "cvta") or isinstance(instruction.operands[0], Vector):
        return False
    source = instruction.operands[-1]
    return not isinstance(source, Register | Vector) or (isinstance(source, Register) and source.name in known)


def _flow(function: Function, at: int, instruction: Instruction, numbers: dict[str, int]) -> _Flow:
    writes_to, read = set(written(instruction)), set(registers_read(instruction))
    if instruction.opcode == "wgmma":
        read |= writes_to  # the accumulators
    writes, reads = (_bits(names, numbers) for names in (writes_to, read))
    return _Flow(writes, reads, instruction.guard is None, _successors(function, at, instruction), _callee(instruction))


def _successors(function: Function, at: int, instruction: Instruction) -> tuple[int, ...]:
    opcode, last = instruction.opcode, instruction.operands[-1] if instruction.operands else None
    following = (at + 1,) if instruction.guard is not None else ()
    if opcode in _ENDS:
        return following
    if opcode == "bra" and isinstance(last, Name) and last.name in function.labels:
        return (*following, function.labels[last.name])
    if opcode == "brx" and isinstance(last, Name):
        labels = function.tables.get(last.name, ())
        return (*following, *(function.labels[label] for label in labels if label in function.labels))
    return (at + 1,)


def _callee(instruction: Instruction) -> str | None:
    if instruction.opcode != "call":
        return None
    return next((operand.name for operand in instruction.operands if isinstance(operand, Name)), None)


def _bits(names: set[str], numbers: dict[str, int]) -> int:
    bits = 0
    for name in names:
        if name in numbers:
            bits |= 1 << numbers[name]
    return bits
