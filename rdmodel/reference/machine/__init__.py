"""The simulated machine in plain Python, cycle by cycle: what the event-driven engine is tested against.

Nothing is skipped: every phase of every SM and of every memory partition runs in every cycle. `simulate` runs blocks
of coalesced instructions and returns an `Outcome` with the cycles, all counters and, on request, a log of what
happened when.
"""

from rdmodel.reference.machine.instruction import MachineBlock, MachineInstruction
from rdmodel.reference.machine.run import Outcome, simulate

__all__ = ["MachineBlock", "MachineInstruction", "Outcome", "simulate"]
