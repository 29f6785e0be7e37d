"""Map the simulated machine to the options of the model that describe it."""

from __future__ import annotations

from typing import Any

from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.model.options import Sched

SCHEDULERS: dict[CoreSched, Sched] = {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest"}
"""The model's warp choice that comes nearest to each of the machine's schedulers."""


def matching_options(gpu: GPU, sched: CoreSched | None = None) -> dict[str, Any]:
    """Return the options of `predict` that choose among warps, stall and store as the machine does.

    `sched` is the machine's scheduler (None: the GPU's).
    """
    return {
        "sched": SCHEDULERS[sched or gpu.core.sched],
        "schedulers": gpu.core.schedulers,
        "stall": "head",
        "stores": "evict",
    }
