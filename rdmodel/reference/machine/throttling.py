"""Who may issue loads.

A warp is known by its SM and its rank there, which is its position by age among those warps of its scheduler that have
not ended and do not wait at a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from rdmodel.policies import DWTCS, PCAL, SWL
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way


class Permit(Enum):
    """What a warp may do with loads: issue them; issue them, but not allocate lines; not issue them."""

    ALLOCATE = "allocate"
    PASS = "pass"
    WAIT = "wait"


class Throttle:
    """Every warp may issue loads."""

    limit: int | None = None
    """The number of warps per scheduler that was found and decided upon."""

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return what a warp of an SM may do now."""
        return Permit.ALLOCATE

    # What else happens. The active warps of an SM are those that have not ended and do not wait at a barrier.

    def began(self, sm: int, warp: Warp) -> None:
        """Take note that a warp that has an instruction begins (E3)."""

    def evicted(self, sm: int, way: Way) -> None:
        """Take note that a valid line of an L1 is replaced by another one (S1, S3)."""

    def served(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Take note of a load that was served on an SM with so many active warps (S3), its eviction being done.

        `absent` tells whether it did not find its line.
        """

    def before_issue(self, sm: int, active: Sequence[Warp]) -> None:
        """Take note that the active warps of an SM are to be asked for instructions (before S4)."""

    def ended(self, sm: int, warp: Warp) -> None:
        """Take note that a warp has ended (E2)."""

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Take note of the end of cycle `now` (E0), with the counters of all SMs."""


class StaticLimit(Throttle):
    """``swl``: the oldest warps of a scheduler may."""

    def __init__(self, policy: SWL) -> None:
        assert not isinstance(policy.warps, str)
        self._warps = policy.warps

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return what a warp of an SM may do now."""
        return Permit.ALLOCATE if rank < self._warps else Permit.WAIT


class Tokens(Throttle):
    """``pcal``: the oldest warps may, the next ones must not allocate."""

    def __init__(self, policy: PCAL) -> None:
        assert not isinstance(policy.tokens, str)
        self._tokens, self._extra = policy.tokens, policy.extra

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return what a warp of an SM may do now."""
        if rank < self._tokens:
            return Permit.ALLOCATE
        return Permit.PASS if rank < self._tokens + self._extra else Permit.WAIT


class CoresSampling(Throttle):
    """``dwt-cs`` on so many SMs whose schedulers have `most_warps` warps at most: watches, samples and decides."""

    def __init__(self, policy: DWTCS, sms: int, most_warps: int) -> None:
        self._policy = policy
        self._most_warps = most_warps
        self._limits: list[int | None] = [None] * sms
        self._streak = 0
        self._round: int | None = None  # None: not sampling
        self._periods_left = 0
        self._executed = [0] * sms  # while sampling
        # What the counters stood at when the period began.
        self._misses = 0
        self._instructions = [0] * sms

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return what a warp of an SM may do now."""
        limit = self._limits[sm]
        return Permit.ALLOCATE if limit is None or rank < limit else Permit.WAIT

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """At the end of a period, watch or sample."""
        if self.limit is not None or (now + 1) % self._policy.period:
            return
        misses = sum(counts[cause] for counts in sms for cause in ("compulsory", "capacity", "associativity"))
        instructions = [counts["thread_instructions"] for counts in sms]
        executed = [after - before for before, after in zip(self._instructions, instructions, strict=True)]
        missed = misses - self._misses
        self._misses, self._instructions = misses, instructions
        if self._round is None:
            self._watch(missed, sum(executed))
        else:
            self._sample(self._round, executed)

    def _watch(self, misses: int, instructions: int) -> None:
        thrashing = instructions > 0 and 1000 * misses / instructions > self._policy.mpki
        self._streak = self._streak + 1 if thrashing else 0
        if self._streak < self._policy.confirm:
            return
        if self._policy.limit is None:
            self._begin_round(0)
        else:
            self._decide(self._policy.limit)

    def _sample(self, round_: int, executed: list[int]) -> None:
        self._executed = [so_far + now for so_far, now in zip(self._executed, executed, strict=True)]
        self._periods_left -= 1
        if self._periods_left:
            return
        sms = len(executed)
        winner = self._executed.index(max(self._executed))
        if winner == sms - 1 and round_ == 0 and sms < self._most_warps:
            self._begin_round(1)
        else:
            self._decide(round_ * sms + winner + 1)

    def _begin_round(self, round_: int) -> None:
        """Let every SM try a limit of its own; in the second round, those beyond the number of SMs."""
        self._round = round_
        self._periods_left = self._policy.sample
        sms = len(self._limits)
        self._executed = [0] * sms
        self._limits = [min(round_ * sms + sm + 1, self._most_warps) for sm in range(sms)]

    def _decide(self, limit: int) -> None:
        self.limit = min(limit, self._most_warps)
        self._limits = [self.limit] * len(self._limits)
