"""Map the simulated machine to the options of the model that describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.gpu.latency import unloaded_latency
from rdmodel.model.options import STORES_IN_PLACE, Sched

LATENCY_SIGMA_STEPS = 10.0
"""Variation of the miss latency: without it, warps stay synchronised longer than in the simulator."""

NEAREST_SCHED: dict[CoreSched, Sched] = {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest", "gty": "gty"}
"""For each scheduler of the machine, the value of the model's `sched` that is most like it."""


def matching_options(gpu: GPU, sched: CoreSched | None = None) -> dict[str, Any]:
    """Return the options of `predict` that choose warps, stall and store as the simulated machine does.

    `sched` is the machine's scheduler (None: the GPU's).
    """
    return {
        "sched": NEAREST_SCHED[sched or gpu.core.sched],
        "schedulers": gpu.core.schedulers,
        "stall": "head",
        "stores": gpu.l1.stores if gpu.l1.stores in STORES_IN_PLACE else "evict",
    }


def complete_options(gpu: GPU, options: Mapping[str, Any]) -> dict[str, Any]:
    """Complete `options` of `predict` by those that describe an idle simulated machine (docs/machine.md).

    Options that are given take precedence. With the definition `paper` nothing is added.
    """
    if options.get("definition", "hardware") != "hardware":
        return dict(options)
    return {
        **matching_options(gpu),
        "gap": True,
        "lat_min": unloaded_latency(gpu),
        "sigma": LATENCY_SIGMA_STEPS,
        "hit_latency": gpu.core.hit_latency,
        **({"schedulers": 1} if options.get("sched") == "random" else {}),
        **options,
    }
