# A binary min-heap of events, ordered by (time, order, what): the earliest first, ties in issue order. The warps that a
# barrier lets go have one order, and go on by their slots.
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from rdmodel.structures._memory cimport grow

cdef struct Event:
    int64_t time
    int64_t order
    int64_t what     # a line or a warp, as the user of the heap defines
    int64_t warp

cdef struct Heap:
    Event* item
    int64_t size
    int64_t capacity


cdef inline void heap_init(Heap* h) noexcept nogil:
    h.item = NULL
    h.size = 0
    h.capacity = 0


cdef inline void heap_free(Heap* h) noexcept nogil:
    free(h.item)
    heap_init(h)


cdef inline bint earlier(const Event* a, const Event* b) noexcept nogil:
    if a.time != b.time:
        return a.time < b.time
    return a.order < b.order or (a.order == b.order and a.what < b.what)


cdef inline int heap_push(Heap* h, Event event) noexcept nogil:
    # Add an event; -1: out of memory.
    cdef int64_t child, parent, capacity
    if h.size == h.capacity:
        capacity = 64 if h.capacity == 0 else 2 * h.capacity
        if grow(<void**> &h.item, capacity, sizeof(Event)) < 0:
            return -1
        h.capacity = capacity
    child = h.size
    h.size += 1
    while child > 0:
        parent = (child - 1) >> 1
        if not earlier(&event, &h.item[parent]):
            break
        h.item[child] = h.item[parent]
        child = parent
    h.item[child] = event
    return 0


cdef inline Event heap_pop(Heap* h) noexcept nogil:
    # Remove and return the first event of a heap that is not empty.
    cdef Event first = h.item[0]
    cdef Event last
    cdef int64_t parent = 0, child = 1
    h.size -= 1
    if h.size == 0:
        return first
    last = h.item[h.size]
    while child < h.size:
        if child + 1 < h.size and earlier(&h.item[child + 1], &h.item[child]):
            child += 1
        if not earlier(&h.item[child], &last):
            break
        h.item[parent] = h.item[child]
        parent = child
        child = 2 * parent + 1
    h.item[parent] = last
    return first
