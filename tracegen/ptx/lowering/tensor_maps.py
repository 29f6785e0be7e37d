"""Find the tensor maps that a kernel makes in shared memory, field by field, and copies to global memory.

A copy of a map whose fields were all replaced before depends on these replacements alone, not on what else the kernel
has in shared memory: it uses the place for other data before and after.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.lowering.program import Step
from tracegen.ptx.lowering.slicing import MAP_FLAG
from tracegen.ptx.syntax.ast import Integer, Operand

_SIZED = ("global_dim", "box_dim", "element_stride")
"""Fields with an element for each dimension."""

_FIELDS = (
    "global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "global_stride", *_SIZED
)  # fmt: skip

_JUMPS = frozenset({"BRA", "BRX", "CALL", "RET", "EXIT"})


def replaced_addresses(steps: Sequence[Step]) -> list[int]:
    """Return the slots of the addresses that a kernel writes into tensor maps."""
    return [step.src[1] for step in steps if _is_replacement(step) and "global_address" in step.origin.modifiers]


def mark_whole_maps(steps: Sequence[Step], targets: Sequence[int]) -> None:
    """Flag the stores to tensor maps in shared memory, and the loads that copy a map of which no field is missing.

    `targets` are the steps that jump tables lead to.
    """
    starts = {*targets, *(step.target for step in steps if step.op in _JUMPS)}
    for at, step in enumerate(steps):
        copies = step.op == "LOAD" and step.origin.opcode == "tensormap"
        if (_is_replacement(step) and step.space == "SHARED") or (copies and _has_all_fields(steps, at, starts)):
            step.flags.add(MAP_FLAG)


def _is_replacement(step: Step) -> bool:
    return step.op == "STORE" and step.origin.opcode == "tensormap" and "replace" in step.origin.modifiers


def _has_all_fields(steps: Sequence[Step], copy: int, starts: set[int]) -> bool:
    """Return whether the same threads replace every field of a map in the straight code before its copy."""
    where, base = steps[copy].origin.operands[1], steps[copy - 1].src[0]  # the place of a lane is a sum with this base
    found: dict[tuple[int, bool], set[tuple[str, int]]] = {}
    rank = 0
    for at in range(copy - 1, -1, -1):
        step = steps[at]
        if step.op in _JUMPS or at + 1 in starts or base in step.dst:
            break
        if _is_replacement(step) and step.space == "SHARED" and step.origin.operands[0] == where:
            field, operands = next(m for m in step.origin.modifiers if m in _FIELDS), step.origin.operands
            found.setdefault((step.guard, "NEGATED" in step.flags), set()).add((field, _index(operands)))
            if field == "rank":
                rank = _number(operands[1]) + 1
    sizes = dict.fromkeys(_SIZED, rank) | {"global_stride": rank - 1}
    needed = {(field, d) for field in _FIELDS for d in range(sizes.get(field, 1))}
    return rank > 0 and any(needed <= fields for fields in found.values())


def _index(operands: Sequence[Operand]) -> int:
    """Return the number of the element of a field that is replaced; 0 for a field with one element."""
    return _number(operands[1]) if len(operands) > 2 else 0


def _number(operand: Operand) -> int:
    return operand.value if isinstance(operand, Integer) else -1
