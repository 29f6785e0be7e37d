"""Find the machine code of instructions that the assembler combines with others, or computes itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tracegen.ptx.lowering.contraction import contract_products
from tracegen.ptx.lowering.folding import folded_conversions
from tracegen.ptx.lowering.machine_code import MachineCode, machine_code
from tracegen.ptx.lowering.packing import pack_halves
from tracegen.ptx.lowering.straight_code import Body, basic_blocks


def block_codes(body: Body, labels: Collection[int]) -> dict[int, MachineCode]:
    """Return the machine code of the instructions that do not have that of their kind, by their numbers in the body."""
    blocks = [*basic_blocks(body, labels)]
    contraction = contract_products(body, blocks)
    found = dict.fromkeys((*contraction.products, *folded_conversions(body)), MachineCode())
    for at in contraction.sums:
        instruction = body[at]
        assert instruction is not None
        found[at] = machine_code(replace(instruction, opcode="fma"))
    for at, pair in pack_halves(body, blocks, contraction).items():
        instruction = body[at]
        assert instruction is not None
        code = found.get(at) or machine_code(instruction)
        classes = {"int": pair.permutations} if pair.permutations else {}
        found[at] = replace(code, classes=classes, latency=code.slowest)
    return found
