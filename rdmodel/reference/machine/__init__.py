"""Simulate the machine of docs/machine.md in plain Python, cycle by cycle: the oracle of the event-driven engine.

No cycle is skipped: every phase of every SM and of every memory partition runs in every cycle. `simulate` runs blocks
of coalesced instructions and returns a `MachineResult` with the cycles, all counters and, on request, a log of events;
`simulate_in_turn` runs several launches on one L2.
"""

from rdmodel.reference.machine.instruction import MachineBlock, MachineInstruction
from rdmodel.reference.machine.run import MachineResult, simulate, simulate_in_turn

__all__ = ["MachineBlock", "MachineInstruction", "MachineResult", "simulate", "simulate_in_turn"]
