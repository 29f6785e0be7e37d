"""Decide if a load looks into the L1, by their memory space and their cache operator (docs/model.md section 15)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rdmodel.gpu.cache import ALL_LOADS, CacheConfig, Load
from rdmodel.trace import Space, Trace
from rdmodel.trace.cache_ops import CACHE_OPS, PAST_L1, READ_ONLY, CacheOp

_CACHED_EVERYWHERE = (CacheOp.CA, CacheOp.ASYNC_CA)
"""Operators with which a load of global memory looks into every L1."""


def serves_all_loads(l1: CacheConfig) -> bool:
    """Return whether the L1 serves every load that has no cache operator."""
    return l1.caches == ALL_LOADS and l1.dlcm in (None, "ca", "cs")


def bypasses_l1(l1: CacheConfig, trace: Trace) -> bool:
    """Return whether a load of the trace may not look into the L1."""
    return not serves_all_loads(l1) or trace.may_have_cache_ops


def serves_textures(l1: CacheConfig) -> bool:
    """Return whether the L1 is also the texture cache, as since Maxwell, whose L1s have sectors."""
    return "nc" in l1.caches and l1.sector_bytes < l1.line


def looks_into_l1(l1: CacheConfig, space: int, cache_op: int) -> bool:
    """Return whether a load with a cache operator looks into the L1."""
    operator, kind = cache_op & ~READ_ONLY, _kind(space, cache_op)
    if kind == "global" and operator == CacheOp.NONE and l1.dlcm is not None:
        operator = CacheOp[l1.dlcm.upper()]
    if operator == CacheOp.TEX:
        return serves_textures(l1)
    if operator in PAST_L1:
        return False
    return kind in l1.caches or (kind == "global" and operator in _CACHED_EVERYWHERE)


def bypass_table(l1: CacheConfig) -> NDArray[np.uint8]:
    """Return 1 for loads that do not look into the L1, 0 for others, at ``space * CACHE_OPS + cache_op``."""
    loads = [(space, cache_op) for space in Space for cache_op in range(CACHE_OPS)]
    return np.array([not looks_into_l1(l1, *load) for load in loads], np.uint8)


def _kind(space: int, cache_op: int) -> Load:
    if space == Space.LOCAL:
        return "local"
    return "nc" if cache_op & READ_ONLY else "global"
