"""Build the compiled machine for a GPU and options: every field becomes a number, None (unlimited) becomes -1."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.gpu.l2_layout import l2_layout
from rdmodel.policies.registry import machine_settings
from rdmodel.simulator._engine import Machine
from rdmodel.simulator.options import SimulationOptions, has_sector_masks, packet_bytes
from rdmodel.trace import WARP

MAX_WARPS_PER_SCHEDULER = 64
"""The compiled machine keeps the warps of a scheduler as bits of one 64-bit mask."""

MAX_ACCESS_BYTES = 16
"""The widest access of a lane. With the line size it bounds the lines of a warp instruction."""

UNLIMITED_NUMBER = -1
"""The number that stands for None in the compiled machine."""


def make_machine(
    gpu: GPU, options: SimulationOptions, slots: int, block_warps: int, *, bypasses: bool, log: bool = False
) -> Machine:
    """Return the compiled machine for resolved `options`, with `slots` resident blocks per SM.

    `bypasses`: there may be loads that do not look into the L1.

    Raises `ConfigError` if a scheduler would have more than `MAX_WARPS_PER_SCHEDULER` warps.
    """
    if -(-slots * block_warps // gpu.core.schedulers) > MAX_WARPS_PER_SCHEDULER:
        raise ConfigError(
            f"core.schedulers={gpu.core.schedulers}: {slots * block_warps} resident warps exceed the limit of "
            f"{MAX_WARPS_PER_SCHEDULER} per scheduler"
        )
    l1 = _field_numbers(
        gpu.l1, "index", "allocate", "stores", "unified", "carveouts", "carveout", "caches", "dlcm", "sector"
    )
    l2 = _field_numbers(gpu.l2, "index", "sector", "fetch")
    return Machine(
        sms=options.sms,
        slots=slots,
        block_warps=block_warps,
        max_lines=WARP * (MAX_ACCESS_BYTES // gpu.l1.line + 2),
        core={**_core_numbers(gpu), "sched": get_args(CoreSched).index(options.sched)},
        l1={**l1, **_l1_numbers(gpu), "may_bypass": bypasses},
        index=gpu.l1.index_code(),
        crossbar={**_field_numbers(gpu.crossbar, "packets"), "packet_bytes": packet_bytes(gpu)},
        l2={**l2, **_l2_numbers(gpu)},
        dram=_field_numbers(gpu.dram),
        clock=gpu.clock,
        ideal=UNLIMITED_NUMBER if options.memory is None else options.memory,
        log=log,
        policies=machine_settings(options.policies),
    )


def _core_numbers(gpu: GPU) -> dict[str, int]:
    numbers = _field_numbers(gpu.core, "sched", "first_scheduler")
    return {**numbers, "first_by_cycle": gpu.core.first_scheduler == "cycle"}


def _l1_numbers(gpu: GPU) -> dict[str, int]:
    return {
        "sets": gpu.l1.sets,
        "lines": gpu.l1.lines,
        "pool": gpu.l1.pool,
        "pools": gpu.l1.pools,
        "protected": gpu.l1.protected,
        "fill": gpu.l1.allocate == "fill",
        "sector_bits": (gpu.l1.sectors - 1).bit_length(),
        "stores_allocate": gpu.l1.stores == "through",
    }


def _l2_numbers(gpu: GPU) -> dict[str, Any]:
    layout = l2_layout(gpu)
    # Lines are linear in the absence of hash bits; with an odd number of units the hash is linear, too.
    return {
        "sets": gpu.l2.sets(gpu.l1.line),
        "sectored": has_sector_masks(gpu),
        "sector_bytes": gpu.l2_sector_bytes,
        "fetch_bytes": gpu.l2_fetch_bytes,
        "hash_bits": layout.bits if layout.hashed else 0,
        "hash_odd": layout.odd,
    }


def _field_numbers(part: Any, *without: str) -> dict[str, int]:
    """Return the fields of a part of the GPU as numbers."""
    fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.name not in without}
    return {name: UNLIMITED_NUMBER if value is None else value for name, value in fields.items()}
