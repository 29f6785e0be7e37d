"""The simulated machine in plain Python, cycle by cycle: what the event-driven engine is tested against.

Nothing is skipped: every phase of every SM and of every memory partition runs in every cycle. `simulate` runs blocks
of coalesced instructions and returns an `MachineResult` with the cycles, all counters and, on request, a log of what
events when.
"""

from rdmodel.reference.machine.instruction import MachineBlock, MachineInstruction
from rdmodel.reference.machine.run import MachineResult, simulate

__all__ = ["MachineBlock", "MachineInstruction", "MachineResult", "simulate"]
