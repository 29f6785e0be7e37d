"""Define `InstructionSource`: where in its source a memory instruction of a trace comes from."""

from __future__ import annotations

from rdmodel.common.late_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class InstructionSource:
    """The source of an instruction: `file` and `line` ("" and 0: unknown), and its `text` ("": unknown).

    The text is that of the instruction, such as ``ld.global.f32 %f1, [%rd4]``, not that of the line.
    """

    file: str = ""
    line: int = 0
    text: str = ""
