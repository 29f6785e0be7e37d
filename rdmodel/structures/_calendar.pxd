# A calendar queue (Brown 1988) of events, ordered by (time, order): the earliest first, ties in issue order.
# Time is in whole steps, and most events are due soon. Events that are due within DAYS steps are in the list of their
# day, in order. Events that are due later, or were already due when they were put in, are rare; they are on a heap.
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from rdmodel.structures._heap cimport Event, Heap, heap_free, heap_init, heap_pop, heap_push
from rdmodel.structures._memory cimport grow

cdef extern from *:
    const int64_t NEVER "INT64_MAX"
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    DAYS = 1024              # a power of two

cdef struct Entry:
    int64_t order
    int64_t what
    int64_t warp
    int64_t next             # next entry of the same day, a circle; or next free entry, -1 = none

cdef struct Calendar:
    int64_t first            # time of the first event; NEVER = there is none
    int64_t start            # all events before this time have been taken out
    int64_t day              # first time from `start` on whose day has events; NEVER = none has
    Heap other               # events that are in the list of no day
    Entry* entry
    int64_t capacity
    int64_t unused           # the first free entry; -1 = none
    uint64_t[DAYS >> 6] busy # one bit per day: 1 = it has events
    int32_t[DAYS] last       # the last event of each busy day


cdef inline void calendar_init(Calendar* c) noexcept nogil:
    memset(c, 0, sizeof(Calendar))
    c.first = c.day = NEVER
    c.unused = -1
    heap_init(&c.other)


cdef inline void calendar_free(Calendar* c) noexcept nogil:
    heap_free(&c.other)
    free(c.entry)
    c.entry = NULL


cdef inline int calendar_grow(Calendar* c) noexcept nogil:
    # Add free entries; -1: out of memory.
    cdef int64_t i, capacity = max(<int64_t> 64, 2 * c.capacity)
    if grow(<void**> &c.entry, capacity, sizeof(Entry)) < 0:
        return -1
    for i in range(c.capacity, capacity):
        c.entry[i].next = i + 1 if i + 1 < capacity else c.unused
    c.unused = c.capacity
    c.capacity = capacity
    return 0


cdef inline void calendar_insert(Calendar* c, int64_t added, int64_t day) noexcept nogil:
    # Put an entry in the list of its day, in order; most entries become the last one.
    cdef Entry* entry = c.entry
    cdef int64_t last = c.last[day], before = last
    if not (c.busy[day >> 6] >> (day & 63)) & 1:
        c.busy[day >> 6] |= <uint64_t> 1 << (day & 63)
        c.last[day] = <int32_t> added
        entry[added].next = added
        return
    if entry[added].order < entry[last].order:
        while entry[entry[before].next].order < entry[added].order:
            before = entry[before].next
    else:
        c.last[day] = <int32_t> added
    entry[added].next = entry[before].next
    entry[before].next = added


cdef inline int calendar_put(Calendar* c, Event event) noexcept nogil:
    # Put in an event; -1: out of memory.
    cdef int64_t added
    c.first = min(c.first, event.time)
    if event.time < c.start or event.time - c.start >= DAYS:
        return heap_push(&c.other, event)
    if c.unused < 0 and calendar_grow(c) < 0:
        return -1
    added = c.unused
    c.unused = c.entry[added].next
    c.entry[added].order = event.order
    c.entry[added].what = event.what
    c.entry[added].warp = event.warp
    calendar_insert(c, added, event.time & (DAYS - 1))
    c.day = min(c.day, event.time)
    return 0


cdef inline int64_t calendar_next_busy(const Calendar* c, int64_t time) noexcept nogil:
    # Return the first time from `time` on whose day has events, or NEVER.
    cdef int64_t day = time & (DAYS - 1), week = day >> 6, i
    cdef uint64_t rest = c.busy[week] >> (day & 63)
    if rest != 0:
        return time + lowest_bit(rest)
    time -= day & 63
    for i in range(1, (DAYS >> 6) + 1):
        rest = c.busy[(week + i) & ((DAYS >> 6) - 1)]
        if rest != 0:
            return time + 64 * i + lowest_bit(rest)
    return NEVER


cdef inline bint calendar_take(Calendar* c, int64_t now, Event* event) noexcept nogil:
    # Take out the first event that is due by `now`; False: there is none, and `start` becomes `now` + 1.
    cdef int64_t day, last, first
    if c.first > now:
        c.start = now + 1
        return False
    day = c.day & (DAYS - 1)
    last = c.last[day]
    first = c.entry[last].next if c.day != NEVER else -1
    if c.other.size > 0 and (
        c.other.item[0].time < c.day
        or (c.other.item[0].time == c.day and c.other.item[0].order < c.entry[first].order)
    ):
        event[0] = heap_pop(&c.other)
    else:
        event[0] = Event(c.day, c.entry[first].order, c.entry[first].what, c.entry[first].warp)
        c.entry[last].next = c.entry[first].next
        c.entry[first].next = c.unused
        c.unused = first
        if first == last:
            c.busy[day >> 6] &= ~(<uint64_t> 1 << (day & 63))
            c.day = calendar_next_busy(c, c.day)
    c.first = min(c.day, c.other.item[0].time) if c.other.size > 0 else c.day
    return True
