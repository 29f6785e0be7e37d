"""Find products that the assembler contracts with additions: ``mul`` and ``add`` without rounding become ``fma``.

`ptxas` contracts a product if additions and subtractions of its basic block alone use it; it disappears, also if there
are several. An addition absorbs one product. Those of ``cuda_fp16.h`` have no rounding mode, while the compiler itself
contracts those of single and double precision. `python -m validation.halves` records what the assembler does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.straight_code import Body
from tracegen.ptx.syntax.ast import Instruction, Register
from tracegen.ptx.syntax.operands import registers_read, written

_TYPES = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})


@dataclass(frozen=True, slots=True)
class Contraction:
    """The numbers of the `products` that disappear, and for each sum that absorbs one the register of the product."""

    products: frozenset[int]
    sums: dict[int, str]


def contract_products(body: Body, blocks: Sequence[range]) -> Contraction:
    """Return the contracted products and sums of a function."""
    shared = _read_before_written(body, blocks)
    products, sums = set[int](), dict[int, str]()
    for block in blocks:
        for product, (register, users) in _absorbable(body, block, shared).items():
            if users and sums.keys().isdisjoint(users):
                products.add(product)
                sums |= dict.fromkeys(users, register)
    return Contraction(frozenset(products), sums)


def _absorbable(body: Body, block: range, shared: Collection[str]) -> dict[int, tuple[str, list[int]]]:
    """Return the products of a block that additions of the block alone use, with their register and these additions."""
    found: dict[int, tuple[str, list[int]]] = {}
    current: dict[str, int] = {}
    for at in block:
        instruction = body[at]
        if instruction is None:
            continue
        read = registers_read(instruction)
        for name in current.keys() & set(read):
            product = body[current[name]]
            if product is not None and read.count(name) == 1 and _is_sum_of(instruction, name, product):
                found[current[name]][1].append(at)
            else:
                del found[current.pop(name)]
        for name in written(instruction):
            if name in current and instruction.guard is not None:
                del found[current[name]]  # its product remains if the predicate does not hold
            current.pop(name, None)
        result = instruction.operands[0] if instruction.operands else None
        if _is_product(instruction) and isinstance(result, Register):
            current[result.name] = at
            found[at] = (result.name, [])
    for name, at in current.items():
        if name in shared:
            del found[at]
    return found


def _is_product(instruction: Instruction) -> bool:
    kept = instruction.guard is not None or "sat" in instruction.modifiers
    return instruction.opcode == "mul" and not kept and _is_contractible(instruction)


def _is_sum_of(instruction: Instruction, name: str, product: Instruction) -> bool:
    """Return whether an instruction adds a product in the register `name`, and may absorb it."""
    if instruction.opcode not in ("add", "sub") or not _is_contractible(instruction):
        return False
    same = instruction.modifiers[-1] == product.modifiers[-1]
    flushes = ("ftz" in instruction.modifiers) == ("ftz" in product.modifiers)
    return same and flushes and Register(name) in instruction.operands[1:]


def _is_contractible(instruction: Instruction) -> bool:
    modifiers = instruction.modifiers
    return bool(modifiers) and modifiers[-1] in _TYPES and _ROUNDINGS.isdisjoint(modifiers)


def _read_before_written(body: Body, blocks: Sequence[range]) -> set[str]:
    """Return the registers that some block reads as another one, or its last iteration, has written them."""
    found = set[str]()
    for block in blocks:
        inside = set[str]()
        for at in block:
            instruction = body[at]
            if instruction is not None:
                found.update(name for name in registers_read(instruction) if name not in inside)
                if instruction.guard is None:
                    inside.update(written(instruction))
    return found
