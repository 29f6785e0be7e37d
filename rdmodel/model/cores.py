"""Make the compiled core for a GPU and options, and choose how its trace treats stores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any, get_args

from rdmodel.gpu.config import GPU
from rdmodel.model import shared_l2
from rdmodel.model._core import Core
from rdmodel.model._hardware import HardwareCore
from rdmodel.model._listed import ListedCore
from rdmodel.model._paper import PaperCore
from rdmodel.model._scheduled import ScheduledCore
from rdmodel.model.options import STORES_IN_PLACE, Options, Sched
from rdmodel.trace.coalescing import DEFAULT_CHUNK_INSTRUCTIONS, DEFAULT_CHUNK_LINES, Chunk, StoreRule

SCHED_NAMES = get_args(Sched)
"""Warp choices; the place of a name is its code in `_sched.pxd`."""

STORE_CODES = {"free": 0, "step": 1, "evict": 2, "allocate": 0, "update": 3, "through": 4}
"""Values of the option `stores`, as codes of `_hardware.pyx`; with "allocate" the core sees no stores."""

USUAL_OPTIONS = {
    "divergence": True,
    "full_set": "stall",
    "step": "transaction",
    "stagger": 0,
    "first_touch_factor": 1.0,
}
"""Values of options that `ListedCore` and `ScheduledCore` have; `HardwareCore` has all."""

LISTED = ("random", "fifo")
"""Warp choices by the order in which warps became ready; the others choose by slots."""

LISTED_OPTIONS = {"schedulers": 1, "stall": "park", "gap": False}
"""Values of options that `ListedCore` has; `ScheduledCore` has all of these."""

MAX_FAST_WARPS = 64
"""Warps that a `FastCore` can run at a time."""

MAX_FAST_LINES = 1 << 16
"""Lines of an L1 for a `FastCore`: it makes the ways of all sets at the start, about 200 bytes each."""

MAX_FAST_LATENCY = 4095
"""Steps below which all latencies must lie for a `FastCore`."""

ROWS_WITH_ROOM = 128
"""Instructions for whose lines a chunk has room at least: a single one may have more than a hundred."""


def make_core(gpu: GPU, options: Options, slots: int, block_warps: int, track: bool, bypasses: bool = False) -> Core:
    """Return the core of one SM, as `core_maker` describes it."""
    return core_maker(gpu, options, slots, block_warps, track, bypasses)()


def core_maker(
    gpu: GPU, options: Options, slots: int, block_warps: int, track: bool, bypasses: bool = False
) -> Callable[[], Core]:
    """Return a function that makes cores of SMs that run up to `slots` blocks of `block_warps` warps at a time.

    With `track` they count reuse distances. `bypasses`: there may be loads that do not look into the L1. `options` must
    be resolved.
    """
    l1 = gpu.l1

    def limit(value: int | None) -> int:
        return -1 if value is None else value

    assert options.lat_min is not None and options.hit_latency is not None and options.stores is not None
    common: dict[str, Any] = {
        "sets": l1.sets,
        "ways": l1.ways,
        "pool": l1.pool,
        "pools": l1.pools,
        "protected": l1.protected,
        "index": l1.index_code(),
        "mshrs": limit(l1.mshrs),
        "mshr_merge": limit(l1.mshr_merge),
        "mshr_per_warp": limit(l1.mshr_per_warp),
        "slots": slots,
        "block_warps": block_warps,
        "waves": options.cta == "waves",
        "lat_min": options.lat_min,
        "hit_latency": options.hit_latency,
        "divergence": options.divergence,
        "track": track,
        "sectored": is_sectored(gpu, options),
        "log_full": shared_l2.MAX_LOGGED_REQUESTS if options.l2 else 0,
    }
    if options.definition == "paper":
        return partial(PaperCore, before=options.effects == "before", clip=options.clip, **common)
    if runs_fast(gpu, options, slots * block_warps, bypasses):
        common |= {
            "in_place": options.stores in STORES_IN_PLACE,
            "through": options.stores == "through",
            "sectors": l1.sectors,
            "tags": l1.tags_per_step,
            "longest": _longest_latency(options),
        }
        if options.sched in LISTED:
            return partial(ListedCore, draws_warps=options.sched == "random", **common)
        return partial(
            ScheduledCore,
            sched=SCHED_NAMES.index(options.sched),
            schedulers=options.schedulers,
            head=options.stall == "head",
            gaps=options.gap,
            evicts=options.stores == "evict",
            **common,
        )
    return partial(
        HardwareCore,
        sched=SCHED_NAMES.index(options.sched),
        schedulers=options.schedulers,
        stores=STORE_CODES[options.stores],
        stagger=options.stagger,
        head=options.stall == "head",
        bypass=options.full_set == "bypass",
        whole=options.step == "instruction",
        tags=l1.tags_per_step,
        gaps=options.gap,
        first_touch_factor=float(options.first_touch_factor),
        **common,
    )


def runs_fast(gpu: GPU, options: Options, warps: int, bypasses: bool) -> bool:
    """Return whether a `FastCore` runs an SM of `warps` warps; `bypasses` is that of `core_maker`."""
    l1 = gpu.l1
    assert options.lat_min is not None and options.hit_latency is not None
    listed = options.sched in LISTED
    usual = USUAL_OPTIONS | (LISTED_OPTIONS if listed else {})
    return (
        not bypasses
        and options.definition == "hardware"
        and all(getattr(options, name) == value for name, value in usual.items())
        and options.stores in ("free", "allocate", *STORES_IN_PLACE, *(() if listed else ("evict",)))
        and l1.mshr_per_warp is None
        and l1.tags_per_step <= 4
        and warps <= MAX_FAST_WARPS
        and l1.sets * l1.ways <= MAX_FAST_LINES
        and options.lat_min >= 1
        and max(_longest_latency(options), options.hit_latency) < MAX_FAST_LATENCY
    )


def _longest_latency(options: Options) -> int:
    """Return a latency that no miss exceeds: NumPy draws no normal number above 13.8."""
    assert options.lat_min is not None and options.sigma is not None
    return options.lat_min + ceil(14 * options.sigma) + 1


def is_sectored(gpu: GPU, options: Options) -> bool:
    """Return whether the core keeps masks of sectors: for lines that have several, and for stores in place."""
    return gpu.l1.sectors > 1 or options.stores in STORES_IN_PLACE


def obeys_barriers(options: Options) -> bool:
    """Return whether warps wait for each other at barriers: where they wait for data, in the definition `hardware`."""
    return options.definition == "hardware" and options.divergence


def make_chunk(
    gpu: GPU,
    options: Options,
    instructions: int = DEFAULT_CHUNK_INSTRUCTIONS,
    *,
    barriers: bool = False,
    pcs: bool = False,
) -> Chunk:
    """Return the buffer in which the core of `make_core` receives up to `instructions` at a time.

    `barriers` and `pcs` are those of `Chunk`.
    """
    lines = DEFAULT_CHUNK_LINES // DEFAULT_CHUNK_INSTRUCTIONS * max(instructions, ROWS_WITH_ROOM)
    if not is_sectored(gpu, options):
        return Chunk(instructions, lines, barriers=barriers, pcs=pcs)
    full = options.l2 or options.stores in STORES_IN_PLACE
    return Chunk(instructions, lines, sector=gpu.l1.sector_bytes, full=full, barriers=barriers, pcs=pcs)


def store_rule(options: Options) -> StoreRule:
    """Return the form in which the model receives stores under the given options."""
    if options.stores == "allocate":
        return StoreRule.AS_LOAD
    if options.l2 or options.stores in ("evict", *STORES_IN_PLACE):
        return StoreRule.LINES
    return StoreRule.DROP if options.definition == "paper" else StoreRule.KEEP
