"""What an instruction of NVIDIA's machine code (SASS) asks of memory, by its opcode with all its suffixes.

Generic loads and stores (``LD``, ``ST``, ``ATOM``) are taken for global ones: their space is decided by the address.
Shared memory is no concern of a trace. Names are those of NVIDIA's *CUDA Binary Utilities*, instruction set
reference.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rdmodel.trace import Op, Space
from tracegen.formats.ordering.rows import GAP


class Access(NamedTuple):
    """What a memory instruction does, where, and with how many bytes per lane."""

    op: Op
    space: Space
    size: int


NO_ACCESS = None
"""What an opcode is that accesses shared memory or none: it counts as an instruction in between."""

_ACCESSES = {
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
_NONE = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "REDS", "CCTL", "CCTLL", "CCTLT"})
_NONE |= {"LDGDEPBAR", "DEPBAR", "MEMBAR", "ERRBAR", "FENCE", "QSPC", "SYNCS", "ARRIVES"}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "F16": 2, "BF16": 2}
_WIDTHS |= {"64": 8, "U64": 8, "S64": 8, "F64": 8, "128": 16}
_DEFAULT_WIDTH = 4
_TOO_WIDE = "256"

_MOST_OPCODES = 4096
_OPCODE_BYTES = 64


@lru_cache(maxsize=4096)
def access_of(opcode: str) -> Access | None:
    """Return what an opcode such as ``LDG.E.64.SYS`` does, `NO_ACCESS` (None) for shared memory and for none.

    The width is that of the first suffix that names one, 4 bytes without. Raises `KeyError` for an opcode that is
    not known to access memory or not to, and for accesses of more than 16 bytes per lane.
    """
    name, *suffixes = opcode.split(".")
    if name in _NONE:
        return NO_ACCESS
    op, space = _ACCESSES[name]
    if _TOO_WIDE in suffixes:
        raise KeyError(opcode)
    size = next((_WIDTHS[suffix] for suffix in suffixes if suffix in _WIDTHS), _DEFAULT_WIDTH)
    return Access(op, space, size)


class OpcodeTable:
    """The opcodes of a trace met so far, as arrays that compiled parsers look them up in.

    Of opcode i, `names` has the letters and `lengths` their number; `kinds` has op, space, size, and whether
    addresses in shared memory occur as well (``LDGSTS``). An op of `GAP` is no access.
    """

    def __init__(self) -> None:
        self.names = np.zeros((_MOST_OPCODES, _OPCODE_BYTES), np.uint8)
        self.lengths = np.zeros(_MOST_OPCODES, np.int64)
        self.kinds = np.zeros((_MOST_OPCODES, 4), np.uint8)
        self.count = 0

    def add(self, name: bytes) -> str | None:
        """Take up an opcode; return what is wrong with it, if something is."""
        text = name.decode("ascii", "replace")
        if len(name) > _OPCODE_BYTES:
            return f"an opcode of more than {_OPCODE_BYTES} letters"
        if self.count == _MOST_OPCODES:
            return f"more than {_MOST_OPCODES} different opcodes"
        try:
            access = access_of(text)
        except KeyError:
            return f"{text} is not known as an instruction that accesses memory"
        self.names[self.count, : len(name)] = np.frombuffer(name, np.uint8)
        self.lengths[self.count] = len(name)
        self.kinds[self.count] = (GAP, 0, 4, 0) if access is None else (*access, text.startswith("LDGSTS"))
        self.count += 1
        return None
