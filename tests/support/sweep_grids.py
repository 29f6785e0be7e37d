"""Provide two small kernels, two GPUs and a grid for sweeps."""

from __future__ import annotations

from typing import Any

import rdmodel as rd
import tracegen

ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
BICG = tracegen.kernel("bicg.1", NX=64, NY=64, block=(32, 1, 1))
BASE = rd.presets.gpu("gtx470-16k")
LINEAR = BASE.replace(l1=rd.CacheConfig(size=16384, ways=4, index=rd.policies.Linear()))
GRID: dict[str, Any] = {"ways": [1, 2, 4], "l1_size": ["8K", "16K"], "sched": ["random", "gto"]}
