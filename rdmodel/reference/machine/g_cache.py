"""Implement ``g-cache`` in the reference machine: victim bits of slices, and L1s that follow their hints."""

from __future__ import annotations

from rdmodel.policies import GCache
from rdmodel.reference.machine.admission import Admission
from rdmodel.reference.machine.l1 import L1, L1Failure, L1Outcome
from rdmodel.reference.machine.l2 import Slice
from rdmodel.reference.machine.messages import Message, Transaction
from rdmodel.reference.machine.ways import Way


class VictimBits:
    """The victim bits of one slice: for each of its lines, the groups of SMs that have read it."""

    def __init__(self, policy: GCache, of: Slice) -> None:
        self._sharers = policy.sharers
        self._slice = of
        self._readers: dict[int, set[int]] = {}  # by `Way.placed`

    def take_bits(self, previous: VictimBits) -> None:
        """Begin with the bits of the slice of an earlier launch, whose lines this slice has."""
        self._readers = previous._readers

    def with_hint(self, sm: int, message: Message) -> Message:
        """Return a message that the slice is about to serve, with a hint if the bit of the SM is set."""
        way = self._slice.find(message.line)
        known = way is not None and sm // self._sharers in self._readers.get(way.placed, ())
        return message._replace(hint=known and _is_for_l1(message))

    def record(self, sm: int, message: Message) -> None:
        """Set the bit of the SM for a line that the slice has served, if the line has a way."""
        way = self._slice.find(message.line)
        if way is not None and _is_for_l1(message):
            self._readers.setdefault(way.placed, set()).add(sm // self._sharers)


def _is_for_l1(message: Message) -> bool:
    """Return whether a message is a read of an SM whose answer goes to its L1."""
    return not message.write and message.bypass is None and message.away is None


class HotLines(Admission):
    """``g-cache``: fills do not replace hot lines of an L1 that has lost lines; lines get their ways at fills."""

    def __init__(self, l1: L1, stalls: frozenset[L1Failure], policy: GCache) -> None:
        super().__init__(l1, stalls)
        self._policy = policy
        self._hinted = False  # the answer that fills a line next
        self._hints = 0  # for lines without a way, in this period
        self._contended = False
        self._heat: dict[int, int] = {}  # by `Way.placed`; lines that are missing are cold
        l1.is_protected = self._is_hot

    def _is_hot(self, way: Way) -> bool:
        return self._contended and self._heat.get(way.placed, 0) > 0

    def on_hint(self) -> None:
        """Remember the hint until the fill."""
        self._hinted = True

    def fill(self, line: int, sectors: int) -> list[Transaction]:
        """Let a line arrive; it takes a way only if that is empty, or has a cold line."""
        hinted, self._hinted = self._hinted, False
        if self._l1.find(line) is not None:
            return super().fill(line, sectors)
        if hinted:
            self._contended = True
            self._hints += 1
        if self._l1.victim_of_load(line) is not None:
            waiting = super().fill(line, sectors)
            way = self._l1.find(line)
            assert way is not None
            self._heat[way.placed] = self._policy.heat if hinted else 0
            return waiting
        hot = [way.placed for way in self._l1.ways.of_set(self._l1.set_of(line))]
        waiting = self._l1.abandon(line, sectors) if self._l1.may_abandon(line) else super().fill(line, sectors)
        for placed in hot:
            self._heat[placed] -= 1
        return waiting

    def _on_load(self, transaction: Transaction, outcome: L1Outcome, *, absent: bool) -> None:
        way = self._l1.find(transaction.line)
        if way is not None and outcome != "bypassed":
            self._heat[way.placed] = self._policy.heat

    def end_cycle(self, now: int, instructions: int) -> None:
        """End the protection after a period without hints."""
        if (now + 1) % self._policy.period == 0:
            self._contended = self._hints > 0
            self._hints = 0
