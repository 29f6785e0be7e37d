"""Decide which warps of the reference machine may issue loads.

The *rank* of a warp is its position by age among the active warps of its scheduler. A warp is active if it has not
ended and does not wait at a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from rdmodel.policies import DWTCS, PCAL, SWL
from rdmodel.reference.machine.gate import thrashes
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.warps import Scheduler, Warp
from rdmodel.reference.machine.ways import Way


class Permit(Enum):
    """Permission of a warp: to issue loads; to issue loads that allocate no lines; or to issue no loads."""

    ALLOCATE = "allocate"
    PASS = "pass"
    WAIT = "wait"


class Throttle:
    """Permit loads to every warp.

    Policies derive from this class. The ``on_...`` methods report events to them, and do nothing here.
    """

    limit: int | None = None
    """Number of warps per scheduler that the policy decided upon, if it did."""

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        return Permit.ALLOCATE

    def takes_block(self, sm: int, resident: int) -> bool:
        """Return whether a free slot of an SM with `resident` blocks may get a block (E3)."""
        return True

    def choose(self, sm: int, scheduler: Scheduler, issuable: list[Warp]) -> Warp:
        """Return the warp of a scheduler that issues, one of `issuable`, which is not empty; the scheduler keeps it."""
        return scheduler.choose(issuable)

    # Events, for policies that keep a history.

    def on_warp_begin(self, sm: int, warp: Warp) -> None:
        """Handle the start of a warp that has an instruction (E3)."""

    def on_evict(self, sm: int, way: Way) -> None:
        """Handle the replacement of a valid line in an L1 (S1, S3)."""

    def on_load(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Handle the service of a load on an SM with `active` active warps (S3), after its eviction.

        `absent` says whether its line was neither valid nor in flight.
        """

    def on_answer(self, sm: int, latency: int) -> None:
        """Handle an answer to a read that an SM takes (S1), so many cycles after it was sent."""

    def on_block_begin(self, sm: int, block: int) -> None:
        """Handle the start of a block, of that number in the grid (E3)."""

    def on_block_end(self, sm: int, block: int) -> None:
        """Handle the end of a block (E2, E3)."""

    def before_issue(self, sm: int, active: Sequence[Warp]) -> None:
        """Handle the start of phase S4, with the active warps of an SM."""

    def on_issue(self, sm: int, warp: Warp) -> None:
        """Handle the issue of an instruction of a warp (S4)."""

    def after_issue(self, sm: int, now: int, active: Sequence[Warp], *, issued: bool) -> None:
        """Handle the end of phase S4 of cycle `now`; `issued` says whether a warp of the SM issued in it."""

    def on_warp_end(self, sm: int, warp: Warp) -> None:
        """Handle the end of a warp (E2)."""

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Handle the end of cycle `now`, before phase E1, with the counters of all SMs."""


class StaticWarpLimit(Throttle):
    """``swl``: only the oldest warps of a scheduler may issue loads."""

    def __init__(self, policy: SWL) -> None:
        assert not isinstance(policy.warps, str)
        self._warps = policy.warps

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        return Permit.ALLOCATE if rank < self._warps else Permit.WAIT


class TokenThrottle(Throttle):
    """``pcal``: the oldest warps may allocate lines, the next ones may only load."""

    def __init__(self, policy: PCAL) -> None:
        assert not isinstance(policy.tokens, str)
        self._tokens, self._extra = policy.tokens, policy.extra

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        if rank < self._tokens:
            return Permit.ALLOCATE
        return Permit.PASS if rank < self._tokens + self._extra else Permit.WAIT


class SamplingThrottle(Throttle):
    """``dwt-cs``: watch for thrashing, let every SM try another limit, then decide on one.

    There are `sms` SMs, whose schedulers have at most `max_warps` warps each.
    """

    def __init__(self, policy: DWTCS, sms: int, max_warps: int) -> None:
        self._policy = policy
        self._max_warps = max_warps
        self._limits: list[int | None] = [None] * sms
        self._streak = 0
        self._stage: int | None = None  # None: not sampling
        self._periods_left = 0
        self._executed = [0] * sms  # thread instructions of each SM in this stage
        # Values of the counters at the beginning of the period.
        self._misses = 0
        self._instructions = [0] * sms

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        limit = self._limits[sm]
        return Permit.ALLOCATE if limit is None or rank < limit else Permit.WAIT

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Watch or sample at the end of a period."""
        if self.limit is not None or (now + 1) % self._policy.period:
            return
        misses = sum(counts[cause] for counts in sms for cause in ("compulsory", "capacity", "associativity"))
        instructions = [counts["thread_instructions"] for counts in sms]
        executed = [after - before for before, after in zip(self._instructions, instructions, strict=True)]
        missed = misses - self._misses
        self._misses, self._instructions = misses, instructions
        if self._stage is None:
            self._watch(missed, sum(executed))
        else:
            self._sample(self._stage, executed)

    def _watch(self, misses: int, instructions: int) -> None:
        self._streak = self._streak + 1 if thrashes(misses, instructions, self._policy.mpki) else 0
        if self._streak < self._policy.confirm:
            return
        if self._policy.limit is None:
            self._begin_stage(0)
        else:
            self._decide(self._policy.limit)

    def _sample(self, stage: int, executed: list[int]) -> None:
        self._executed = [so_far + now for so_far, now in zip(self._executed, executed, strict=True)]
        self._periods_left -= 1
        if self._periods_left:
            return
        sms = len(executed)
        winner = self._executed.index(max(self._executed))
        if winner == sms - 1 and stage == 0 and sms < self._max_warps:
            self._begin_stage(1)
        else:
            self._decide(stage * sms + winner + 1)

    def _begin_stage(self, stage: int) -> None:
        """Let every SM try another limit: those up to the number of SMs in stage 0, the next ones in stage 1."""
        self._stage = stage
        self._periods_left = self._policy.sample
        sms = len(self._limits)
        self._executed = [0] * sms
        self._limits = [min(stage * sms + sm + 1, self._max_warps) for sm in range(sms)]

    def _decide(self, limit: int) -> None:
        self.limit = min(limit, self._max_warps)
        self._limits = [self.limit] * len(self._limits)
