"""Tell on stderr how many registers the threads of a kernel take, and how this is known."""

from __future__ import annotations

from rdmodel.cli.output import print_note
from rdmodel.trace import RegisterUse
from rdmodel.trace.registers import ESTIMATED, GIVEN


def print_registers(kernel: str, use: RegisterUse | None) -> None:
    """Print the registers per thread unless they were given; without an assembler, name the package that has one.

    None: they are unknown.
    """
    if use is None:
        print_note(f"{kernel}: the registers per thread are unknown; give them with --registers N")
    elif use.source != GIVEN:
        print_note(f"{kernel}: {use}{_advice(use)}")


def _advice(use: RegisterUse) -> str:
    if use.source != ESTIMATED:
        return ""
    from tracegen.ptx.registers.ptxas import find_assemblers  # only programs need it

    return "" if find_assemblers() else "; ptxas tells them if it knows the GPU: pip install nvidia-cuda-nvcc"
