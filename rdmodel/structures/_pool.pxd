# The data of an L1 whose ways are tags alone (docs/gpus.md): each pool has the lines of as many consecutive sets. When
# all its data are in use, a line of the set whose turn it is has to leave, and the turn passes to the set behind it.
from libc.stdint cimport int64_t

cdef enum:
    MAX_POOLS = 16


cdef struct Pool:
    int64_t lines             # of one pool; 0: each way has data of its own, and the rest means nothing
    int64_t sets              # of one pool: a power of two
    int64_t[MAX_POOLS] used   # lines that have data
    int64_t[MAX_POOLS] turn   # the set, counted from the first of the pool


cdef inline void pool_init(Pool* p, int64_t lines, int64_t pools, int64_t sets) noexcept nogil:
    # `lines` and `sets` are those of all pools.
    cdef int64_t i
    p.lines = lines // pools
    p.sets = sets // pools
    for i in range(MAX_POOLS):
        p.used[i] = p.turn[i] = 0


cdef inline int64_t pool_of(const Pool* p, int64_t set) noexcept nogil:
    return set // p.sets if p.lines else 0


cdef inline int64_t pool_set(const Pool* p, int64_t pool, int64_t later) noexcept nogil:
    # Return the set that is `later` sets behind the one whose turn it is.
    return pool * p.sets + ((p.turn[pool] + later) & (p.sets - 1))


cdef inline void pool_pass(Pool* p, int64_t set) noexcept nogil:
    # A set has given data: it is the turn of the one behind it.
    cdef int64_t pool = pool_of(p, set)
    p.turn[pool] = (set - pool * p.sets + 1) & (p.sets - 1)
