"""Make the compiled core for a GPU and options, and choose how its trace treats stores."""

from __future__ import annotations

from typing import Any, get_args

from rdmodel.gpu.config import GPU
from rdmodel.model import shared_l2
from rdmodel.model._model import Core, HardwareCore, PaperCore
from rdmodel.model.options import STORES_IN_PLACE, Options, Sched
from rdmodel.trace.coalescing import Chunk, StoreRule

SCHED_NAMES = get_args(Sched)
"""Warp choices; the place of a name is its code in `_sched.pxd`."""

STORE_CODES = {"free": 0, "step": 1, "evict": 2, "allocate": 0, "update": 3, "through": 4}
"""Values of the option `stores`, as codes of `_model.pyx`; with "allocate" the core sees no stores."""


def make_core(gpu: GPU, options: Options, slots: int, block_warps: int, track: bool) -> Core:
    """Return the core of one SM that runs up to `slots` blocks of `block_warps` warps at a time.

    With `track` it counts reuse distances. `options` must be resolved.
    """
    l1 = gpu.l1

    def limit(value: int | None) -> int:
        return -1 if value is None else value

    assert options.lat_min is not None and options.hit_latency is not None and options.stores is not None
    common: dict[str, Any] = {
        "sets": l1.sets,
        "ways": l1.ways,
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
        return PaperCore(before=options.effects == "before", clip=options.clip, **common)
    return HardwareCore(
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


def is_sectored(gpu: GPU, options: Options) -> bool:
    """Return whether the core keeps masks of sectors: for lines that have several, and for stores in place."""
    return gpu.l1.sectors > 1 or options.stores in STORES_IN_PLACE


def make_chunk(gpu: GPU, options: Options) -> Chunk:
    """Return the buffer in which the core of `make_core` receives instructions."""
    if not is_sectored(gpu, options):
        return Chunk()
    return Chunk(sector=gpu.l1.sector_bytes, full=options.l2 or options.stores in STORES_IN_PLACE)


def store_rule(options: Options) -> StoreRule:
    """Return the form in which the model receives stores under the given options."""
    if options.stores == "allocate":
        return StoreRule.AS_LOAD
    if options.l2 or options.stores in ("evict", *STORES_IN_PLACE):
        return StoreRule.LINES
    return StoreRule.DROP if options.definition == "paper" else StoreRule.KEEP
