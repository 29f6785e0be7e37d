"""Implement ``ccws`` in the reference machine: warps that lose locality load first, the warps behind them wait."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.policies import CCWS
from rdmodel.reference.machine.instruction import Owner
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way


class VictimTags:
    """The lines that a warp lost last, in sets with LRU replacement."""

    def __init__(self, entries: int, ways: int) -> None:
        self._ways = ways
        self._sets: list[list[int]] = [[] for _ in range(entries // ways)]  # in each, least recently entered first

    def enter(self, line: int) -> None:
        """Make a line the most recently used one of its set."""
        self.remove(line)
        lines = self._set_of(line)
        lines.append(line)
        del lines[: -self._ways]

    def remove(self, line: int) -> bool:
        """Remove a line; return whether it was there."""
        lines = self._set_of(line)
        if line not in lines:
            return False
        lines.remove(line)
        return True

    def _set_of(self, line: int) -> list[int]:
        return self._sets[line % len(self._sets)]


class Scores:
    """Scores and victim tags of the live warps of one SM; `may_load` holds the warps that may load in this cycle."""

    def __init__(self, policy: CCWS) -> None:
        self.may_load: set[Owner] = set()
        self._policy = policy
        self._scores: dict[Owner, int] = {}
        self._tags: dict[Owner, VictimTags] = {}
        self._hits = 0

    def add_warp(self, warp: Owner) -> None:
        """Give a new warp the base score and empty victim tags."""
        self._scores[warp] = self._policy.base
        self._tags[warp] = VictimTags(self._policy.entries, self._policy.ways)

    def remove_warp(self, warp: Owner) -> None:
        """Forget a warp that has ended."""
        del self._scores[warp], self._tags[warp]

    def record_lost_line(self, warp: Owner, line: int) -> None:
        """Enter a line that a warp brought and that was replaced into the warp's victim tags."""
        if warp in self._tags:
            self._tags[warp].enter(line)

    def record_miss(self, warp: Owner, line: int, active: int, instructions: int) -> None:
        """Raise the score of a warp whose load missed a line that it had lost before.

        `active` is the number of active warps and `instructions` the number of warp instructions issued so far on the
        SM.
        """
        if not self._tags[warp].remove(line):
            return
        self._hits += 1
        cutoff = self._policy.base * active
        score = int(float(self._policy.throttle * cutoff) * self._hits / instructions)
        self._scores[warp] = max(self._scores[warp], score)

    def choose_loaders(self, active: Sequence[Warp]) -> None:
        """Choose the active warps that may issue loads in this cycle: by score, up to the cutoff."""
        order = sorted(active, key=lambda warp: (-self._scores[warp.owner], warp.age))
        cutoff = self._policy.base * len(active)
        self.may_load = {warp.owner for warp in order[:1]}
        total = 0
        for warp in order:
            total += self._scores[warp.owner]
            if total <= cutoff:
                self.may_load.add(warp.owner)

    def decay(self) -> None:
        """Lower all scores by one, but not below the base."""
        self._scores = {warp: max(score - 1, self._policy.base) for warp, score in self._scores.items()}


class LostLocalityThrottle(Throttle):
    """``ccws``: every SM has its own `Scores`."""

    def __init__(self, policy: CCWS, sms: int) -> None:
        self._sms = [Scores(policy) for _ in range(sms)]

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return whether a warp may issue loads now."""
        return Permit.ALLOCATE if warp.owner in self._sms[sm].may_load else Permit.WAIT

    def on_warp_begin(self, sm: int, warp: Warp) -> None:
        """Give a new warp its score and victim tags."""
        self._sms[sm].add_warp(warp.owner)

    def on_evict(self, sm: int, way: Way) -> None:
        """Enter the replaced line into the victim tags of the warp that brought it."""
        self._sms[sm].record_lost_line(way.bringer, way.line)

    def on_load(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Look up an absent line in the victim tags of its warp."""
        if absent:
            self._sms[sm].record_miss(transaction.warp.owner, transaction.line, active, counts["warp_instructions"])

    def before_issue(self, sm: int, active: Sequence[Warp]) -> None:
        """Choose the warps that may load in this cycle."""
        self._sms[sm].choose_loaders(active)

    def on_warp_end(self, sm: int, warp: Warp) -> None:
        """Forget a warp that has ended."""
        self._sms[sm].remove_warp(warp.owner)

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Lower all scores."""
        for scores in self._sms:
            scores.decay()
