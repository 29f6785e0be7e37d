# The next two requests of a slice: their lines are numbered before the slice handles them, and the records that they will
# need are fetched.
from libc.stdint cimport int64_t

from rdmodel.simulator._cache cimport cache_fetch, cache_fetch_victim, cache_intern_one
from rdmodel.simulator._machine cimport Slice
from rdmodel.structures._ring cimport Ring, ring_at, ring_first


cdef inline int slice_number(Slice* s, int64_t line, int64_t* id) noexcept nogil:
    # Number a line; those of the next requests are numbered already. -1: out of memory.
    cdef bint second = line == s.next_line[1]
    if second or line == s.next_line[0]:
        id[0] = s.next_id[second]
        return 0
    return cache_intern_one(&s.cache, line, id)


cdef inline int slice_prepare(Slice* s, const Ring* queue) noexcept nogil:
    # Number the lines of the next two requests, and fetch the records that they will need; -1: out of memory.
    cdef int64_t line, last, id, last_id
    if queue.size == 0:
        return 0
    line = last = ring_first(queue).line
    if slice_number(s, line, &id) < 0:
        return -1
    last_id = id
    if queue.size > 1:
        last = ring_at(queue, 1).line
        if slice_number(s, last, &last_id) < 0:
            return -1
        s.next_line[1], s.next_id[1] = last, last_id
    s.next_line[0], s.next_id[0] = line, id
    cache_fetch_victim(&s.cache, id)
    cache_fetch(&s.cache, last_id)
    return 0
