"""Implement ``lazy-cta`` in the reference machine: as many blocks as an SM needs, and neighbours on one SM."""

from __future__ import annotations

from collections import Counter

from rdmodel.policies import LazyCTA
from rdmodel.reference.machine.throttling import Throttle
from rdmodel.reference.machine.warps import Scheduler, Warp, round_robin


class LazyBlocks(Throttle):
    """``lazy-cta``: `sms` SMs with `slots` block slots take groups of blocks, and fewer after their first block."""

    def __init__(self, policy: LazyCTA, sms: int, slots: int) -> None:
        self._policy = policy
        self._slots = slots
        self._size = min(policy.group, slots)
        self._needed: list[int | None] = [None] * sms  # None: not known
        self._issued: list[Counter[int]] = [Counter() for _ in range(sms)]  # of each resident block
        self._next_block = 0
        self._sm_of_last_block = 0
        self._last_group: dict[Scheduler, int] = {}

    def takes_block(self, sm: int, resident: int) -> bool:
        """Return whether the next block continues a group on this SM, or whether a whole group may begin on it."""
        if self._group_of(self._next_block) == self._group_of(self._next_block - 1):
            return sm == self._sm_of_last_block
        free = self._slots - resident
        needed = self._needed[sm]
        wanted = free if needed is None else self._whole_groups(needed) - resident
        return min(free, wanted) >= self._size

    def choose(self, sm: int, scheduler: Scheduler, issuable: list[Warp]) -> Warp:
        """With `baws`, stay with the group that issued last, or turn to the oldest; its warps take turns."""
        if not self._policy.baws:
            return scheduler.choose(issuable)
        groups = {self._group_of(warp.owner.block) for warp in issuable}
        last = self._last_group.get(scheduler)
        group = last if last in groups else min(groups)
        self._last_group[scheduler] = group
        members = [warp for warp in issuable if self._group_of(warp.owner.block) == group]
        return scheduler.remember(round_robin(members, scheduler.last_slot))

    def on_block_begin(self, sm: int, block: int) -> None:
        """Remember where the last block began."""
        self._next_block = block + 1
        self._sm_of_last_block = sm

    def on_issue(self, sm: int, warp: Warp) -> None:
        """Count an instruction of a block."""
        self._issued[sm][warp.owner.block] += 1

    def on_block_end(self, sm: int, block: int) -> None:
        """Set the number of blocks when the first block of an SM that has instructions ends."""
        issued = self._issued[sm]
        if self._policy.lcs and self._needed[sm] is None and issued[block]:
            self._needed[sm] = -(-issued.total() // max(issued.values()))
        del issued[block]

    def _whole_groups(self, blocks: int) -> int:
        """Return a number of blocks, rounded up to whole groups."""
        return -(-blocks // self._size) * self._size

    def _group_of(self, block: int) -> int:
        return block // self._size
