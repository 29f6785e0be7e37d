# Sets of lanes of a block. All threads of a block share one numbering: lane 40 is lane 8 of warp 1.
from libc.stdint cimport int32_t, int64_t, uint32_t

from tracegen.ptx.isa._code cimport Lanes

cdef enum:
    WARP = 32
    MAX_BLOCK_THREADS = 1024


cdef inline bint begins_warp(const Lanes* lanes, int64_t i) noexcept nogil:
    # Return whether the lane at place i of a set is the first one of its warp there.
    return i == 0 or lanes.lane[i - 1] // WARP != lanes.lane[i] // WARP


cdef inline void derive_warps(Lanes* lanes) noexcept nogil:
    # Complete a set of lanes: derive its warps, their masks, and whether it is contiguous.
    cdef int64_t i, k = -1
    cdef int32_t lane, warp
    lanes.contiguous = lanes.n > 0 and lanes.lane[lanes.n - 1] - lanes.lane[0] == lanes.n - 1
    for i in range(lanes.n):
        lane = lanes.lane[i]
        warp = lane // WARP
        if k < 0 or lanes.warp[k] != warp:
            k += 1
            lanes.warp[k] = warp
            lanes.start[k] = <int32_t>i
            lanes.mask[k] = 0
        lanes.mask[k] |= <uint32_t>1 << (lane % WARP)
    lanes.warps = k + 1
    lanes.start[k + 1] = <int32_t>lanes.n
