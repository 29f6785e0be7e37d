# Stalls that can be foreseen: at the end of a cycle, the next transaction of an SM, or the next request of a slice, may
# lack something that nothing but a fill or a message that leaves can give. It counts as tried in the next cycle, in which
# the SM or slice need not wake for it; what helps a stalled one lets it try again.
from libc.stdint cimport int64_t

from rdmodel.simulator._cache cimport VALID, CacheLine, cache_victim
from rdmodel.simulator._issue cimport LOAD
from rdmodel.simulator._machine cimport FAIL_LINE, FAIL_MSHR, FAIL_QUEUE, WRITE, Entry, Slice, Sm
from rdmodel.simulator._mshrs cimport mshr_available
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport ring_first


cdef inline bint sm_foresees_stall(
    Sm* sm, bint fill, int64_t miss_queue, int64_t mshr_per_warp, int64_t t
) noexcept nogil:
    # Let the next transaction of an SM stall in the cycle after `t`, if that can be told; return whether it does.
    # The checks are those of `LoadStore._look_up` and `LoadStore._store`, in their order.
    cdef bint full = sm.misses.size >= miss_queue, none_left = not mshr_available(&sm.mshrs)
    cdef const Entry* e
    cdef const CacheLine* l
    cdef int64_t victim
    if not full and not none_left:
        return False
    e = &sm.entry[sm.entry_head]
    l = &sm.cache.line[e.ids[e.at]]
    if e.op == LOAD:
        if l.mshr != NONE or l.flags & VALID:
            return False
        if not fill and not cache_victim(&sm.cache, l.set, &victim):
            sm.reason = FAIL_LINE
        elif none_left or 0 <= mshr_per_warp <= sm.warp[e.warp].held:
            sm.reason = FAIL_MSHR
        else:
            sm.reason = FAIL_QUEUE
    elif e.local or not full:
        return False
    else:
        sm.reason = FAIL_QUEUE
    sm.stalled = True
    sm.retry = False
    sm.tried = l.set
    sm.since = t + 1
    return True


cdef inline void slice_foresees_stall(Slice* s, int64_t cycle) noexcept nogil:
    # Let a read that is the next request of a slice stall in the L2 cycle after all that have begun, if that can be told.
    # The checks are those of `Network._read_slice` and `Network._fetch`, in their order.
    cdef bint full = s.channel.queued >= s.channel.limit, none_left = not mshr_available(&s.mshrs)
    cdef const CacheLine* l
    cdef int64_t victim
    if not full and not none_left:
        return
    # The line has a number: the request is one of the next two.
    if ring_first(&s.input).what & WRITE or ring_first(&s.input).line != s.next_line[0]:
        return
    l = &s.cache.line[s.next_id[0]]
    if l.mshr != NONE or l.flags & VALID:
        return
    if not cache_victim(&s.cache, l.set, &victim):
        s.reason = FAIL_LINE
    else:
        s.reason = FAIL_MSHR if none_left else FAIL_QUEUE
    s.stalled = True
    s.retry = False
    s.tried = l.set
    s.since = cycle
