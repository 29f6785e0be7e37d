"""Tell from machine code whether the assembler keeps the local arrays of a kernel in registers.

Compilers put arrays into local memory whose index they do not know. Where the assembler unrolls the loops over an
array, it knows the index, and the array needs no memory, although the messages of ``ptxas -v`` have its bytes.
"""

from __future__ import annotations

import numpy as np

from tracegen.ptx.registers.counting import assemblies
from tracegen.ptx.registers.operand_ports import INSTRUCTION_BYTES, section
from tracegen.ptx.syntax.ast import Module

_FIRST_ARCHITECTURE = 70
"""Architecture since which an instruction has 16 bytes."""

_LOCAL_ACCESSES = (0x983, 0x387)
"""LDL and STL, in the lower 12 bits."""


def keeps_arrays(module: Module, kernel: str, architecture: int) -> bool:
    """Return whether the PTX of a kernel accesses local memory, and its machine code for an architecture does not.

    False where no machine code is at hand, and for kernels that call functions or have generic addresses of local
    memory. O(instructions) beside the time of the assembler, which is asked for kernels with such accesses only.
    """
    body = module.functions[kernel].body or ()
    local = [each for each in body if "local" in each.modifiers]
    if not local or any(each.opcode not in ("ld", "st") for each in local) or any(i.opcode == "call" for i in body):
        return False
    for number, assembled in assemblies(module, architecture):
        if kernel in assembled:
            return not accesses_local_memory(assembled[kernel].code, kernel, number)
    return False


def accesses_local_memory(code: bytes, kernel: str, architecture: int) -> bool:
    """Return whether a kernel in a file in the format of a cubin accesses local memory, or nothing is known of it."""
    text = section(code, f".text.{kernel}")
    if architecture < _FIRST_ARCHITECTURE or len(text) < INSTRUCTION_BYTES or len(text) % INSTRUCTION_BYTES:
        return True
    words = np.frombuffer(text, "<u8")[::2]
    return bool(np.isin(words & 0xFFF, _LOCAL_ACCESSES).any())
