"""Implement ``cca`` in the reference machine: SMs search for the warps that use the L1 and that load at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies import CCA
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp


@dataclass(frozen=True, slots=True)
class Groups:
    """Sizes of the groups of a scheduler: `loading` warps may load, and `cached` of these may bring lines."""

    loading: int
    cached: int

    def with_loading(self, loading: int) -> Groups:
        """Return the sizes with another number of loading warps."""
        return Groups(loading, min(self.cached, loading))

    def with_cached(self, cached: int) -> Groups:
        """Return the sizes with another number of cached warps."""
        return replace(self, cached=cached)


class Search:
    """The search of one SM for the best sizes, whose schedulers have at most `most` warps each."""

    def __init__(self, most: int, gain: float) -> None:
        self.groups = Groups(most, most)
        self._most = most
        self._gain = gain
        self._kept: Groups | None = None  # the sizes before the change on trial, if one is
        self._best = 0  # thread instructions in the last period of the kept sizes
        self._turn = "cached"
        self._falls = {"cached": True, "loading": True}

    def end_period(self, executed: int) -> None:
        """Judge the change on trial by the thread instructions of the period, and try another one."""
        if self._kept is not None and not executed > self._best * (1 + self._gain):
            self.groups, self._kept = self._kept, None
            self._falls[self._turn] = not self._falls[self._turn]
            self._turn = "loading" if self._turn == "cached" else "cached"
            return
        self._best, self._kept = executed, self.groups
        if self._turn == "cached":
            self.groups = self.groups.with_cached(self._next(self.groups.cached, 0, self.groups.loading))
        else:
            self.groups = self.groups.with_loading(self._next(self.groups.loading, 1, self._most))

    def _next(self, size: int, least: int, most: int) -> int:
        """Return half or twice a size; turn around at the ends of its range."""
        if size == (least if self._falls[self._turn] else most):
            self._falls[self._turn] = not self._falls[self._turn]
        return max(size // 2, least) if self._falls[self._turn] else min(max(2 * size, 1), most)


class AdaptiveGroups(Throttle):
    """``cca``: the oldest warps of a scheduler bring lines, the next ones only read, the others wait.

    Each of `sms` SMs searches for the sizes of these groups on its own.
    """

    def __init__(self, policy: CCA, sms: int, max_warps: int) -> None:
        self._period = policy.period
        self._searches = [Search(max_warps, policy.gain) for _ in range(sms)]
        self._executed = [0] * sms  # thread instructions at the beginning of the period

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        groups = self._searches[sm].groups
        if rank < groups.cached:
            return Permit.ALLOCATE
        return Permit.PASS if rank < groups.loading else Permit.WAIT

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Let every SM search on at the end of a period."""
        if (now + 1) % self._period:
            return
        for search, counts, before in zip(self._searches, sms, self._executed, strict=True):
            search.end_period(counts["thread_instructions"] - before)
        self._executed = [counts["thread_instructions"] for counts in sms]
