"""Implement ``dyncta`` in the reference machine: the number of blocks follows idle and waiting cycles."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.policies import DYNCTA
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp


class WaitingBlocks(Throttle):
    """``dyncta``: each of `sms` SMs has a limit on its blocks, at most `slots`, which it adjusts after each period."""

    def __init__(self, policy: DYNCTA, sms: int, slots: int) -> None:
        self._policy = policy
        self._slots = slots
        self._allowed = [max(slots // 2, 1)] * sms
        self._blocks: list[set[int]] = [set() for _ in range(sms)]
        self._start_period()

    def takes_block(self, sm: int, resident: int) -> bool:
        """Return whether the SM has fewer blocks than it may have."""
        return resident < self._allowed[sm]

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return whether the block of the warp runs."""
        return Permit.ALLOCATE if self._runs(sm, warp) else Permit.WAIT

    def on_block_begin(self, sm: int, block: int) -> None:
        """Add a block to those of the SM."""
        self._blocks[sm].add(block)

    def on_block_end(self, sm: int, block: int) -> None:
        """Remove a block from those of the SM."""
        self._blocks[sm].remove(block)

    def after_issue(self, sm: int, now: int, active: Sequence[Warp], *, issued: bool) -> None:
        """Count a cycle in which no warp issued: all running warps await memory, or the SM is idle."""
        if issued:
            return
        running = [warp for warp in active if self._runs(sm, warp)]
        if running and all(warp.awaits_memory(now) for warp in running):
            self._waiting[sm] += 1
        else:
            self._idle[sm] += 1

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Adjust the limits at the end of a period."""
        if (now + 1) % self._policy.period:
            return
        for sm, allowed in enumerate(self._allowed):
            self._allowed[sm] = min(max(allowed + self._change(sm), 1), self._slots)
        self._start_period()

    def _change(self, sm: int) -> int:
        if self._idle[sm] > self._policy.idle:
            return 1
        if self._waiting[sm] > self._policy.high:
            return -1
        return 1 if self._waiting[sm] < self._policy.low else 0

    def _runs(self, sm: int, warp: Warp) -> bool:
        """Return whether the block of a warp is one of the oldest, which may issue loads."""
        return warp.owner.block in sorted(self._blocks[sm])[: self._allowed[sm]]

    def _start_period(self) -> None:
        self._idle = [0] * len(self._allowed)
        self._waiting = [0] * len(self._allowed)
