"""Map the simulated machine to the options of the model that describe it."""

from __future__ import annotations

from typing import Any

from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.model.options import STORES_IN_PLACE, Sched

NEAREST_SCHED: dict[CoreSched, Sched] = {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest"}
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
