"""From a GPU and policies to the compiled machine: everything becomes numbers here, and None (unlimited) -1."""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any, get_args

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, CoreSched
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
)
from rdmodel.simulator._engine import Machine
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import WARP

MOST_SCHEDULER_WARPS = 64
"""Warps of one scheduler: bits in a mask of the compiled machine."""


def make_machine(gpu: GPU, options: SimulationOptions, slots: int, block_warps: int, *, log: bool = False) -> Machine:
    """Return the compiled machine for resolved `options`, with `slots` resident blocks per SM.

    Raises `ConfigError` for more warps per scheduler than it has bits for.
    """
    if -(-slots * block_warps // gpu.core.schedulers) > MOST_SCHEDULER_WARPS:
        raise ConfigError(
            f"core.schedulers={gpu.core.schedulers}: {slots * block_warps} resident warps are more than "
            f"{MOST_SCHEDULER_WARPS} for each"
        )
    l1, l2 = _numbers(gpu.l1, "index", "allocate"), _numbers(gpu.l2)
    return Machine(
        sms=options.sms,
        slots=slots,
        block_warps=block_warps,
        most_lines=WARP * (16 // gpu.l1.line + 2),
        core={**_numbers(gpu.core, "sched"), "sched": get_args(CoreSched).index(options.sched)},
        l1={**l1, "sets": gpu.l1.sets, "fill": gpu.l1.allocate == "fill"},
        index=gpu.l1.index_code(),
        crossbar=_numbers(gpu.crossbar),
        l2={**l2, "sets": gpu.l2.sets(gpu.l1.line)},
        dram=_numbers(gpu.dram),
        clock=gpu.clock,
        ideal=-1 if options.memory is None else options.memory,
        log=log,
        policies=policy_numbers(options),
    )


NO_POLICIES: dict[str, float] = {
    "throttle": 0,
    "limit": -1,
    "tokens": 0,
    "sampling_period": -1,
    "closing_period": -1,
    "closing_slices": 0,
    "confirm": 0,
    "sample": 0,
    "mpki": 0.0,
    "admission": 0,
    "on_stall": 0,
    "threshold": 0.0,
    "distance": 0,
    "counters": 0,
    "most_unused": 0,
    "unused_threshold": 0,
    "loads": 0,
    "tags": 0,
    "most_accesses": 0,
    "bypassing": 0,
    "protecting": 0,
    "score_base": 0,
    "score_throttle": 0,
    "victims": 0,
    "victim_ways": 0,
    "buffered": 0,
    "signature": 0,
    "drain": 0,
    "greedy": 0,
    "flush": 0,
    "entries": -1,
    "latency": 0,
}
"""What the compiled machine is told when there are no policies; its enumerations are in _engine.pyx."""

ON_STALL = (None, "associativity", "all")
SIGNATURES = ("warp", "block", "warp-in-block")
DRAINS = ("fixed", "round-robin", "longest")


def policy_numbers(options: SimulationOptions) -> dict[str, float]:
    """Return the policies of `options` as the numbers that the compiled machine reads."""
    numbers = dict(NO_POLICIES)
    for policy in options.policies:
        # The stalls of two policies at which loads bypass come together; nothing else is said twice.
        on_stall = numbers["on_stall"]
        numbers |= numbers_of(policy)
        numbers["on_stall"] = max(on_stall, numbers["on_stall"])
    return numbers


@singledispatch
def numbers_of(policy: Policy) -> dict[str, float]:
    """Return what one policy changes in `NO_POLICIES`; ``numbers_of.register`` adds a type of policy."""
    raise ConfigError(f"policy {policy.name!r}: the compiled machine does not know it")


@numbers_of.register
def _(policy: SWL) -> dict[str, float]:
    return {"throttle": 1, "limit": int(policy.warps)}


@numbers_of.register
def _(policy: PCAL) -> dict[str, float]:
    return {"throttle": 2, "tokens": policy.tokens, "limit": policy.tokens + policy.extra}


@numbers_of.register
def _(policy: DWTCS) -> dict[str, float]:
    limit = -1 if policy.limit is None else policy.limit
    numbers = {"confirm": policy.confirm, "sample": policy.sample, "mpki": float(policy.mpki)}
    return {"throttle": 3, "limit": limit, "sampling_period": policy.period, **numbers}


@numbers_of.register
def _(policy: CCWS) -> dict[str, float]:
    numbers = {"score_base": policy.base, "score_throttle": policy.throttle}
    return {"throttle": 4, "victims": policy.entries, "victim_ways": policy.ways, **numbers}


@numbers_of.register
def _(policy: BypassAll) -> dict[str, float]:
    return {"admission": 1}


@numbers_of.register
def _(policy: StreamingBypass) -> dict[str, float]:
    return {
        "admission": 0 if policy.caches == "l2" else 2,
        "closing_slices": int(policy.caches != "l1"),
        "closing_period": policy.period,
        "threshold": float(policy.threshold),
    }


@numbers_of.register
def _(policy: PD) -> dict[str, float]:
    return {"admission": 3, "distance": policy.distance}


@numbers_of.register
def _(policy: ABYP) -> dict[str, float]:
    numbers = {"most_unused": policy.most, "unused_threshold": policy.threshold}
    return {"admission": 4, "counters": policy.entries, **numbers}


@numbers_of.register
def _(policy: APCM) -> dict[str, float]:
    numbers = {"loads": policy.loads, "tags": policy.tags, "most_accesses": policy.most}
    modes = {"bypassing": int(policy.mode != "protect"), "protecting": int(policy.mode != "bypass")}
    return {"admission": 5, **numbers, **modes}


@numbers_of.register
def _(policy: BypassOnStall) -> dict[str, float]:
    return {"on_stall": ON_STALL.index(policy.on)}


@numbers_of.register
def _(policy: MRPB) -> dict[str, float]:
    return {
        "buffered": 1,
        "signature": SIGNATURES.index(policy.signature),
        "drain": DRAINS.index(policy.drain.removeprefix("greedy-")),
        "greedy": int(policy.drain.startswith("greedy-")),
        "flush": int(policy.flush),
        "entries": -1 if policy.entries is None else policy.entries,
        "latency": policy.latency,
        "on_stall": ON_STALL.index(policy.bypass),
    }


def _numbers(part: Any, *without: str) -> dict[str, int]:
    """Return the fields of a part of the GPU, None (unlimited) as -1."""
    fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.name not in without}
    return {name: -1 if value is None else value for name, value in fields.items()}
