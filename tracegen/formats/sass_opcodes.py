"""Decode the memory access of an instruction of NVIDIA's machine code (SASS) from its opcode and suffixes.

Generic loads and stores (``LD``, ``ST``, ``ATOM``) count as global ones, since only their addresses decide about the
space. Traces do not contain accesses to shared memory. The names are those of the instruction set reference in
NVIDIA's *CUDA Binary Utilities*.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rdmodel.trace import FIRST_NON_L1_SPACE, Op, Space
from rdmodel.trace.cache_ops import READ_ONLY, VALID_CACHE_OPS, CacheOp
from tracegen.formats.ordering.rows import NO_ACCESS_OP


class MemoryAccess(NamedTuple):
    """The operation of a memory instruction, its memory space, its bytes per lane, and its cache operator."""

    op: Op
    space: Space
    size: int
    cache_op: int


_MEMORY_OPCODES = {
    "LD": (Op.LOAD, Space.GLOBAL),
    "LDG": (Op.LOAD, Space.GLOBAL),
    "LDGSTS": (Op.LOAD, Space.GLOBAL),
    "LDL": (Op.LOAD, Space.LOCAL),
    "LDC": (Op.LOAD, Space.CONSTANT),
    "ULDC": (Op.LOAD, Space.CONSTANT),
    "LDCU": (Op.LOAD, Space.CONSTANT),
    "ST": (Op.STORE, Space.GLOBAL),
    "STG": (Op.STORE, Space.GLOBAL),
    "STL": (Op.STORE, Space.LOCAL),
    "ATOM": (Op.ATOMIC, Space.GLOBAL),
    "ATOMG": (Op.ATOMIC, Space.GLOBAL),
    "RED": (Op.ATOMIC, Space.GLOBAL),
    "REDG": (Op.ATOMIC, Space.GLOBAL),
}
_OTHER_OPCODES = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "REDS", "CCTL", "CCTLL", "CCTLT"})
_OTHER_OPCODES |= {"LDGDEPBAR", "DEPBAR", "MEMBAR", "ERRBAR", "FENCE", "QSPC", "SYNCS", "ARRIVES"}
_WIDTH_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "F16": 2, "BF16": 2}
_WIDTH_BYTES |= {"64": 8, "U64": 8, "S64": 8, "F64": 8, "128": 16}
_DEFAULT_WIDTH_BYTES = 4
_UNSUPPORTED_WIDTH = "256"
"""Opcodes without a row in a trace; bytes per lane by suffix, and without one; the suffix of a refused width."""

_SCOPES = {"GPU": CacheOp.CG, "SYS": CacheOp.VOLATILE}
_HINTS = {name: CacheOp[name] for name in ("CA", "CG", "CS", "CV", "LU")}
_HINTS |= {
    "MMIO": CacheOp.VOLATILE, "NA": CacheOp.NO_ALLOCATE, "EF": CacheOp.EVICT_FIRST, "EL": CacheOp.EVICT_LAST
}  # fmt: skip
"""Cache operators by the scope of a strong load, and by other suffixes."""

_MAX_OPCODES = 4096
_MAX_OPCODE_BYTES = 64
"""Maximum number of opcodes of a reader, and their maximum length in bytes."""


@lru_cache(maxsize=4096)
def access_of(opcode: str) -> MemoryAccess | None:
    """Return the access of an opcode such as ``LDG.E.64.SYS``; None for shared memory, and for no access.

    The width is that of the first suffix that names one, else 4 bytes. Raises `KeyError` for an unknown opcode, and
    for accesses of more than 16 bytes per lane.
    """
    name, *suffixes = opcode.split(".")
    if name in _OTHER_OPCODES:
        return None
    op, space = _MEMORY_OPCODES[name]
    if _UNSUPPORTED_WIDTH in suffixes:
        raise KeyError(opcode)
    size = next((_WIDTH_BYTES[suffix] for suffix in suffixes if suffix in _WIDTH_BYTES), _DEFAULT_WIDTH_BYTES)
    has_operator = op == Op.LOAD and space < FIRST_NON_L1_SPACE
    return MemoryAccess(op, space, size, _cache_op_of(suffixes, copies=name == "LDGSTS") if has_operator else 0)


def _cache_op_of(suffixes: Sequence[str], *, copies: bool) -> int:
    """Return the cache operator of a load, or of a copy to shared memory, from the suffixes of its opcode.

    A scope beyond the SM (``STRONG.GPU``, ``STRONG.SYS``) takes precedence over hints, of which the first one counts.
    """
    scopes = suffixes[suffixes.index("STRONG") + 1 :] if "STRONG" in suffixes else ()
    operators = [_SCOPES[suffix] for suffix in scopes if suffix in _SCOPES][-1:]
    operators += [_HINTS[suffix] for suffix in suffixes if suffix in _HINTS]
    operator = operators[0] if operators else CacheOp.NONE
    if copies:
        bypasses = "BYPASS" in suffixes or operator in (CacheOp.CG, CacheOp.CV, CacheOp.VOLATILE)
        return CacheOp.ASYNC_CG if bypasses else CacheOp.ASYNC_CA
    read_only = READ_ONLY if {"CONSTANT", "CI"} & {*suffixes} else 0
    return operator | read_only if VALID_CACHE_OPS[operator | read_only] else operator


class OpcodeTable:
    """The opcodes that a reader has met so far, as arrays in which compiled parsers look them up.

    `names` has the characters of opcode i and `lengths` their number. `kinds` has its op (`NO_ACCESS_OP` for no
    access), space and size, 1 if its records may also list addresses in shared memory (``LDGSTS``), and its cache
    operator.
    """

    def __init__(self) -> None:
        self.names = np.zeros((_MAX_OPCODES, _MAX_OPCODE_BYTES), np.uint8)
        self.lengths = np.zeros(_MAX_OPCODES, np.int64)
        self.kinds = np.zeros((_MAX_OPCODES, 5), np.uint8)
        self.count = 0

    def add(self, name: bytes) -> str | None:
        """Add an opcode; return a message if it cannot be added, else None."""
        text = name.decode("ascii", "replace")
        if len(name) > _MAX_OPCODE_BYTES:
            return f"an opcode of more than {_MAX_OPCODE_BYTES} letters"
        if self.count == _MAX_OPCODES:
            return f"more than {_MAX_OPCODES} different opcodes"
        try:
            access = access_of(text)
        except KeyError:
            if text.split(".")[0] in _MEMORY_OPCODES:
                return f"{text} accesses 32 bytes per lane; instructions of a trace access 16 at most"
            return f"{text} is not known as an instruction that accesses memory"
        self.names[self.count, : len(name)] = np.frombuffer(name, np.uint8)
        self.lengths[self.count] = len(name)
        kind = (NO_ACCESS_OP, 0, 4, 0) if access is None else (*access[:3], text.startswith("LDGSTS"))
        self.kinds[self.count] = (*kind, 0 if access is None else access.cache_op)
        self.count += 1
        return None
