# Fills and waiting warps of an SM, by time: a ring of days, for events that are due soon.
# Of the fills of a day only their number matters. The warps of a day are a circle in order of their keys.
#
# A key is the arrival of data as one number: its time, and how it ranks among the arrivals of that time. The later it
# was issued, the later it ranks: by the steps from issue to arrival, and then by the transactions of a step. A barrier
# opens before the transactions of its step.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef extern from *:
    const int64_t NEVER "INT64_MAX"
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    MOST_DAYS = 4096         # an event is due in fewer steps; an arrival in at least two fewer (`early_key`)
    MOST_TAGS = 4            # transactions of a step
    KEY_BITS = 15            # of a key, for the rank: 12 for steps, 3 for the place in the step


cdef struct Agenda:
    int64_t first            # time of the first event; NEVER = there is none
    int64_t waiting          # warps
    int64_t days             # a power of two
    uint64_t* busy           # one bit per day: 1 = it has events
    int32_t* fills           # [days]
    int8_t* last             # [days] the last warp of the day; -1 = none
    int64_t[64] key          # of each waiting warp
    uint8_t[64] after        # the next warp of the day; of the last one, the first


cdef inline int64_t arrival_key(int64_t time, int64_t now, int64_t transaction) noexcept nogil:
    # `transaction` counts those of the step before it.
    return (time << KEY_BITS) + (((MOST_DAYS - 1) + now - time) << 3) + 1 + transaction


cdef inline int64_t opening_key(int64_t now) noexcept nogil:
    # The key of warps whose barrier opens now: they go on in the next step.
    return arrival_key(now + 1, now, -1)


cdef inline int64_t early_key(int64_t now, int64_t rank) noexcept nogil:
    # The key of what goes on in the next step before all arrivals, the least of the ranks 0 to 7 first.
    return (now + 1 << KEY_BITS) + rank


cdef inline int64_t key_time(int64_t key) noexcept nogil:
    return key >> KEY_BITS


cdef inline int agenda_init(Agenda* a, int64_t longest) noexcept nogil:
    # Make room for events up to `longest` steps ahead; -1: out of memory.
    a.days = 64
    while a.days <= longest:
        a.days *= 2
    a.first = NEVER
    a.busy = <uint64_t*> calloc(<size_t> a.days >> 6, sizeof(uint64_t))
    a.fills = <int32_t*> calloc(<size_t> a.days, sizeof(int32_t))
    a.last = <int8_t*> malloc(<size_t> a.days)
    if a.busy == NULL or a.fills == NULL or a.last == NULL:
        return -1
    memset(a.last, -1, <size_t> a.days)
    return 0


cdef inline void agenda_free(Agenda* a) noexcept nogil:
    free(a.busy)
    free(a.fills)
    free(a.last)


cdef inline void agenda_mark(Agenda* a, int64_t time) noexcept nogil:
    cdef int64_t day = time & (a.days - 1)
    a.busy[day >> 6] |= <uint64_t> 1 << (day & 63)
    a.first = min(a.first, time)


cdef inline void agenda_add_fill(Agenda* a, int64_t time) noexcept nogil:
    a.fills[time & (a.days - 1)] += 1
    agenda_mark(a, time)


cdef inline void agenda_add_warp(Agenda* a, int64_t warp, int64_t key) noexcept nogil:
    # Let a warp wait until a moment that is still to come.
    cdef int64_t day = key_time(key) & (a.days - 1)
    cdef int64_t last = a.last[day], before = last
    a.key[warp] = key
    a.waiting += 1
    if last < 0:
        a.after[warp] = <uint8_t> warp
        a.last[day] = <int8_t> warp
        agenda_mark(a, key_time(key))
        return
    if key < a.key[last]:
        while a.key[a.after[before]] < key:
            before = a.after[before]
    else:
        a.last[day] = <int8_t> warp
    a.after[warp] = a.after[before]
    a.after[before] = <uint8_t> warp


cdef inline void agenda_end_day(Agenda* a, int64_t time) noexcept nogil:
    # Clear a day, and find the first event behind it.
    cdef int64_t day = time & (a.days - 1), word = day >> 6, words = a.days >> 6, i
    cdef uint64_t rest
    a.fills[day] = 0
    a.last[day] = -1
    a.busy[word] &= ~(<uint64_t> 1 << (day & 63))
    rest = a.busy[word] >> (day & 63)
    if rest:
        a.first = time + lowest_bit(rest)
        return
    time -= day & 63
    for i in range(1, words + 1):
        rest = a.busy[(word + i) & (words - 1)]
        if rest:
            a.first = time + 64 * i + lowest_bit(rest)
            return
    a.first = NEVER
