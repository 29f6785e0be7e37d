"""``ccws``: warps that lose locality go first, and the last ones wait."""

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
    """The lines that a warp lost last, in sets with least recently used replacement."""

    def __init__(self, entries: int, ways: int) -> None:
        self._ways = ways
        self._sets: list[list[int]] = [[] for _ in range(entries // ways)]  # least recently entered first

    def enter(self, line: int) -> None:
        """Make a line the most recently used one of its set."""
        self.remove(line)
        lines = self._set_of(line)
        lines.append(line)
        del lines[: -self._ways]

    def remove(self, line: int) -> bool:
        """Take a line out; tell whether it was there."""
        lines = self._set_of(line)
        if line not in lines:
            return False
        lines.remove(line)
        return True

    def _set_of(self, line: int) -> list[int]:
        return self._sets[line % len(self._sets)]


class Scores:
    """The warps of one SM that have not ended, with their scores and victim tags; and who `may_load` in this cycle."""

    def __init__(self, policy: CCWS) -> None:
        self.may_load: set[Owner] = set()
        self._policy = policy
        self._scores: dict[Owner, int] = {}
        self._tags: dict[Owner, VictimTags] = {}
        self._hits = 0

    def add_warp(self, warp: Owner) -> None:
        """Give a warp that begins its score and empty tags."""
        self._scores[warp] = self._policy.base
        self._tags[warp] = VictimTags(self._policy.entries, self._policy.ways)

    def remove_warp(self, warp: Owner) -> None:
        """Forget a warp that has ended."""
        del self._scores[warp], self._tags[warp]

    def record_lost_line(self, warp: Owner, line: int) -> None:
        """Take note that a line that a warp brought is replaced."""
        if warp in self._tags:
            self._tags[warp].enter(line)

    def record_miss(self, warp: Owner, line: int, active: int, instructions: int) -> None:
        """Take note that a load did not find its line, after so many instructions; raise the score if it was lost."""
        if not self._tags[warp].remove(line):
            return
        self._hits += 1
        cutoff = self._policy.base * active
        score = int(float(self._policy.throttle * cutoff) * self._hits / instructions)
        self._scores[warp] = max(self._scores[warp], score)

    def choose_loaders(self, active: Sequence[Warp]) -> None:
        """Decide which of the active warps may issue loads in this cycle."""
        order = sorted(active, key=lambda warp: (-self._scores[warp.owner], warp.age))
        cutoff = self._policy.base * len(active)
        self.may_load = {warp.owner for warp in order[:1]}
        total = 0
        for warp in order:
            total += self._scores[warp.owner]
            if total <= cutoff:
                self.may_load.add(warp.owner)

    def decay(self) -> None:
        """Let all scores fall by one, but not below the base."""
        self._scores = {warp: max(score - 1, self._policy.base) for warp, score in self._scores.items()}


class LostLocalityThrottle(Throttle):
    """Every SM has its own `Scores`."""

    def __init__(self, policy: CCWS, sms: int) -> None:
        self._sms = [Scores(policy) for _ in range(sms)]

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return what a warp of an SM may do now."""
        return Permit.ALLOCATE if warp.owner in self._sms[sm].may_load else Permit.WAIT

    def on_warp_begin(self, sm: int, warp: Warp) -> None:
        """Give a warp that begins its score and empty tags."""
        self._sms[sm].add_warp(warp.owner)

    def on_evict(self, sm: int, way: Way) -> None:
        """Enter the line that is replaced into the tags of who had brought it."""
        self._sms[sm].record_lost_line(way.bringer, way.line)

    def on_load(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Look for a line that was absent in the tags of its warp."""
        if absent:
            self._sms[sm].record_miss(transaction.warp.owner, transaction.line, active, counts["warp_instructions"])

    def before_issue(self, sm: int, active: Sequence[Warp]) -> None:
        """Decide who may load in this cycle."""
        self._sms[sm].choose_loaders(active)

    def on_warp_end(self, sm: int, warp: Warp) -> None:
        """Forget a warp that has ended."""
        self._sms[sm].remove_warp(warp.owner)

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Let all scores fall."""
        for scores in self._sms:
            scores.decay()
