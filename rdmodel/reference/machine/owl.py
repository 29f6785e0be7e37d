"""Implement ``owl`` in the reference machine: groups of blocks that go first, one after the other."""

from __future__ import annotations

from collections import Counter

from rdmodel.policies import OWL
from rdmodel.reference.machine.throttling import Throttle
from rdmodel.reference.machine.warps import Scheduler, Warp, round_robin


class GroupPriority(Throttle):
    """``owl``: the blocks of an SM with `slots` block slots of `block_warps` warps each form groups, in an order."""

    def __init__(self, policy: OWL, slots: int, block_warps: int) -> None:
        self._policy = policy
        self._size = min(-(-policy.group // block_warps), slots)
        self._round = -(-slots // self._size)  # groups that an SM has room for
        self._begun: Counter[int] = Counter()  # blocks that have begun on each SM
        self._places: dict[int, int] = {}  # of the groups of blocks in the order of priority
        self._last_place: Counter[Scheduler] = Counter()

    def on_block_begin(self, sm: int, block: int) -> None:
        """Put a block into the last group of its SM."""
        turn, group = divmod(self._begun[sm] // self._size, self._round)
        first = sm if self._policy.blp else 0
        self._places[block] = turn * self._round + (group - first) % self._round
        self._begun[sm] += 1

    def choose(self, sm: int, scheduler: Scheduler, issuable: list[Warp]) -> Warp:
        """Choose in turn among the warps of the group that goes first."""
        places = {self._place_of(warp) for warp in issuable}
        if not self._policy.locality:
            # The last group and those behind it go before those in front of it.
            places = {place for place in places if place >= self._last_place[scheduler]} or places
        first = min(places)
        self._last_place[scheduler] = first
        members = [warp for warp in issuable if self._place_of(warp) == first]
        return scheduler.remember(round_robin(members, scheduler.last_slot))

    def _place_of(self, warp: Warp) -> int:
        return self._places[warp.owner.block]
