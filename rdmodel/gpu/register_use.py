"""Give a launch the registers that its threads take on a GPU."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.trace import RegisterUse, Trace
from rdmodel.trace.registers import ESTIMATED, GIVEN


def find_registers(trace: Trace, gpu: GPU) -> RegisterUse | None:
    """Return the registers per thread of a trace on a GPU; None if nothing is known (`Trace.register_use`)."""
    return trace.register_use(_capability_of(gpu))


def _capability_of(gpu: GPU) -> tuple[int, int] | None:
    try:
        return compute_capability(gpu)
    except ConfigError:
        return None


def register_notes(use: RegisterUse | None) -> tuple[str, ...]:
    """Return a sentence about registers that are not known from the code of the GPU; none if they are."""
    if use is None or use.is_exact:
        return ()
    if use.source == ESTIMATED:
        return ("registers per thread are estimated, since no ptxas makes code for the GPU",)
    return (f"registers per thread are those of {use.source}",)


def with_registers(trace: Trace, gpu: GPU | None, registers: int | str = "auto") -> tuple[Trace, RegisterUse | None]:
    """Return a trace of the code for a GPU, whose launch has the registers of its threads, and their source.

    Parameters
    ----------
    trace
        The trace, which is not changed.
    gpu
        The GPU whose code is assembled. None: unknown, which leaves an estimate.
    registers
        A number per thread, or "auto" for what the trace can tell (`Trace.register_use`).

    Returns
    -------
    Trace, RegisterUse or None
        The trace, and None if nothing is known of its registers: 0 of them limit nothing.

    Raises
    ------
    LaunchError
        For a number that is not a whole one of at least 0.
    """
    capability = None if gpu is None else _capability_of(gpu)
    if capability is not None:
        trace = trace.assembled_for(capability)
    if isinstance(registers, str):
        use = trace.register_use(capability)
    else:
        use = RegisterUse(replace(trace.launch, registers=registers).registers, GIVEN)
    if use is None or use.registers == trace.launch.registers:
        return trace, use
    other = copy(trace)
    other.launch = replace(trace.launch, registers=use.registers)
    return other, use
