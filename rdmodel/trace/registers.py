"""Define `RegisterUse`: the registers that a thread of a launch takes, and how they are known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rdmodel.common.late_dataclass import dataclass

GIVEN, ASSEMBLED, ESTIMATED = "given", "ptxas", "estimated"
"""Values of `RegisterUse.source`; "ptxas for sm_80" is another one."""


@dataclass(frozen=True, slots=True)
class RegisterUse:
    """The `registers` of a thread, and the bytes that it spills to local memory and loads from it again.

    `spill_frame` are the bytes of its local memory in which it has them. `operand_stalls` are the cycles for which a
    multiply-add of single precision waits for the ports of the register file, in the mean of the loops of the code.

    `source` tells how they are known: "given" by the user or the kernel, from "ptxas", from "ptxas for sm_80" if it
    does not know the GPU, or "estimated" from the values that are live at once in the PTX, without spills.
    """

    registers: int
    source: str
    spill_stores: int = 0
    spill_loads: int = 0
    spill_frame: int = 0
    operand_stalls: float = 0.0

    @property
    def is_assembled(self) -> bool:
        """Whether an assembler tells the registers: for the GPU, or for a related one."""
        return self.source.startswith(ASSEMBLED)

    @property
    def is_exact(self) -> bool:
        """Whether the registers are those of code for the GPU: given, or told by an assembler for it."""
        return self.source in (GIVEN, ASSEMBLED)

    def __str__(self) -> str:
        """Return the registers as text: ``64 registers per thread (ptxas), 8 bytes spilled``."""
        spilled = f", {self.spill_stores} bytes spilled" if self.spill_stores else ""
        return f"{self.registers} registers per thread ({self.source}){spilled}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and strings."""
        return asdict(self)
