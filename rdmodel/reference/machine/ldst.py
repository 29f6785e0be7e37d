"""Model the load/store unit of one SM: instructions in order, whose transactions access the L1."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.warps import Warp


@dataclass(slots=True, eq=False)
class QueuedInstruction:
    """A memory instruction in the load/store unit: instruction `number` of its warp.

    With `allocating`, its lines may be given ways. `started` of its transactions have left the queue, and `served` have
    been served.
    """

    warp: Warp
    number: int
    instruction: MachineInstruction
    allocating: bool = True
    started: int = 0
    served: int = 0

    @property
    def line(self) -> int:
        """Line of the next transaction."""
        return self.instruction.lines[self.started]


Attempt = Callable[[QueuedInstruction, int, int], bool]
"""A function that lets a transaction access the L1: from instruction, line and cycle to whether it was served."""


class LoadStoreUnit:
    """A load/store unit with a `queue` of instructions, whose transactions access the L1 through `attempt`.

    In one cycle, at most `lookups` transactions of one instruction do so.
    """

    def __init__(self, attempt: Attempt, lookups: int = 1) -> None:
        self.queue: deque[QueuedInstruction] = deque()
        self._attempt = attempt
        self.lookups = lookups

    @property
    def empty(self) -> bool:
        """Whether every transaction has been served."""
        return not self.queue

    def step(self, now: int) -> None:
        """Let the next transactions of the first instruction access the L1 until one is not served (S3)."""
        head = self.queue[0] if self.queue else None
        for _ in range(self.lookups):
            if head is None or head not in self.queue or not self._attempt(head, head.line, now):
                return
            self._pop_transaction()

    def _pop_transaction(self) -> None:
        """Remove the next transaction from the queue, and its instruction with the last one."""
        head = self.queue[0]
        head.started += 1
        if head.started == len(head.instruction.lines):
            self.queue.popleft()
