"""Choose the classes of the reference machine that implement the given policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rdmodel.gpu.config import CacheConfig
from rdmodel.policies import (
    ABYP,
    APCM,
    CCA,
    CCWS,
    DAWS,
    DWTCS,
    DYNCTA,
    MRPB,
    OWL,
    PCAL,
    PD,
    PDP,
    SWL,
    BypassAll,
    BypassOnStall,
    GCache,
    LatencyLimit,
    LazyCTA,
    Policy,
    StreamingBypass,
    policy_of_kind,
)
from rdmodel.policies.base import Kind
from rdmodel.reference.machine.abyp import LoadCounters
from rdmodel.reference.machine.admission import Admission, BypassAllLoads, DistanceProtection, StreamingAdmission
from rdmodel.reference.machine.apcm import AccessPatterns
from rdmodel.reference.machine.cca import AdaptiveGroups
from rdmodel.reference.machine.ccws import LostLocalityThrottle
from rdmodel.reference.machine.daws import FootprintThrottle
from rdmodel.reference.machine.dyncta import WaitingBlocks
from rdmodel.reference.machine.g_cache import HotLines, VictimBits
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.l1 import L1, L1Failure
from rdmodel.reference.machine.l2 import Slice
from rdmodel.reference.machine.latency_limit import LatencyWarpLimit
from rdmodel.reference.machine.lazy_cta import LazyBlocks
from rdmodel.reference.machine.owl import GroupPriority
from rdmodel.reference.machine.pdp import SampledDistanceProtection
from rdmodel.reference.machine.plugin import Plugin, PluginAdmission, PluginThrottle, SmPlugins
from rdmodel.reference.machine.throttling import SamplingThrottle, StaticWarpLimit, Throttle, TokenThrottle

STALL_FAILURES: dict[str, frozenset[L1Failure]] = {
    "associativity": frozenset({"fail_line_alloc"}),
    "all": frozenset({"fail_line_alloc", "fail_mshr_entry", "fail_mshr_merge", "fail_miss_queue"}),
}
"""Failures of an L1 access that each kind of stall in a policy's parameters stands for."""


class Shape(NamedTuple):
    """Numbers of a machine: SMs, warps that a scheduler can have, block slots of an SM, their warps; and its L1s."""

    sms: int
    max_warps: int
    slots: int
    block_warps: int
    l1: CacheConfig


THROTTLES: dict[type[Policy], Callable[[Any, Shape], Throttle]] = {
    SWL: lambda policy, shape: StaticWarpLimit(policy),
    PCAL: lambda policy, shape: TokenThrottle(policy),
    DWTCS: lambda policy, shape: SamplingThrottle(policy, shape.sms, shape.max_warps),
    CCWS: lambda policy, shape: LostLocalityThrottle(policy, shape.sms),
    DAWS: lambda policy, shape: FootprintThrottle(policy, shape.sms, shape.l1),
    CCA: lambda policy, shape: AdaptiveGroups(policy, shape.sms, shape.max_warps),
    DYNCTA: lambda policy, shape: WaitingBlocks(policy, shape.sms, shape.slots),
    LatencyLimit: lambda policy, shape: LatencyWarpLimit(policy, shape.sms, shape.max_warps),
    LazyCTA: lambda policy, shape: LazyBlocks(policy, shape.sms, shape.slots),
    OWL: lambda policy, shape: GroupPriority(policy, shape.slots, shape.block_warps),
}
"""For each throttling policy, a function that makes its `Throttle`, from the policy and the shape of the machine."""


def make_throttle(policies: Sequence[Policy], shape: Shape, plugins: Sequence[Plugin]) -> Throttle:
    """Return the throttle for `policies`, in a machine of some shape; the compiled ones of them are `plugins`."""
    policy = policy_of_kind(policies, "throttling")
    plugin = plugin_of_kind(plugins, "throttling")
    if plugin is not None:
        return PluginThrottle(plugin)
    return Throttle() if policy is None else THROTTLES[type(policy)](policy, shape)


def make_admission(
    l1: L1, policies: Sequence[Policy], plugins: Sequence[Plugin], on_sm: SmPlugins, *, allocate_on_miss: bool
) -> Admission:
    """Return the admission to `l1` for `policies`; the compiled ones of them are `plugins`, and `on_sm` on this SM."""
    stalls = _stall_failures(policies)
    plugin = plugin_of_kind(plugins, "admission")
    if plugin is not None:
        return PluginAdmission(l1, stalls, plugin, on_sm, allocate_on_miss=allocate_on_miss)
    policy = policy_of_kind(policies, "admission")
    if isinstance(policy, BypassAll):
        return BypassAllLoads(l1, stalls)
    if isinstance(policy, PD):
        return DistanceProtection(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
    if isinstance(policy, PDP):
        return SampledDistanceProtection(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
    if isinstance(policy, StreamingBypass) and policy.caches != "l2":
        return StreamingAdmission(l1, stalls, policy)
    if isinstance(policy, ABYP):
        return LoadCounters(l1, stalls, policy)
    if isinstance(policy, APCM):
        return AccessPatterns(l1, stalls, policy, allocate_on_miss=allocate_on_miss)
    if isinstance(policy, GCache):
        return HotLines(l1, stalls, policy)
    return Admission(l1, stalls)


def l1_config(l1: CacheConfig, policies: Sequence[Policy]) -> CacheConfig:
    """Return the L1 of an SM under `policies`: with ``g-cache``, lines get their ways at their fills."""
    return replace(l1, allocate="fill") if isinstance(policy_of_kind(policies, "admission"), GCache) else l1


def make_victim_bits(policies: Sequence[Policy], slices: Sequence[Slice]) -> list[VictimBits]:
    """Return the victim bits of the slices of the L2 under `policies`, or an empty list if no policy needs them."""
    policy = policy_of_kind(policies, "admission")
    return [VictimBits(policy, one) for one in slices] if isinstance(policy, GCache) else []


def plugin_of_kind(plugins: Sequence[Plugin], kind: Kind) -> Plugin | None:
    """Return the compiled policy of a kind, or None if there is none."""
    return next((plugin for plugin in plugins if plugin.kind == kind), None)


def make_slice_gate(policies: Sequence[Policy]) -> Gate | None:
    """Return the gate that closes a slice of the L2 under `policies`, or None if no policy does."""
    policy = policy_of_kind(policies, "admission")
    return Gate(policy) if isinstance(policy, StreamingBypass) and policy.caches != "l1" else None


def _stall_failures(policies: Sequence[Policy]) -> frozenset[L1Failure]:
    """Return the failures at which loads bypass the L1, of all policies together."""
    stalls: frozenset[L1Failure] = frozenset()
    for policy in policies:
        if isinstance(policy, BypassOnStall):
            stalls |= STALL_FAILURES[policy.on]
        elif isinstance(policy, MRPB) and policy.bypass is not None:
            stalls |= STALL_FAILURES[policy.bypass]
    return stalls
