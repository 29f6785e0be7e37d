"""Count the accesses to local memory that come from spilled registers, which the PTX does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import RegisterUse
from tracegen.ptx.registers.liveness import crowded_instructions
from tracegen.ptx.syntax.ast import Instruction

_WORD = 4
"""Bytes of a register."""


def count_spills(
    live: Mapping[int, int], use: RegisterUse, origins: Iterable[Instruction | None], issued: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the loads and the stores of spilled registers, from the numbers of warps that issued each step.

    `live` are the registers that are live at each instruction (`live_registers`). `origins` are the instructions of the
    steps, but None for a step that is not the first one of its instruction.

    An assembler tells how many words its code spills, but not where. They are taken to be spread evenly over the
    instructions at which as many values are live as there are registers, or else at which most are.
    """
    if not use.spill_loads and not use.spill_stores:
        return 0.0, 0.0
    crowded = crowded_instructions(live, use.registers)
    found = [at for at, origin in enumerate(origins) if id(origin) in crowded]
    mean = float(issued[found].mean()) if found else 0.0
    return use.spill_loads / _WORD * mean, use.spill_stores / _WORD * mean
