"""Implement ``latency-limit`` in the reference machine: the warps that may load follow the latency of the crossbar."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.policies import LatencyLimit
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way


class Congestion:
    """The answers and loads of one SM in a period, and the limit on the warps of its schedulers."""

    def __init__(self, most_warps: int) -> None:
        self.limit = most_warps
        self.latencies: list[int] = []
        self.loads = self.loads_of_lost = 0
        self.lost: set[int] = set()
        """Lines that the L1 has lost to others since the start."""
        self.shortest: int | None = None
        self._most_warps = most_warps

    def adjust(self, policy: LatencyLimit) -> None:
        """Adjust the limit at the end of a period, and begin the next one."""
        if self.latencies:
            self.shortest = min(self.latencies) if self.shortest is None else min(self.shortest, *self.latencies)
            total, least = sum(self.latencies), self.shortest * len(self.latencies)
            if total > policy.high * least and self.loads_of_lost > policy.lost * self.loads:
                self.limit = max(self.limit - policy.step, 1)
            elif total < policy.low * least:
                self.limit = min(self.limit + policy.step, self._most_warps)
        self.latencies = []
        self.loads = self.loads_of_lost = 0


class LatencyWarpLimit(Throttle):
    """``latency-limit``: each of `sms` SMs limits the warps of its schedulers, of which they have `most_warps`."""

    def __init__(self, policy: LatencyLimit, sms: int, most_warps: int) -> None:
        self._policy = policy
        self._sms = [Congestion(most_warps) for _ in range(sms)]

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        return Permit.ALLOCATE if rank < self._sms[sm].limit else Permit.WAIT

    def on_answer(self, sm: int, latency: int) -> None:
        """Record the latency of an answer."""
        self._sms[sm].latencies.append(latency)

    def on_evict(self, sm: int, way: Way) -> None:
        """Record that the L1 loses a line."""
        self._sms[sm].lost.add(way.line)

    def on_load(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Count a load, and whether its line was absent because the L1 has lost it."""
        congestion = self._sms[sm]
        congestion.loads += 1
        # This load may have replaced a line, but not its own.
        congestion.loads_of_lost += absent and transaction.line in congestion.lost

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Adjust the limits at the end of a period."""
        if (now + 1) % self._policy.period == 0:
            for congestion in self._sms:
                congestion.adjust(self._policy)
