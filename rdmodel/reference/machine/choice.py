"""What the policies of a machine ask for: `throttle` and `admission` choose the classes that do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rdmodel.policies import (
    ABYP,
    APCM,
    CCWS,
    DWTCS,
    MRPB,
    PCAL,
    PD,
    SWL,
    BypassAll,
    BypassOnStall,
    Policy,
    StreamingBypass,
    policy_of_kind,
)
from rdmodel.reference.machine.abyp import LoadCounters
from rdmodel.reference.machine.admission import Admission, Closing, NoLoads, Protection
from rdmodel.reference.machine.apcm import AccessPatterns
from rdmodel.reference.machine.ccws import LostLocality
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.l1 import L1, Failure
from rdmodel.reference.machine.throttling import CoresSampling, StaticLimit, Throttle, Tokens

STALLS: dict[str, frozenset[Failure]] = {
    "associativity": frozenset({"fail_line_alloc"}),
    "all": frozenset({"fail_line_alloc", "fail_mshr_entry", "fail_mshr_merge", "fail_miss_queue"}),
}
"""The failures that each kind of stall consists of."""


THROTTLES: dict[type[Policy], Callable[[Any, int, int], Throttle]] = {
    SWL: lambda policy, sms, most_warps: StaticLimit(policy),
    PCAL: lambda policy, sms, most_warps: Tokens(policy),
    DWTCS: CoresSampling,
    CCWS: lambda policy, sms, most_warps: LostLocality(policy, sms),
}
"""What does as a policy says, for a machine of so many SMs, with so many warps per scheduler."""


def throttle(policies: Sequence[Policy], sms: int, most_warps: int) -> Throttle:
    """Return what throttles a machine of so many SMs, with `most_warps` warps per scheduler, under some policies."""
    policy = policy_of_kind(policies, "throttling")
    return Throttle() if policy is None else THROTTLES[type(policy)](policy, sms, most_warps)


def admission(l1: L1, policies: Sequence[Policy], *, allocate_on_miss: bool) -> Admission:
    """Return what decides about the loads of `l1` under some policies."""
    stalls = _stalls(policies)
    policy = policy_of_kind(policies, "admission")
    if isinstance(policy, BypassAll):
        return NoLoads(l1, stalls)
    if isinstance(policy, PD):
        return Protection(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
    if isinstance(policy, StreamingBypass) and policy.caches != "l2":
        return Closing(l1, stalls, policy)
    if isinstance(policy, ABYP):
        return LoadCounters(l1, stalls, policy)
    if isinstance(policy, APCM):
        return AccessPatterns(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
    return Admission(l1, stalls)


def slice_gate(policies: Sequence[Policy]) -> Gate | None:
    """Return what closes a slice of the L2 under some policies; None if nothing does."""
    policy = policy_of_kind(policies, "admission")
    return Gate(policy) if isinstance(policy, StreamingBypass) and policy.caches != "l1" else None


def _stalls(policies: Sequence[Policy]) -> frozenset[Failure]:
    stalls: frozenset[Failure] = frozenset()
    for policy in policies:
        if isinstance(policy, BypassOnStall):
            stalls |= STALLS[policy.on]
        elif isinstance(policy, MRPB) and policy.bypass is not None:
            stalls |= STALLS[policy.bypass]
    return stalls
