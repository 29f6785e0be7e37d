"""Implement ``mrpb``: the memory request prioritization buffer, queues between the load/store unit and the L1."""

from __future__ import annotations

from collections import deque

from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies import MRPB
from rdmodel.reference.machine.ldst import Attempt, LoadStoreUnit, QueuedInstruction
from rdmodel.trace import Op


@dataclass(frozen=True, slots=True)
class BufferedTransaction:
    """A transaction of a load that entered the buffer in cycle `entered`."""

    load: QueuedInstruction
    line: int
    entered: int


class PrioritizationBuffer(LoadStoreUnit):
    """The load/store unit of an SM whose blocks have `block_warps` warps. In each cycle it drains first, then fills."""

    def __init__(self, attempt: Attempt, policy: MRPB, slots: int, block_warps: int, lookups: int = 1) -> None:
        super().__init__(attempt, lookups)
        self._policy = policy
        self._block_warps = block_warps
        count = {"warp": slots * block_warps, "block": slots, "warp-in-block": block_warps}[policy.signature]
        self._waiting: list[deque[BufferedTransaction]] = [deque() for _ in range(count)]
        self._last = -1  # the queue that was drained last
        self._flushing: int | None = None

    @property
    def empty(self) -> bool:
        """Whether every transaction has been served."""
        return not self.queue and not any(self._waiting)

    def step(self, now: int) -> None:
        """S3: let transactions of a load in the buffer access the L1, and some from the queue enter the buffer."""
        tried = self._drain(now)
        self._flushing = None
        head = self.queue[0] if self.queue else None
        for _ in range(self.lookups):
            if head is None or head not in self.queue or not self._enter(head, now, l1_is_free=not tried):
                return

    def _drain(self, now: int) -> bool:
        """S3a: let the first transactions of one queue access the L1; return whether there were any."""
        number = self._select(now)
        if number is None:
            return False
        queue = self._waiting[number]
        load = queue[0].load
        for _ in range(self.lookups):
            if not self._is_ready(number, now) or queue[0].load is not load:
                break
            if not self._attempt(load, queue[0].line, now):
                break
            queue.popleft()
            self._last = number
        return True

    def _select(self, now: int) -> int | None:
        """Return the queue to drain; None if no head of a candidate queue has waited long enough."""
        greedy, drain = self._policy.drain.startswith("greedy-"), self._policy.drain.removeprefix("greedy-")
        candidates = range(len(self._waiting))
        if self._flushing is not None:
            candidates = range(self._flushing, self._flushing + 1)
        elif greedy and self._last >= 0 and self._waiting[self._last]:
            candidates = range(self._last, self._last + 1)
        ready = [number for number in candidates if self._is_ready(number, now)]
        if drain == "longest":
            return min(ready, key=lambda number: (-len(self._waiting[number]), number), default=None)
        if drain == "round-robin":
            return min(ready, key=lambda number: (number <= self._last, number), default=None)
        return min(ready, default=None)

    def _is_ready(self, number: int, now: int) -> bool:
        queue = self._waiting[number]
        return bool(queue) and now - queue[0].entered >= self._policy.latency

    def _enter(self, head: QueuedInstruction, now: int, *, l1_is_free: bool) -> bool:
        """S3b: move a transaction of a load into the buffer; return whether it moved.

        A store waits until its queue is empty, and then accesses the L1 itself.
        """
        number = self._queue_of(head)
        queue = self._waiting[number]
        if head.instruction.op == Op.LOAD and (self._policy.entries is None or len(queue) < self._policy.entries):
            queue.append(BufferedTransaction(head, head.line, now))
        elif queue:
            self._flushing = number if self._policy.flush else None
            return False
        elif not l1_is_free or not self._attempt(head, head.line, now):
            return False
        self._pop_transaction()
        return True

    def _queue_of(self, queued: QueuedInstruction) -> int:
        slot = queued.warp.slot
        block_slot, warp = divmod(slot, self._block_warps)
        return {"warp": slot, "block": block_slot, "warp-in-block": warp}[self._policy.signature]
