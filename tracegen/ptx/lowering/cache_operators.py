"""Find the cache operators of loads in the modifiers of PTX instructions (PTX ISA, section on cache operators)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace.cache_ops import READ_ONLY, VALID_CACHE_OPS, CacheOp
from tracegen.ptx.lowering.program import Step
from tracegen.ptx.syntax.ast import Instruction

_OPERATORS = {
    "volatile": CacheOp.VOLATILE,
    "mmio": CacheOp.VOLATILE,
    "ca": CacheOp.CA,
    "cg": CacheOp.CG,
    "cs": CacheOp.CS,
    "lu": CacheOp.LU,
    "cv": CacheOp.CV,
    "L1::no_allocate": CacheOp.NO_ALLOCATE,
    "L1::evict_first": CacheOp.EVICT_FIRST,
    "L1::evict_last": CacheOp.EVICT_LAST,
}
"""Operators by modifier."""

_ORDERS, _SCOPES = frozenset({"relaxed", "acquire"}), frozenset({"gpu", "sys", "cluster"})
"""Memory orders of loads that other SMs take part in, which the L1 cannot answer."""


def cache_op_of(instruction: Instruction) -> int:
    """Return the cache operator of a load or of an asynchronous copy; 0 for none, and for other instructions."""
    modifiers = {*instruction.modifiers}
    if instruction.opcode == "cp":
        if "bulk" in modifiers:
            return CacheOp.BULK
        return CacheOp.ASYNC_CG if "cg" in modifiers else CacheOp.ASYNC_CA
    if instruction.opcode in ("tex", "tld4", "suld"):
        return CacheOp.TEX
    if instruction.opcode != "ld":
        return 0
    if modifiers & _ORDERS and modifiers & _SCOPES:
        return CacheOp.VOLATILE
    operator = next((_OPERATORS[m] for m in instruction.modifiers if m in _OPERATORS), CacheOp.NONE)
    with_read_only = operator | READ_ONLY
    return with_read_only if "nc" in modifiers and VALID_CACHE_OPS[with_read_only] else operator


def cache_ops_by_pc(steps: Iterable[Step]) -> NDArray[np.uint8] | None:
    """Return the cache operator of each PTX instruction by its number, the `pc` of its steps; None if none has one."""
    found = {step.pc: cache_op_of(step.origin) for step in steps}
    if not any(found.values()):
        return None
    table = np.zeros(max(found) + 1, np.uint8)
    for pc, cache_op in found.items():
        table[pc] = cache_op
    return table
