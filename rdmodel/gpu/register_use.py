"""Give a launch the registers that its threads take on a GPU."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.trace import RegisterUse, Trace
from rdmodel.trace.registers import GIVEN


def find_registers(trace: Trace, gpu: GPU) -> RegisterUse | None:
    """Return the registers per thread of a trace on a GPU; None if nothing is known (`Trace.register_use`)."""
    try:
        capability = compute_capability(gpu)
    except ConfigError:
        capability = None
    return trace.register_use(capability)


def with_registers(trace: Trace, gpu: GPU, registers: int | None = None) -> tuple[Trace, RegisterUse | None]:
    """Return a trace whose launch has the registers of its threads, so that they limit the occupancy, and their source.

    `registers` are given per thread; None: those of `find_registers`. If nothing is known, the trace is returned
    unchanged: 0 registers limit nothing. Raises `LaunchError` for a number that is not a whole one of at least 0.
    """
    use = find_registers(trace, gpu) if registers is None else RegisterUse(registers, GIVEN)
    if use is None or use.registers == trace.launch.registers:
        return trace, use
    other = copy(trace)
    other.launch = replace(trace.launch, registers=use.registers)
    return other, use
