# Release the memory of an SM and of a slice of the L2 (_machine.pxd). Pointers that were never set are NULL.
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from rdmodel.simulator._cache cimport cache_free
from rdmodel.simulator._distances cimport distances_free
from rdmodel.simulator._dram cimport channel_free
from rdmodel.simulator._footprints cimport footprints_free
from rdmodel.simulator._issue cimport warp_free
from rdmodel.simulator._machine cimport Slice, Sm
from rdmodel.simulator._mshrs cimport mshrs_free
from rdmodel.simulator._patterns cimport patterns_free
from rdmodel.simulator._victims cimport victims_free
from rdmodel.structures._ring cimport ring_free


cdef inline void sm_free(Sm* sm, int64_t warps) noexcept nogil:
    cdef int64_t i
    if sm.warp != NULL:
        for i in range(warps):
            warp_free(&sm.warp[i])
    free(sm.warp)
    free(sm.slot)
    free(sm.entry)
    free(sm.entry_ids)
    free(sm.entry_masks)
    free(sm.entry_sectors)
    free(sm.load)
    cache_free(&sm.cache)
    mshrs_free(&sm.mshrs)
    ring_free(&sm.hits)
    ring_free(&sm.resting)
    ring_free(&sm.misses)
    ring_free(&sm.responses)
    if sm.buffer.queue != NULL:
        for i in range(sm.buffer.queues):
            ring_free(&sm.buffer.queue[i])
    free(sm.buffer.queue)
    free(sm.unused)
    distances_free(&sm.distances)
    footprints_free(&sm.footprints)
    victims_free(&sm.victims)
    patterns_free(&sm.patterns)


cdef inline void slice_free(Slice* s) noexcept nogil:
    cache_free(&s.cache)
    mshrs_free(&s.mshrs)
    mshrs_free(&s.passing)
    mshrs_free(&s.crossing)
    ring_free(&s.input)
    ring_free(&s.waiting)
    ring_free(&s.returns)
    ring_free(&s.crossed)
    ring_free(&s.answers)
    channel_free(&s.channel)
