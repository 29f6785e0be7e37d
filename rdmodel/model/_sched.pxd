# Which of the ready warps issues next: the schedulers, as codes. SCHED_RANDOM draws a number instead.
from libc.stdint cimport int64_t, uint64_t

from rdmodel.model._warp cimport Warp

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    SCHED_RANDOM = 0
    SCHED_FIFO = 1       # the first that became ready
    SCHED_LRR = 2        # loose round-robin: the first ready slot after that of the last issuer
    SCHED_GTO = 3        # greedy, then oldest: the last issuer, else the oldest
    SCHED_OLDEST = 4

cdef enum:
    MOST_SCHEDULERS = 4

cdef struct Scheduler:
    int64_t kind
    int64_t last         # the slot of the last issuer, and its age: the slot may have passed to another warp
    int64_t last_age


# Slots as sets of bits, 64 in a word: those of ready warps, and those of each scheduler.
cdef inline bint has_bit(const uint64_t* bits, int64_t at) noexcept nogil:
    return (bits[at >> 6] >> (at & 63)) & 1


cdef inline int64_t next_in_circle(
    const uint64_t* bits, const uint64_t* own, int64_t words, int64_t first
) noexcept nogil:
    # Return the first slot from `first` on, and then from 0 on, that is in both sets; -1 if there is none.
    cdef int64_t i, word = first >> 6
    cdef uint64_t found = bits[word] & own[word] & (~<uint64_t> 0 << (first & 63))
    for i in range(words + 1):
        if found:
            return (word << 6) + lowest_bit(found)
        word = word + 1 if word + 1 < words else 0
        found = bits[word] & own[word]
    return -1


cdef inline int64_t oldest_of(
    const uint64_t* bits, const uint64_t* own, int64_t words, const Warp* warp
) noexcept nogil:
    # Return the slot in both sets whose warp is the oldest; -1 if there is none.
    cdef int64_t word, slot, best = -1
    cdef uint64_t left
    for word in range(words):
        left = bits[word] & own[word]
        while left:
            slot = (word << 6) + lowest_bit(left)
            left &= left - 1
            if best < 0 or warp[slot].age < warp[best].age:
                best = slot
    return best


cdef inline int64_t sched_pick(
    const Scheduler* s, const uint64_t* bits, const uint64_t* own, int64_t words, int64_t slots, const Warp* warp
) noexcept nogil:
    # Return the slot of the ready warp that a scheduler chooses among its own, -1 if it has none; not for those that go
    # by the order of the ready list.
    if s.kind == SCHED_LRR:
        return next_in_circle(bits, own, words, s.last + 1 if s.last + 1 < slots else 0)
    if s.kind == SCHED_GTO and s.last >= 0 and has_bit(bits, s.last) and warp[s.last].age == s.last_age:
        return s.last
    return oldest_of(bits, own, words, warp)
