"""Name the cache operators of loads: the caches that a load may use, and how long a line should stay in them.

An operator is a number from 0 to 31, the value of `rdmodel.trace.Columns.cache_op`: a `CacheOp`, plus `READ_ONLY` for a
read-only load (``ld.global.nc``). Its name joins the parts with dots: ``cg``, ``nc``, ``nc.no_allocate``.
"""

from __future__ import annotations

from enum import IntEnum

from rdmodel.errors import TraceError


class CacheOp(IntEnum):
    """The operators of loads, without ``.nc``; the names are those of PTX."""

    NONE = 0
    """No operator."""
    CA = 1
    """``.ca``: cache at all levels."""
    CG = 2
    """``.cg``: cache in the L2, not in the L1."""
    CS = 3
    """``.cs``: cache, likely accessed once."""
    LU = 4
    """``.lu``: cache, last use."""
    CV = 5
    """``.cv``: fetch again, do not cache."""
    VOLATILE = 6
    """``ld.volatile``, and the loads of a memory order in which other SMs take part (``ld.relaxed.gpu``)."""
    NO_ALLOCATE = 7
    """``L1::no_allocate``."""
    EVICT_FIRST = 8
    """``L1::evict_first``: a hint, which is recorded and has no effect."""
    EVICT_LAST = 9
    """``L1::evict_last``: a hint, too."""
    ASYNC_CA = 10
    """``cp.async.ca``: a copy to shared memory through the L1."""
    ASYNC_CG = 11
    """``cp.async.cg``: a copy to shared memory past the L1."""
    BULK = 12
    """A bulk copy: ``cp.async.bulk``, and tensor copies."""
    TEX = 13
    """A read of a texture or of a surface (``tex``, ``tld4``, ``suld``)."""


READ_ONLY = 16
"""Added to an operator: the load is read-only (``ld.global.nc``)."""

CACHE_OPS = 32
"""Numbers that an operator may have; some of them are no operator."""

PAST_L1 = frozenset({CacheOp.CG, CacheOp.CV, CacheOp.VOLATILE, CacheOp.NO_ALLOCATE, CacheOp.ASYNC_CG, CacheOp.BULK})
"""Operators of loads that do not look into the L1, with or without `READ_ONLY`."""

_READ_ONLY_OPS = ("NONE", "CA", "CG", "CS", "NO_ALLOCATE", "EVICT_FIRST", "EVICT_LAST")
"""Operators that a read-only load may have."""

_NAMES = {op.name.lower(): int(op) for op in CacheOp if op != CacheOp.NONE and not op.name.startswith("ASYNC")}
_NAMES |= {"async.ca": int(CacheOp.ASYNC_CA), "async.cg": int(CacheOp.ASYNC_CG), "nc": READ_ONLY}
_NAMES |= {f"nc.{name.lower()}": READ_ONLY | CacheOp[name] for name in _READ_ONLY_OPS if name != "NONE"}

CACHE_OP_NAMES = {number: name for name, number in _NAMES.items()}
"""The names of all operators, by number; a load without operator has the number 0."""

VALID_CACHE_OPS = tuple(number == 0 or number in CACHE_OP_NAMES for number in range(CACHE_OPS))
"""Whether each number is an operator."""


def parse_cache_op(name: str | None) -> int:
    """Return the number of an operator; None: 0. Raises `TraceError` for any other value than one of the names."""
    if name is None:
        return 0
    if not isinstance(name, str) or name not in _NAMES:
        raise TraceError(f"cache={name!r:.60}: must be one of {', '.join(_NAMES)}")
    return _NAMES[name]
