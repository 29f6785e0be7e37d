# The data of an L1 whose ways are tags alone: a number of lines that all sets share (docs/gpus.md). When all are in use,
# a line of another set has to leave, and the sets take turns: as many turns have passed as lines have got data.
from libc.stdint cimport int64_t


cdef struct Pool:
    int64_t lines         # 0: each way has data of its own, and the rest means nothing
    int64_t used
    int64_t placed        # how often a line has got data
    int64_t bits          # of the number of a set


cdef inline void pool_init(Pool* p, int64_t lines, int64_t sets) noexcept nogil:
    p.lines = lines
    p.used = p.placed = p.bits = 0
    while 1 << p.bits < sets:
        p.bits += 1


cdef inline int64_t pool_turn(const Pool* p, int64_t turn) noexcept nogil:
    # Return the set whose turn it is, `turn` turns from now: the bits of a count in reverse, so that neighbours are far
    # apart in the count.
    cdef int64_t count = p.placed + turn, set = 0, i
    for i in range(p.bits):
        set = set << 1 | (count >> i & 1)
    return set
