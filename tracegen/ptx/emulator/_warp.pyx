# Registers are whole rows here, indexed by thread. A destination may be a source, so sources are copied first.
"""Execute shuffles, votes and matches between the active lanes of a warp."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from tracegen.ptx.emulator._lanes cimport WARP
from tracegen.ptx.isa._code cimport *


cdef inline int64_t source_lane(int64_t mode, int64_t lane, uint64_t b, uint64_t c, bint* inside) noexcept nogil:
    """Return the lane that `lane` reads from, and whether it is within its segment of the warp."""
    cdef int64_t segment = <int64_t>((c >> 8) & 31)
    cdef int64_t bound = (lane & segment) | (<int64_t>(c & 31) & ~segment)
    cdef int64_t by = <int64_t>(b & 31)
    cdef int64_t source
    if mode == SHFL_UP:
        source = lane - by
        inside[0] = source >= bound
    else:
        if mode == SHFL_DOWN:
            source = lane + by
        elif mode == SHFL_BFLY:
            source = lane ^ by
        else:
            source = (lane & segment) | (by & ~segment)
        inside[0] = source <= bound
    return source if inside[0] else lane


cdef void shuffle_lanes(
    const Code* code, const Lanes* lanes, int64_t threads, uint64_t* copy, uint64_t* d, uint64_t* p,
    const uint64_t* a, const uint64_t* b, const uint64_t* c
) noexcept nogil:
    """Execute shfl: `d` is `a` of the source lane, or the lane's own beyond the block; `p` tells if it was inside."""
    cdef int64_t i, first, thread, source
    cdef bint inside = False
    for i in range(threads):
        copy[i] = a[i]
    for i in range(lanes.n):
        thread = lanes.lane[i]
        first = thread // WARP * WARP
        source = first + source_lane(code.mode, thread - first, b[thread], c[thread], &inside)
        d[thread] = <uint32_t>copy[source if source < threads else thread]
        p[thread] = inside


cdef void vote_lanes(const Code* code, const Lanes* lanes, uint64_t* d, const uint64_t* a) noexcept nogil:
    cdef int64_t i, k
    cdef uint32_t holds
    cdef uint64_t answer
    for k in range(lanes.warps):
        holds = 0
        for i in range(lanes.start[k], lanes.start[k + 1]):
            if a[lanes.lane[i]] & 1:
                holds |= <uint32_t>1 << (lanes.lane[i] % WARP)
        if code.mode == VOTE_BALLOT:
            answer = holds
        elif code.mode == VOTE_ANY:
            answer = holds != 0
        elif code.mode == VOTE_ALL:
            answer = holds == lanes.mask[k]
        else:
            answer = holds == 0 or holds == lanes.mask[k]
        for i in range(lanes.start[k], lanes.start[k + 1]):
            d[lanes.lane[i]] = answer


cdef void match_lanes(
    const Code* code, const Lanes* lanes, uint64_t* copy, uint64_t* d, uint64_t* p, const uint64_t* a
) noexcept nogil:
    cdef int64_t i, j, k
    cdef uint64_t mask = (<uint64_t>0 - 1) >> (64 - code.width)
    cdef uint32_t same
    for i in range(lanes.n):
        copy[i] = a[lanes.lane[i]] & mask
    for k in range(lanes.warps):
        for i in range(lanes.start[k], lanes.start[k + 1]):
            same = 0
            for j in range(lanes.start[k], lanes.start[k + 1]):
                if copy[j] == copy[i]:
                    same |= <uint32_t>1 << (lanes.lane[j] % WARP)
            p[lanes.lane[i]] = same == lanes.mask[k]
            if code.mode == MATCH_ALL and same != lanes.mask[k]:
                same = 0
            d[lanes.lane[i]] = same


cdef void reduce_lanes(const Code* code, const Lanes* lanes, uint64_t* d, const uint64_t* a) noexcept nogil:
    """Execute redux on 32-bit integers."""
    cdef int64_t i, k
    cdef uint32_t one, all
    cdef bint less
    for k in range(lanes.warps):
        all = <uint32_t>a[lanes.lane[lanes.start[k]]]
        for i in range(lanes.start[k] + 1, lanes.start[k + 1]):
            one = <uint32_t>a[lanes.lane[i]]
            less = <int32_t>one < <int32_t>all if code.kind == SIGNED else one < all
            if code.mode == REDUX_ADD:
                all += one
            elif code.mode == REDUX_AND:
                all &= one
            elif code.mode == REDUX_OR:
                all |= one
            elif code.mode == REDUX_XOR:
                all ^= one
            elif one != all and less == (code.mode == REDUX_MIN):
                all = one
        for i in range(lanes.start[k], lanes.start[k + 1]):
            d[lanes.lane[i]] = all
