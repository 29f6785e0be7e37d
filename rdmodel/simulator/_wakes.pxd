# The cycles in which SMs and slices can next do something. Each has a number, and may wake earlier than it has planned.
# A ring of slots, one per cycle, has the bits of those that may wake then; in the last one are those that wake later, too.
# So the next cycle with work is found without a look at each of them. A bit may outlast its wake, and is then dropped.
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel.simulator._issue cimport lowest_bit

cdef enum:
    NEVER = 0x3fffffffffffffff
    SLOTS = 64


cdef struct Wakes:
    int64_t* time         # [count]
    int64_t words         # of the bits of a slot
    uint64_t* slot        # [SLOTS x words]
    uint64_t filled       # slots with bits


cdef inline int wakes_init(Wakes* w, int64_t count) noexcept nogil:
    # Nothing wakes yet. -1: out of memory.
    cdef int64_t i
    w.words = count + 63 >> 6
    w.filled = 0
    w.time = <int64_t*> malloc(<size_t> count * sizeof(int64_t))
    w.slot = <uint64_t*> calloc(<size_t> (SLOTS * w.words), sizeof(uint64_t))
    if w.time == NULL or w.slot == NULL:
        return -1
    for i in range(count):
        w.time[i] = NEVER
    return 0


cdef inline void wakes_free(Wakes* w) noexcept nogil:
    free(w.time)
    free(w.slot)


cdef inline void wakes_mark(Wakes* w, int64_t number, int64_t now) noexcept nogil:
    # Set the bit of a number that is to wake after `now`.
    cdef int64_t slot = min(w.time[number], now + SLOTS - 1) & (SLOTS - 1)
    w.slot[slot * w.words + (number >> 6)] |= <uint64_t> 1 << (number & 63)
    w.filled |= <uint64_t> 1 << slot


cdef inline void wakes_plan(Wakes* w, int64_t number, int64_t time, int64_t now) noexcept nogil:
    # Let a number wake at `time`, which is after `now`, or NEVER.
    w.time[number] = time
    if time < NEVER:
        wakes_mark(w, number, now)


cdef inline void wakes_rouse(Wakes* w, int64_t number, int64_t time, int64_t now) noexcept nogil:
    # Let a number wake at `time`, unless it wakes earlier.
    if time < w.time[number]:
        wakes_plan(w, number, time, now)


cdef inline uint64_t wakes_take(Wakes* w, int64_t word, int64_t t) noexcept nogil:
    # Take the bits of cycle `t` in a word; ask `wakes_due` about each, and take those of all words.
    cdef uint64_t* bits = w.slot + (t & (SLOTS - 1)) * w.words + word
    cdef uint64_t taken = bits[0]
    bits[0] = 0
    w.filled &= ~(<uint64_t> 1 << (t & (SLOTS - 1)))
    return taken


cdef inline bint wakes_due(Wakes* w, int64_t number, int64_t t) noexcept nogil:
    # Tell whether a number whose bit was taken wakes in cycle `t`; if it wakes later, mark it again.
    if w.time[number] <= t:
        return True
    if w.time[number] < NEVER:
        wakes_mark(w, number, t)
    return False


cdef inline bint wakes_any(const Wakes* w, int64_t t) noexcept nogil:
    # Tell whether a number wakes in cycle `t`.
    cdef int64_t word
    cdef uint64_t left
    for word in range(w.words):
        left = w.slot[(t & (SLOTS - 1)) * w.words + word]
        while left:
            if w.time[(word << 6) + lowest_bit(left)] <= t:
                return True
            left &= left - 1
    return False


cdef inline int64_t wakes_next(Wakes* w, int64_t now) noexcept nogil:
    # Return the first cycle after `now` in which a number wakes, or NEVER.
    cdef int64_t word, t = now
    cdef uint64_t left
    cdef int turn
    while w.filled:
        turn = (t + 1) & (SLOTS - 1)
        t += 1 + lowest_bit(w.filled >> turn | w.filled << ((SLOTS - turn) & (SLOTS - 1)))
        if wakes_any(w, t):
            return t
        for word in range(w.words):
            left = wakes_take(w, word, t)
            while left:
                wakes_due(w, (word << 6) + lowest_bit(left), t)
                left &= left - 1
    return NEVER
