# A first-in, first-out queue of small records, in a ring buffer that doubles when it is full.
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef struct Item:
    int64_t time      # earliest time at which the reader may take it, where that matters
    int64_t line
    int64_t id        # the line's number in the SM that requested it
    int64_t what      # as the user of the ring defines

cdef struct Ring:
    Item* item
    int64_t head
    int64_t size
    int64_t capacity  # a power of two, or 0


cdef inline void ring_free(Ring* r) noexcept nogil:
    free(r.item)
    r.item = NULL
    r.head = r.size = r.capacity = 0


cdef inline int ring_grow(Ring* r) noexcept nogil:
    cdef int64_t capacity = 16 if r.capacity == 0 else 2 * r.capacity
    cdef int64_t first = min(r.size, r.capacity - r.head)
    cdef Item* grown = <Item*> malloc(<size_t> capacity * sizeof(Item))
    if grown == NULL:
        return -1
    if r.size > 0:
        memcpy(grown, r.item + r.head, <size_t> first * sizeof(Item))
        memcpy(grown + first, r.item, <size_t> (r.size - first) * sizeof(Item))
    free(r.item)
    r.item = grown
    r.head = 0
    r.capacity = capacity
    return 0


cdef inline int ring_push(Ring* r, Item item) noexcept nogil:
    # Append at the back; -1: out of memory.
    if r.size == r.capacity and ring_grow(r) < 0:
        return -1
    r.item[(r.head + r.size) & (r.capacity - 1)] = item
    r.size += 1
    return 0


cdef inline Item* ring_first(const Ring* r) noexcept nogil:
    # Return the front of a ring that is not empty.
    return r.item + r.head


cdef inline Item* ring_at(const Ring* r, int64_t i) noexcept nogil:
    # Return item `i` from the front of a ring with more items.
    return r.item + ((r.head + i) & (r.capacity - 1))


cdef inline Item ring_pop(Ring* r) noexcept nogil:
    # Remove and return the front of a ring that is not empty.
    cdef Item item = r.item[r.head]
    r.head = (r.head + 1) & (r.capacity - 1)
    r.size -= 1
    return item


cdef inline int ring_push_by_time(Ring* r, Item item) noexcept nogil:
    # Insert behind the items with the same or an earlier time; -1: out of memory. O(items with a later time).
    cdef int64_t i, mask
    if ring_push(r, item) < 0:
        return -1
    mask = r.capacity - 1
    i = r.size - 1
    while i > 0 and r.item[(r.head + i - 1) & mask].time > item.time:
        r.item[(r.head + i) & mask] = r.item[(r.head + i - 1) & mask]
        i -= 1
    r.item[(r.head + i) & mask] = item
    return 0
